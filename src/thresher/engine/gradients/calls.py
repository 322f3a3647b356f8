"""The calls of layers in a forward pass, and how often the graph of its losses reads each parameter."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge
from torch.func import functional_call
from torch.overrides import TorchFunctionMode

from thresher.engine.gradients.formulas import BY_POSITION, any_layer, formula_of
from thresher.engine.gradients.layers import NotFactored, Share
from thresher.engine.gradients.outer import Outer


@dataclass(frozen=True, eq=False)
class Call:
    """One call of a layer in the forward pass."""

    name: str
    layer: nn.Module
    inputs: Tensor
    version: int
    edge: GradientEdge  # the output as the layer gave it, even if something changes it in place afterwards
    rows: int

    @property
    def parameters(self) -> list[nn.Parameter]:
        return own_parameters(self.layer)

    @property
    def has_no_formula(self) -> bool:
        return formula_of(self.layer) is any_layer

    def is_by_example(self, examples: int) -> bool:
        """Whether the rows are the examples, or may be their positions one after the other."""
        if self.inputs.ndim < _batched(self.layer) or self.inputs.shape[0] != self.rows:
            return False
        return self.rows == examples or (
            formula_of(self.layer) in BY_POSITION and self.rows > examples > 0 and self.rows % examples == 0
        )

    def shares(self, delta: Tensor | None, examples: int, norms: bool) -> Sequence[Share | Outer]:
        """What the call adds to the gradients of single examples, from the gradient of its output."""
        if delta is None:
            return []
        inputs = self.inputs
        if self.rows != examples:
            inputs, delta = (part.reshape(examples, -1, *part.shape[1:]) for part in (inputs, delta))
        return formula_of(self.layer)(self.layer, inputs, delta, norms)


def own_parameters(layer: nn.Module) -> list[nn.Parameter]:
    """The parameters of a layer but not of those inside it; `parameters(recurse=False)` takes six times as long."""
    return [parameter for parameter in layer._parameters.values() if parameter is not None]


class Lookups(TorchFunctionMode):
    """Inside its `with` block, notes the lookups in embeddings that do more than look up, such as scaled ones."""

    def __init__(self, layers: Sequence[tuple[str, nn.Module]], note: Callable[..., Tensor | None]):
        super().__init__()
        more = [
            (name, each) for name, each in layers if isinstance(each, nn.Embedding) and type(each) is not nn.Embedding
        ]
        self.owners, self.note = {each.weight: (name, each) for name, each in more}, note

    def __contains__(self, layer: nn.Module) -> bool:
        return isinstance(layer, nn.Embedding) and layer.weight in self.owners and type(layer) is not nn.Embedding

    def __enter__(self) -> "Lookups":
        if self.owners:
            super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: Any) -> None:
        if self.owners:
            super().__exit__(*error)  # type: ignore[no-untyped-call]

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        if function is not F.embedding or args[1] not in self.owners:
            return result
        noted = self.note(*self.owners[args[1]], args[:1], {}, result)
        return result if noted is None else noted


def takes_one_tensor_to_one(layer: nn.Module, given: Sequence[object], output: object) -> bool:
    """Whether a call is what the formula of the layer expects; layers with a formula ignore further arguments."""
    alone = len(given) == 1 or formula_of(layer) is not any_layer
    return isinstance(output, Tensor) and bool(given) and isinstance(given[0], Tensor) and alone


def uses_of(outputs: Tensor) -> Counter[Tensor]:
    """How often the graph of `outputs` reads each parameter."""
    uses: Counter[Tensor] = Counter()
    waiting, seen = [outputs.grad_fn], {outputs.grad_fn}
    while waiting:
        node = waiting.pop()
        if type(node).__name__ == "CheckpointFunctionBackward":
            raise NotFactored(
                "Reentrant activation checkpointing hides its layers: choose the other kind, by "
                "use_reentrant=False or gradient_checkpointing_kwargs={'use_reentrant': False}."
            )
        for follower, _ in node.next_functions if node is not None else ():
            if type(follower).__name__ == "AccumulateGrad":
                uses[follower.variable] += 1  # type: ignore[union-attr]
            elif follower is not None and follower not in seen:
                seen.add(follower)
                waiting.append(follower)
    return uses


def uses_inside(layer: nn.Module, inputs: Tensor) -> Counter[Tensor]:
    """How often one call of this layer reads each parameter; a layer that draws random numbers is refused."""
    copies = {name: buffer.clone() for name, buffer in layer.named_buffers()}
    with torch.enable_grad():
        first, second = (functional_call(layer, copies, (inputs,)) for _ in range(2))
    if not torch.equal(first, second):
        raise NotFactored(f"A {type(layer).__name__} does not do the same at every forward pass.")
    return uses_of(first)


def _batched(layer: nn.Module) -> int:
    """The dimensions the inputs of a layer have at least; with fewer, it was called on one example."""
    if isinstance(layer, nn.LayerNorm | nn.RMSNorm):
        return 1 + len(layer.normalized_shape)
    if isinstance(layer, nn.Embedding):
        return 1
    return 3 if isinstance(layer, nn.Conv1d) else 4 if isinstance(layer, nn.Conv2d) else 2
