"""Exact gradient norms of single examples, and their weighted gradient, from one backward chain.

The chain runs through the layer outputs only; autograd forms no weight gradient. Layer inputs and output gradients then
give the norm of every example's gradient and, once the weights are known, Σ_i w_i ∂loss_i/∂θ. No second chain, and no
gradient of the whole model for each example (PRL(G), Liu et al. 2021, Algorithm 1; norm clipping).
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.hooks import RemovableHandle

from thresher.core.errors import ThresherError
from thresher.engine.gradients.convolution import convolution
from thresher.engine.gradients.layers import Share, batch_norm, embedding, group_norm, layer_norm, linear

FORMULAS: dict[type[nn.Module], Callable[[nn.Module, Tensor, Tensor, bool], list[Share]]] = {
    nn.Linear: linear,
    nn.Conv1d: convolution,
    nn.Conv2d: convolution,
    nn.Embedding: embedding,
    nn.LayerNorm: layer_norm,
    nn.GroupNorm: group_norm,
    nn.BatchNorm1d: batch_norm,
    nn.BatchNorm2d: batch_norm,
}


class NotFactored(ThresherError):  # noqa: N818
    """The model does something the factored formulas do not cover; `norms_by_vmap` may."""


def supported(model: nn.Module) -> str | None:
    """None if formulas cover every trainable parameter, otherwise why not, naming the first layer.

    >>> supported(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))) is None
    True
    >>> supported(nn.Sequential(nn.Linear(3, 4), nn.PReLU()))
    '1 is a PReLU, which has no formula'
    """
    owners: dict[nn.Parameter, str] = {}
    for name, layer in _trainable(model):
        reason = _uncovered(layer)
        if reason is not None:
            return f"{name or 'the model'} {reason}"
        for parameter in layer.parameters(recurse=False):
            if parameter in owners:
                return f"{name} shares a parameter with {owners[parameter]}"
            owners[parameter] = name
    return None


def refuse_batch_norm(model: nn.Module) -> None:
    """Refuse BatchNorm by batch statistics: it mixes the examples, so that no example has a gradient of its own."""
    for name, layer in model.named_modules():
        if isinstance(layer, _BatchNorm) and (layer.training or layer.running_mean is None):
            raise ThresherError(
                f"{name or 'the model'} is a {type(layer).__name__} that mixes the examples of a batch, so that they "
                "have no gradient norms of their own: convert it by thresher.models.batch_to_group_norm(model), or "
                "freeze its statistics by thresher.models.freeze_batch_norm(model); built-in models do so as NAME-gn "
                "and NAME-frozen."
            )


class Factors:
    """Layer inputs and output gradients of one forward pass, from which norms and weighted gradients come."""

    def __init__(self, shares: list[Share]):
        self._shares = shares

    def norms(self) -> Tensor:
        """‖∂loss_i/∂θ‖ [n] over all trainable parameters."""
        squares = [share.squared for share in self._shares if share.squared is not None]
        assert len(squares) == len(self._shares), "norms were not asked for"
        return torch.stack(squares).sum(0).clamp_min(0).sqrt()

    @torch.no_grad()
    def along(self, direction: Mapping[nn.Parameter, Tensor]) -> Tensor:
        """∂loss_i/∂θ · direction [n]: each layer applied with it as its kernel, times its output gradients."""
        known = [(share, direction.get(cast(nn.Parameter, share.parameter))) for share in self._shares]
        device = self._shares[0].parameter.device
        with torch.autocast(device.type, enabled=False):
            return torch.stack([share.along(given) for share, given in known if given is not None]).sum(0)

    @torch.no_grad()
    def accumulate(self, weights: Tensor) -> None:
        """Add Σ_i weights_i ∂loss_i/∂p to `p.grad` of every trainable parameter p that the losses depend on."""
        for share in self._shares:
            parameter = share.parameter
            with torch.autocast(weights.device.type, enabled=False):
                gradient = share.weighted(weights).reshape(parameter.shape).to(parameter.dtype)
            if gradient.stride() != parameter.stride():  # fused optimizers want both laid out alike
                gradient = torch.empty_like(parameter).copy_(gradient)
            parameter.grad = gradient if parameter.grad is None else parameter.grad.add_(gradient)


@dataclass(frozen=True, eq=False)
class Call:
    """One call of a layer in the forward pass."""

    name: str
    layer: nn.Module
    inputs: Tensor
    version: int
    edge: GradientEdge  # the output as the layer gave it, even if something changes it in place afterwards
    rows: int


class Recorder:
    """Inside its `with` block, notes inputs and outputs of every layer that has trainable parameters."""

    def __init__(self, model: nn.Module):
        reason = supported(model)
        if reason is not None:
            raise NotFactored(f"Factored gradients do not cover this model: {reason}; use norms_by_vmap.")
        self._layers = list(_trainable(model))
        self._calls: list[Call] = []
        self._hooks: list[RemovableHandle] = []

    def __enter__(self) -> "Recorder":
        for name, layer in self._layers:
            hook = partial(self._note, name)  # the first, because hooks of others may change the output
            self._hooks.append(layer.register_forward_hook(hook, prepend=True, with_kwargs=True))
        return self

    def __exit__(self, *_: object) -> None:
        while self._hooks:
            self._hooks.pop().remove()

    def _note(self, name: str, layer: nn.Module, args: Any, kwargs: Any, output: Tensor) -> None:
        if output.requires_grad:
            inputs = (args[0] if args else kwargs["input"]).detach()
            edge = get_gradient_edge(output)
            self._calls.append(Call(name, layer, inputs, inputs._version, edge, output.shape[0]))

    def differentiate(self, losses: Tensor, retain_graph: bool = False, norms: bool = True) -> Factors:
        """Run the one backward chain of `losses` [n], where row i of every layer belongs to example i.

        Without `norms` the factors give only what needs no gradient of a single example.
        """
        self._refuse(len(losses))
        edges = [call.edge for call in self._calls]
        deltas = list(torch.autograd.grad(losses.sum(), edges, retain_graph=retain_graph, allow_unused=True))
        shares: list[Share] = []
        with torch.no_grad(), torch.autocast(losses.device.type, enabled=False):
            while deltas:  # both lists are emptied on the way, so that tensors no share keeps are freed at once
                call, delta = self._calls.pop(), deltas.pop()
                if delta is not None:
                    shares.extend(FORMULAS[type(call.layer)](call.layer, call.inputs, delta, norms))
        if not shares:
            raise NotFactored("The losses depend on no trainable layer: compute them from the recorded outputs.")
        return Factors(shares)

    def verify(self, losses: Tensor) -> None:
        """Refuse what `differentiate` cannot see; one more chain and a synchronisation, so ask at the first batch only.

        That is: a parameter used outside its layer, and layers whose rows are not the examples.
        """
        self._refuse(len(losses))
        edges, half = [call.edge for call in self._calls], len(losses) // 2
        deltas = torch.autograd.grad(losses[:half].sum(), edges, retain_graph=True, allow_unused=True)
        reached = {call.layer: delta is not None for call, delta in zip(self._calls, deltas, strict=True)}
        uses = _uses(losses)
        for name, layer in self._layers:
            if any(uses[parameter] > reached.get(layer, False) for parameter in layer.parameters(recurse=False)):
                raise NotFactored(f"A parameter of {name} is also used outside that layer: use norms_by_vmap.")
        for call, delta in zip(self._calls, deltas, strict=True):
            if delta is not None and delta[half:].any():
                raise NotFactored(
                    f"{call.name} mixes examples, or its first dimension is not theirs: use norms_by_vmap."
                )

    def _refuse(self, rows: int) -> None:
        if not self._calls:
            raise NotFactored("No layer was recorded: run the forward pass inside the with block, gradients enabled.")
        seen: set[nn.Module] = set()
        for call in self._calls:
            if call.layer in seen:
                raise NotFactored(f"{call.name} is called twice in one forward pass: use norms_by_vmap.")
            seen.add(call.layer)
            if call.rows != rows or call.inputs.ndim < _batched(call.layer) or call.inputs.shape[0] != call.rows:
                raise NotFactored(
                    f"{call.name} got inputs of shape {list(call.inputs.shape)} for {rows} examples, so its rows "
                    "are not the examples: use norms_by_vmap."
                )
            if call.inputs._version != call.version:
                raise NotFactored(
                    f"The inputs of {call.name} are changed in place after it: use an operation that copies."
                )


def record(model: nn.Module) -> Recorder:
    """Note a forward pass: `with record(model) as recorder: ...`, then `recorder.differentiate(losses)`.

    >>> model = nn.Linear(2, 1, bias=False)
    >>> with record(model) as recorder:
    ...     outputs = model(torch.tensor([[3.0, 4.0], [0.0, 2.0]]))
    >>> factors = recorder.differentiate(outputs[:, 0])
    >>> factors.accumulate(torch.tensor([1.0, 10.0]))
    >>> factors.norms().tolist(), model.weight.grad.tolist()
    ([5.0, 2.0], [[3.0, 24.0]])
    """
    return Recorder(model)


def _trainable(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    for name, layer in model.named_modules():
        if any(parameter.requires_grad for parameter in layer.parameters(recurse=False)):
            yield name, layer


def _uncovered(layer: nn.Module) -> str | None:
    kind = type(layer).__name__
    if type(layer) not in FORMULAS:
        return f"is a {kind}, which has no formula"
    own = {name for name, _ in layer.named_parameters(recurse=False)}
    if own != {name for name in ("weight", "bias") if getattr(layer, name, None) is not None}:
        return f"is a {kind} whose weight or bias is no parameter of its own"  # as after pruning or weight_norm
    if isinstance(layer, (nn.Conv1d, nn.Conv2d)) and layer.padding_mode != "zeros":
        return f"is a {kind} with {layer.padding_mode} padding, which has no formula"
    if isinstance(layer, nn.Embedding) and (layer.sparse or layer.scale_grad_by_freq):
        return "is an Embedding with sparse or frequency-scaled gradients, which have no formula"
    if isinstance(layer, _BatchNorm) and (layer.training or layer.running_mean is None):
        return f"is a {kind} that mixes the examples of a batch"
    return None


def _batched(layer: nn.Module) -> int:
    """The dimensions the inputs of a layer have at least; with fewer, it was called on one example."""
    if isinstance(layer, nn.LayerNorm):
        return 1 + len(layer.normalized_shape)
    return {nn.Embedding: 1, nn.Conv1d: 3, nn.Conv2d: 4}.get(type(layer), 2)


def _uses(losses: Tensor) -> Counter[Tensor]:
    """How often the graph of `losses` reads each parameter."""
    uses: Counter[Tensor] = Counter()
    waiting, seen = [losses.grad_fn], {losses.grad_fn}
    while waiting:
        node = waiting.pop()
        for follower, _ in node.next_functions if node is not None else ():
            if type(follower).__name__ == "AccumulateGrad":
                uses[follower.variable] += 1  # type: ignore[union-attr]
            elif follower is not None and follower not in seen:
                seen.add(follower)
                waiting.append(follower)
    return uses
