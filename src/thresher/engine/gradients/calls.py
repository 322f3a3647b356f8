"""The calls of layers in a forward pass, and how often the graph of its losses reads each parameter."""

import inspect
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge
from torch.func import functional_call
from torch.nn.modules.linear import NonDynamicallyQuantizableLinear
from torch.overrides import TorchFunctionMode

from thresher.engine.gradients.convolution import convolution
from thresher.engine.gradients.formulas import BY_POSITION, any_layer, formula_of
from thresher.engine.gradients.layers import (
    BY_ELEMENT,
    COPYING,
    Broadcast,
    NotFactored,
    Share,
    copies,
    group_norm,
)
from thresher.engine.gradients.outer import Outer

ATTENTION = inspect.signature(F.multi_head_attention_forward)
SEEN_INSIDE = Broadcast | nn.Embedding | NonDynamicallyQuantizableLinear
KEEPING: dict[Any, str] = {convolution: "ConvolutionBackward0", group_norm: "NativeGroupNormBackward0"}
PLAIN = {"bias_k": None, "bias_v": None, "add_zero_attn": False, "use_separate_proj_weight": False}


@dataclass(frozen=True, eq=False)
class Call:
    """One call of a layer in the forward pass."""

    name: str
    layer: nn.Module
    inputs: Tensor
    version: int
    edge: GradientEdge  # the output as the layer gave it, even if something changes it in place afterwards
    rows: int
    moments: tuple[Tensor, Tensor] | None = None  # of GroupNorm

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
        if self.moments is not None:
            return group_norm(self.layer, inputs, delta, norms, self.moments)
        return formula_of(self.layer)(self.layer, inputs, delta, norms)


def kept_by(layer: nn.Module, output: Any, inputs: Tensor) -> tuple[Tensor | None, tuple[Tensor, Tensor] | None]:
    """What autograd keeps of a layer's inputs where autocast has changed their type, and GroupNorm's moments."""
    node, formula = output.grad_fn, formula_of(layer)
    if torch._C._autograd._top_saved_tensors_default_hooks(True) is not None:
        return None, None  # hooks, such as those of checkpointing, may have kept nothing
    if KEEPING.get(formula) != node.name() or node._saved_input is None or node._saved_input.shape != inputs.shape:
        return None, None
    saved, moments = node._saved_input.detach(), None
    if formula is group_norm and node._saved_result1.dtype == torch.promote_types(saved.dtype, torch.float32):
        moments = node._saved_result1.detach(), node._saved_result2.detach()
    return None if saved.dtype == inputs.dtype else saved, moments


def own_parameters(layer: nn.Module) -> list[nn.Parameter]:
    """The parameters of a layer but not of those inside it; `parameters(recurse=False)` takes six times as long."""
    return [parameter for parameter in layer._parameters.values() if parameter is not None]


class Inside(TorchFunctionMode):
    """Inside its `with` block, notes what layers compute by functions of torch, where their hooks do not show it.

    Those are the lookups of embeddings that do more than look up, such as scaled ones, the projections of
    nn.MultiheadAttention, and parameters that the model itself gives to all examples.
    """

    def __init__(self, layers: Sequence[tuple[str, nn.Module]], note: Callable[..., Tensor | None]):
        super().__init__()
        self.examples = 0
        self.owners: dict[Tensor, tuple[str, nn.Module]] = {}
        self.note = note
        for name, layer in layers:
            if isinstance(layer, nn.MultiheadAttention):
                self.owners[cast(Tensor, layer.in_proj_weight)] = name, layer
            elif isinstance(layer, SEEN_INSIDE) and type(layer) is not nn.Embedding:
                self.owners[layer.weight] = name, layer
        self.layers = {layer for _, layer in self.owners.values()}
        self.broadcasts = {parameter for parameter, (_, layer) in self.owners.items() if isinstance(layer, Broadcast)}

    def __contains__(self, layer: nn.Module) -> bool:
        return layer in self.layers

    def __enter__(self) -> "Inside":
        if self.owners:
            super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: Any) -> None:
        if self.owners:
            super().__exit__(*error)  # type: ignore[no-untyped-call]

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        if function is F.multi_head_attention_forward:
            given = ATTENTION.bind(*args, **named)
            given.apply_defaults()
            if all(given.arguments[name] == plain for name, plain in PLAIN.items()) and args[0].ndim == 3:
                return attended(SimpleNamespace(**given.arguments), self._projected)
        if self.broadcasts and (function in COPYING or function in BY_ELEMENT):
            return self._broadcast(function, args, named)
        result = function(*args, **named)
        return result if function is not F.embedding else self._noted(args[1], args[0], result)

    def _broadcast(self, function: Any, args: Any, named: Any) -> Any:
        """What the call gives, with a parameter among its arguments expanded to copies that are noted."""
        for place, parameter in enumerate(args):
            if not isinstance(parameter, Tensor) or parameter not in self.broadcasts:
                continue
            made = copies(function, args, named, place, self.examples)
            if made is not None:
                self._noted(parameter, made, made)
                return made if function in COPYING else function(*args[:place], made, *args[place + 1 :])
        return function(*args, **named)

    def _projected(self, inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return self._noted(weight, inputs, F.linear(inputs, weight, bias))

    def _noted(self, weight: Tensor, inputs: Tensor, result: Tensor) -> Tensor:
        if weight not in self.owners:
            return result
        noted = self.note(*self.owners[weight], (inputs,), {}, result)
        return result if noted is None else noted


def attended(given: Any, project: Callable[[Tensor, Tensor, Tensor | None], Tensor]) -> tuple[Tensor, Tensor | None]:
    """What F.multi_head_attention_forward gives, by its draws of dropout, and with projections that can be noted.

    Outputs are [T, n, width]; the weights of the keys, [n, T, S] or of each head, are None where nobody wants them.
    """
    asked = (given.query, given.key, given.value)
    rows = {id(part): part.transpose(0, 1) for part in asked}
    made = {name: project(part, given.in_proj_weight, given.in_proj_bias) for name, part in rows.items()}
    parts = (made[id(part)].chunk(3, -1)[place] for place, part in enumerate(asked))
    query, key, value = (part.reshape(*part.shape[:2], given.num_heads, -1).transpose(1, 2) for part in parts)
    mask, dropped, weights = _mask(given, query), given.dropout_p if given.training else 0.0, None
    if given.need_weights:
        scores = (query * query.shape[-1] ** -0.5) @ key.mT
        weights = F.dropout((scores if mask is None else scores + mask).softmax(-1), dropped)
        found = weights @ value
        weights = weights.mean(1) if given.average_attn_weights else weights
    else:
        found = F.scaled_dot_product_attention(query, key, value, mask, dropped)
    outputs = project(found.transpose(1, 2).flatten(2), given.out_proj_weight, given.out_proj_bias)
    return outputs.transpose(0, 1).contiguous(), weights  # laid out as torch does, for the draws of dropout that follow


def _mask(given: Any, query: Tensor) -> Tensor | None:
    """What is added to the scores [n, heads, T, S]: -inf where a query may not look, or numbers that are given."""
    masks = []
    if given.key_padding_mask is not None:
        masks.append(_added(given.key_padding_mask, query)[:, None, None, :])
    if given.attn_mask is not None:
        added = _added(given.attn_mask, query)  # [T, S], or [n · heads, T, S]
        masks.append(added if added.ndim == 2 else added.reshape(-1, given.num_heads, *added.shape[1:]))
    return sum(masks[1:], masks[0]) if masks else None


def _added(mask: Tensor, query: Tensor) -> Tensor:
    if mask.dtype is not torch.bool:
        return mask.to(query.dtype)
    return torch.zeros_like(mask, dtype=query.dtype).masked_fill_(mask, -torch.inf)


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


def used_elsewhere(name: str, layer: nn.Module) -> str:
    """The refusal of a parameter that the model uses where no formula sees it."""
    if isinstance(layer, Broadcast):
        return f"The model does not only expand {name} over the examples, or add it to them or multiply them by it."
    return f"A parameter of {name} is also used outside that layer."


def _batched(layer: nn.Module) -> int:
    """The dimensions the inputs of a layer have at least; with fewer, it was called on one example."""
    if isinstance(layer, nn.LayerNorm | nn.RMSNorm):
        return 1 + len(layer.normalized_shape)
    if isinstance(layer, nn.Embedding):
        return 1
    return 3 if isinstance(layer, nn.Conv1d) else 4 if isinstance(layer, nn.Conv2d) else 2
