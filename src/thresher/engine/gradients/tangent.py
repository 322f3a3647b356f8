"""How far each example's gradient agrees with the clean set's (L2RW, Ren et al. 2018, Algorithm 1).

With g the gradient of the mean clean loss, the meta-gradient of Algorithm 1 is one directional derivative: at ε = 0 the
look-ahead parameters are the current ones, and there -∂/∂εᵢ of the clean loss is α · uᵢ with uᵢ = d/dt ℓᵢ(θ + t·g);
normalising cancels the step size α. θ are the parameters of the model, not those of an objective. Models whose layers
all have factored formulas get u from the training chain itself (`Factors.along`), others from one pass in forward mode,
or where that is missing by differentiating the gradient.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import import_module

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.nn.attention import SDPBackend, sdpa_kernel

Direction = Mapping[nn.Parameter, Tensor]


def direction_of(model: nn.Module, losses: Tensor) -> Direction:
    """The gradient of the mean of these losses, of every trainable parameter that they depend on."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    gradients = torch.autograd.grad(losses.mean(), parameters, allow_unused=True)
    return {p: gradient for p, gradient in zip(parameters, gradients, strict=True) if gradient is not None}


def by_forward_mode(model: nn.Module, losses: Callable[[Mapping[str, Tensor]], Tensor], direction: Direction) -> Tensor:
    """d/dt ℓᵢ(θ + t·direction) [n] by one pass in forward mode; `losses` makes it, with the values it is given.

    The values are dual parameters, and copies of the buffers, because BatchNorm writes to them.
    Attention runs under the math kernel: the fused ones have no forward mode.

    >>> model = nn.Linear(2, 1, bias=False)
    >>> inputs, along = torch.tensor([[3.0, 4.0], [0.0, 2.0]]), {model.weight: torch.tensor([[1.0, 10.0]])}
    >>> by_forward_mode(model, lambda values: inputs @ values["weight"][0], along).tolist()
    [43.0, 20.0]
    """
    _load_formulas()
    with forward_ad.dual_level(), torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
        values = {
            name: forward_ad.make_dual(value.detach(), direction[value])  # type: ignore[no-untyped-call]
            for name, value in model.named_parameters()
            if value in direction
        }
        found = losses(values | {name: buffer.clone() for name, buffer in model.named_buffers()})
        tangent: Tensor | None = forward_ad.unpack_dual(found).tangent  # type: ignore[no-untyped-call]
    return torch.zeros_like(found) if tangent is None else tangent


@cache
def _load_formulas() -> None:
    """Torch loads some formulas of forward mode at its first use, and while it does it warns of a habit of its own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        import_module("torch._decomp.decompositions_for_jvp")


def by_two_backwards(losses: Tensor, direction: Direction) -> Tensor:
    """The same by differentiating the gradient, on the graph of the losses [n], which stays."""
    each = torch.ones_like(losses, requires_grad=True)
    gradients = torch.autograd.grad(losses, list(direction), each, create_graph=True, allow_unused=True)
    pairs = [(g, d) for g, d in zip(gradients, direction.values(), strict=True) if g is not None]
    return torch.autograd.grad([g for g, _ in pairs], each, [d for _, d in pairs])[0]


@contextmanager
def entered(model: nn.Module) -> Iterator[list[str]]:
    """The names of the layers that forward passes inside the block have entered, the latest last."""
    names = ["the model"]
    hooks = []
    for name, layer in model.named_modules():
        said = f"{name} ({type(layer).__name__})" if name else f"the model ({type(layer).__name__})"
        hooks.append(layer.register_forward_pre_hook(lambda *_, said=said: names.append(said)))
    try:
        yield names
    finally:
        for hook in hooks:
            hook.remove()
