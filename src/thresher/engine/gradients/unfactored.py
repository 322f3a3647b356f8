"""Gradients of single examples through models without factored formulas: their norms, and how far they agree.

Norms are taken by `vmap(grad)`. The agreement is that with the clean set's gradient (L2RW, Ren et al. 2018, Algorithm
1). With g the gradient of the mean clean loss, the meta-gradient of Algorithm 1 is one directional derivative: at ε = 0
the look-ahead parameters are the current ones, and there -∂/∂εᵢ of the clean loss is α · uᵢ with uᵢ = d/dt ℓᵢ(θ + t·g);
normalising cancels the step size α. θ are the parameters of the model, not those of an objective. Models whose layers
all have factored formulas get u from the training chain itself (`Factors.along`), others from one pass in forward mode,
or where that is missing by differentiating the gradient.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.func import grad, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.modules.dropout import _DropoutNd

from thresher.core.errors import ThresherError
from thresher.core.trees import Tree, call_with, mapped, rows
from thresher.engine.device.placement import as_written
from thresher.engine.gradients.formulas import refuse_batch_norm, supported

Direction = Mapping[nn.Parameter, Tensor]


def trained_parameters(model: nn.Module) -> list[nn.Parameter]:
    """The parameters that training moves."""
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def direction_of(parameters: Sequence[nn.Parameter], losses: Tensor) -> Direction:
    """The gradient of the mean of these losses, of each of the parameters that they depend on."""
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
    load_formulas()
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
def load_formulas() -> None:
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


def norms_by_vmap(
    model: nn.Module, inputs: Tree, output_gradients: Tensor, chunk: int = 16, why_not: str | None = None
) -> Tensor:
    """The same norms [n] for models without formulas, by `vmap(grad)`: `chunk` copies of the gradient at a time.

    `output_gradients` are ∂loss_i/∂outputs_i [n, ...]; an objective that looks at the whole batch has seen it in them.
    Refusals say `why_not` the factored way, if that is known.
    """
    refuse_batch_norm(model)
    why_not = why_not or supported(model) or "although every layer has a formula"
    for name, layer in model.named_modules():
        if isinstance(layer, _DropoutNd) and layer.training and layer.p > 0:
            raise ThresherError(
                f"{name} draws dropout masks, which vmap(grad) cannot repeat: call eval() on it, or use only layers "
                f"with factored formulas ({why_not.rstrip('.')})."
            )
    trained = {name: value.detach() for name, value in model.named_parameters() if value.requires_grad}
    others = {name: value.detach() for name, value in model.named_parameters() if not value.requires_grad}

    def along(parameters: dict[str, Tensor], example: Tree, output_gradient: Tensor) -> Tensor:
        buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}  # a pass may write to them
        with as_written():
            outputs = call_with(model, (parameters, others, buffers), mapped(lambda leaf: leaf[None], example))
        return (outputs[0] * output_gradient).sum()

    def norms(examples: Tree, output_gradients: Tensor) -> Tensor:
        gradients = vmap(grad(along), (None, 0, 0))(trained, examples, output_gradients)
        flat = [each.reshape(len(each), -1) for each in gradients.values()]  # a parameter may be a single number
        return torch.stack([each.float().square().sum(1) for each in flat]).sum(0).sqrt()

    try:
        blocks = [slice(start, start + chunk) for start in range(0, len(output_gradients), chunk)]
        return torch.cat([norms(rows(inputs, block), output_gradients[block]) for block in blocks])
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        said = str(error).splitlines()[0]
        raise ThresherError(
            f"vmap(grad) cannot take the gradients of single examples through this model ({why_not.rstrip('.')}): "
            f"replace that layer, or use output_gradient_norm, which needs none of them; torch said: {said}"
        ) from error
