"""Parameters that a model itself gives to all its examples, such as the class token of a vision transformer.

The parameter is expanded to one copy for each example, [n, ...]; row i of the copy's gradient is that of example i.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from thresher.engine.gradients.layers import Share, kept

COPYING: set[Any] = {Tensor.expand, Tensor.repeat}
BY_ELEMENT: set[Any] = {torch.add, Tensor.add, Tensor.add_, torch.mul, Tensor.mul, Tensor.mul_}


class Broadcast(nn.Module):
    """Stands for one such parameter as if it were a layer, whose output is the copies [n, ...]."""

    def __init__(self, parameter: nn.Parameter):
        super().__init__()
        self.weight = parameter


def broadcast(layer: nn.Module, inputs: Tensor, deltas: Tensor, norms: bool) -> list[Share]:  # noqa: ARG001
    """Broadcast: δ summed over what the parameter is repeated along, except the examples."""
    parameter = cast(Tensor, layer.weight)
    if not parameter.requires_grad:
        return []
    repeated = [place for place, size in enumerate(_aligned(parameter, deltas.shape)) if place and size == 1]
    dtype = torch.promote_types(deltas.dtype, torch.float32)
    return [kept(parameter, deltas.sum(repeated, keepdim=True, dtype=dtype) if repeated else deltas.to(dtype))]


def copies(function: Any, args: Sequence[Any], named: Mapping[str, Any], place: int, examples: int) -> Tensor | None:
    """The copies [examples, ...] of the parameter args[place] that this call makes of it; None if it makes none."""
    parameter: Tensor = args[place]
    if function in COPYING:
        if place or parameter.shape[:1] != (1,):
            return None
        made: Tensor = function(*args, **named)
        return made if made.shape == (examples, *parameter.shape[1:]) else None
    other = args[1 - place] if function in BY_ELEMENT and len(args) == 2 and not named else None
    if not isinstance(other, Tensor) or other.ndim < max(2, parameter.ndim) or other.shape[0] != examples:
        return None
    first, *rest = _aligned(parameter, other.shape)
    fits = all(size in (1, wanted) for size, wanted in zip(rest, other.shape[1:], strict=True))
    return parameter.expand(other.shape) if first == 1 and fits else None


def _aligned(parameter: Tensor, shape: Sequence[int]) -> list[int]:
    """The shape of the parameter, with ones before it for the dimensions that it lacks."""
    return [1] * (len(shape) - parameter.ndim) + list(parameter.shape)
