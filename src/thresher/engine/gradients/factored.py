"""Exact gradient norms of single examples, and their weighted gradient, from one backward chain.

The chain runs through the layer outputs only; autograd forms no weight gradient. Layer inputs and output gradients then
give the norm of every example's gradient and, once the weights are known, Σ_i w_i ∂loss_i/∂θ. No second chain, and no
gradient of the whole model for each example (PRL(G), Liu et al. 2021, Algorithm 1; norm clipping).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd.graph import get_gradient_edge
from torch.utils._pytree import tree_leaves
from torch.utils.hooks import RemovableHandle

from thresher.engine.gradients.calls import (
    Call,
    Inside,
    kept_by,
    takes_one_tensor_to_one,
    used_elsewhere,
    uses_inside,
    uses_of,
)
from thresher.engine.gradients.formulas import supported, trainable
from thresher.engine.gradients.layers import NotFactored, Share, kept
from thresher.engine.gradients.outer import Outer, outer_share


class Factors:
    """Layer inputs and output gradients of one forward pass, from which norms and weighted gradients come."""

    def __init__(self, shares: list[Share]):
        self._shares = shares

    def norms(self) -> Tensor:
        """‖∂loss_i/∂θ‖ [n] over all trainable parameters."""
        squares = [found for share in self._shares if (found := share.squares()) is not None]
        assert len(squares) == len(self._shares), "norms were not asked for"
        return torch.stack(squares).sum(0).clamp_min(0).sqrt()

    @torch.no_grad()
    def along(self, direction: Mapping[nn.Parameter, Tensor]) -> Tensor:
        """∂loss_i/∂θ · direction [n]: each layer applied with it as its kernel, times its output gradients."""
        known = [(share, direction.get(cast(nn.Parameter, share.parameter))) for share in self._shares]
        with in_full_precision(self._shares[0].parameter.device):
            return torch.stack([share.along(given) for share, given in known if given is not None]).sum(0)

    @torch.no_grad()
    def accumulate(self, weights: Tensor) -> None:
        """Add Σ_i weights_i ∂loss_i/∂p to `p.grad` of every trainable parameter p that the losses depend on."""
        with in_full_precision(weights.device):
            for share in self._shares:
                parameter = share.parameter
                gradient = share.weighted(weights).reshape(parameter.shape).to(parameter.dtype)
                if gradient.stride() != parameter.stride():  # fused optimizers want both laid out alike
                    gradient = torch.empty_like(parameter).copy_(gradient)
                parameter.grad = gradient if parameter.grad is None else parameter.grad.add_(gradient)


class Recorder:
    """Inside its `with` block, notes inputs and outputs of every layer that has trainable parameters."""

    def __init__(self, model: nn.Module, layers: Sequence[tuple[str, nn.Module]]):
        self._model, self._layers = model, layers
        self._calls: list[Call] = []
        self._hooks: list[RemovableHandle] = []
        self._inside = Inside(self._layers, self._note)
        self._examples = 0
        self._lowered: tuple[Tensor, int, Tensor] | None = None

    def __enter__(self) -> "Recorder":
        self._hooks.append(self._model.register_forward_pre_hook(self._count, with_kwargs=True))
        self._inside.__enter__()
        for name, layer in self._layers:
            if layer in self._inside:
                continue
            hook = partial(self._note, name)  # the first, because hooks of others may change the output
            self._hooks.append(layer.register_forward_hook(hook, prepend=True, with_kwargs=True))
        return self

    def __exit__(self, *error: Any) -> None:
        self._lowered = None
        self._inside.__exit__(*error)
        while self._hooks:
            self._hooks.pop().remove()

    def _count(self, model: nn.Module, args: Any, kwargs: Any) -> None:  # noqa: ARG002
        """Note how many examples the model gets: the rows of its first tensor."""
        leaves = args if len(args) == 1 and isinstance(args[0], Tensor) else tree_leaves((args, kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor) and leaf.ndim]
        self._examples = self._inside.examples = tensors[0].shape[0] if tensors else 0

    def _note(self, name: str, layer: nn.Module, args: Any, kwargs: Any, output: Any) -> Tensor | None:
        """Note a call; an output that all examples share, such as that of positions, is given to each of them."""
        given = [*args, *kwargs.values()]
        if not takes_one_tensor_to_one(layer, given, output):
            raise NotFactored(f"{name} does not take one tensor to one tensor.")
        if not output.requires_grad:
            return None
        inputs, shared = given[0].detach(), output.ndim and output.shape[0] == given[0].shape[0] == 1 < self._examples
        if shared:
            inputs, output = (part.expand(self._examples, *part.shape[1:]) for part in (inputs, output))
        saved, moments = (None, None) if shared else kept_by(layer, output, inputs)
        inputs = self._as_computed_with(given[0], inputs, output) if saved is None else saved
        edge = get_gradient_edge(output)
        rows = output.shape[0] if output.ndim else 0
        self._calls.append(Call(name, layer, inputs, inputs._version, edge, rows, moments))
        return output if shared else None

    def _as_computed_with(self, given: Tensor, inputs: Tensor, output: Tensor) -> Tensor:
        """The inputs in the precision of the output where autocast has lowered it, once for layers that share them."""
        if not inputs.is_floating_point() or inputs.itemsize <= output.itemsize:
            return inputs
        if self._lowered is None or self._lowered[0] is not given or self._lowered[1] != given._version:
            self._lowered = (given, given._version, inputs.to(output.dtype))
        return self._lowered[2]

    def differentiate(self, losses: Tensor, retain_graph: bool = False, norms: bool = True) -> Factors:
        """Run the one backward chain of `losses` [n], where row i of every layer belongs to example i.

        Without `norms` the factors give only what needs no gradient of a single example.
        """
        self._refuse(len(losses))
        edges = [call.edge for call in self._calls]
        of_each = torch.ones_like(losses)
        deltas = list(torch.autograd.grad(losses, edges, of_each, retain_graph=retain_graph, allow_unused=True))
        # By their ids, because hashing a tensor takes longer: the calls to come that use each parameter, and its uses.
        waiting = Counter(id(parameter) for call in self._calls for parameter in call.parameters)
        uses: dict[int, list[Share | Outer]] = {}
        shares: list[Share] = []
        with torch.no_grad(), in_full_precision(losses.device):
            while deltas:  # both lists are emptied on the way, so that tensors no share keeps are freed at once
                call, delta = self._calls.pop(), deltas.pop()
                for parameter in call.parameters:
                    waiting[id(parameter)] -= 1
                for use in call.shares(delta, len(losses), norms):
                    uses.setdefault(id(use.parameter), []).append(use)
                whole = [parameter for parameter in uses if not waiting[parameter]]
                shares += [_together(uses.pop(parameter), call.name, norms) for parameter in whole]
        if not shares:
            raise NotFactored("The losses depend on no trainable layer: compute them from the recorded outputs.")
        return Factors(shares)

    def verify(self, losses: Tensor) -> None:
        """Refuse what `differentiate` cannot see; one more chain and a synchronisation, so ask at the first batch only.

        That is: a parameter used outside its layer, and layers whose rows are not the examples.
        """
        self._refuse(len(losses))
        uses = uses_of(losses)
        half, edges = len(losses) // 2, [call.edge for call in self._calls]
        deltas = torch.autograd.grad(losses[:half].sum(), edges, retain_graph=True, allow_unused=True)
        reached: Counter[Tensor] = Counter()
        for call, delta in zip(self._calls, deltas, strict=True):
            if delta is None:
                continue
            if delta.reshape(len(losses), -1)[half:].any():
                raise NotFactored(f"{call.name} mixes examples, or its first dimension is not theirs.")
            reached += uses_inside(call.layer, call.inputs) if call.has_no_formula else Counter(call.parameters)
        for name, layer in self._layers:
            if any(uses[parameter] > reached[parameter] for parameter in layer.parameters(recurse=False)):
                raise NotFactored(used_elsewhere(name, layer))

    def _refuse(self, rows: int) -> None:
        if not self._calls:
            raise NotFactored("No layer was recorded: run the forward pass inside the with block, gradients enabled.")
        for call in self._calls:
            if not call.is_by_example(rows):
                raise NotFactored(
                    f"{call.name} got inputs of shape {list(call.inputs.shape)} for {rows} examples, so its rows "
                    "are not the examples."
                )
            if call.inputs._version != call.version:
                raise NotFactored(
                    f"The inputs of {call.name} are changed in place after it: use an operation that copies."
                )


def in_full_precision(device: torch.device) -> AbstractContextManager[object]:
    """What formulas run inside: without autocast, which costs the host ten microseconds to switch off."""
    return torch.autocast(device.type, enabled=False) if torch.is_autocast_enabled(device.type) else nullcontext()


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
    return Recorder(model, covered_layers(model))


def covered_layers(model: nn.Module) -> list[tuple[str, nn.Module]]:
    """The layers to note, by name; a model that has one without a formula is refused."""
    reason = supported(model)
    if reason is not None:
        raise NotFactored(f"Factored gradients do not cover this model: {reason}.")
    return list(trainable(model))


def _together(uses: Sequence[Share | Outer], name: str, norms: bool) -> Share:
    """What all uses of one parameter add together: one example's gradient is their sum."""
    if len(uses) == 1 and isinstance(uses[0], Share):
        return uses[0]
    outers = [use for use in uses if isinstance(use, Outer)]
    if len(outers) == len(uses):
        return outer_share(outers, norms)
    shares = [outer_share([use], norms) if isinstance(use, Outer) else use for use in uses]
    formed = [share.formed for share in shares if share.formed is not None]
    if len(formed) == len(shares):
        return kept(shares[0].parameter, torch.stack(formed).sum(0))
    if norms:
        raise NotFactored(f"{name} uses a parameter that is used elsewhere in another way.")
    return Share(
        shares[0].parameter,
        lambda weights: torch.stack([share.weighted(weights).flatten() for share in shares]).sum(0),
        lambda direction: torch.stack([share.along(direction) for share in shares]).sum(0),
        None,
    )
