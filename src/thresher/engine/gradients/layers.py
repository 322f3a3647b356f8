"""For each kind of layer: every example's squared gradient norm, gradient along a direction, and weighted sum.

A formula gets the layer, its inputs [n, ...] and the gradients `deltas` [n, ...] of its outputs; row i belongs to
example i. It gives the share of each trainable parameter, or for a matrix the outer products that its gradient is made
of (`outer.py`), which several uses of one matrix have in common.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from thresher.core.errors import ThresherError

# What a formula may hold at once beside its result: on the CPU what stays in cache, elsewhere what keeps kernels large.
CPU_BLOCK, DEVICE_BLOCK = 8 * 2**20, 256 * 2**20
# How a model gives a parameter of its own to all its examples.
COPYING: set[Any] = {Tensor.expand, Tensor.repeat}
BY_ELEMENT: set[Any] = {torch.add, Tensor.add, Tensor.add_, torch.mul, Tensor.mul, Tensor.mul_}


class NotFactored(ThresherError):  # noqa: N818
    """The model does something the factored formulas do not cover; `norms_by_vmap` may."""


@dataclass(frozen=True, eq=False)
class Share:
    """What one parameter adds: weights [n] -> the weighted gradient; a direction -> each example's gradient along it.

    `squared` is each example's squared gradient norm [n], where norms are wanted; `formed` the gradients themselves
    [n, numbers], where they are at hand and give it.
    """

    parameter: Tensor
    weighted: Callable[[Tensor], Tensor]
    along: Callable[[Tensor], Tensor]
    squared: Tensor | None
    formed: Tensor | None = None

    def squares(self) -> Tensor | None:
        """Each example's squared gradient norm [n]."""
        return self.squared if self.formed is None else torch.linalg.vector_norm(self.formed, dim=1).square()


class Broadcast(nn.Module):
    """Stands for a parameter that a model itself gives to all its examples, such as the class token of a transformer.

    As a layer, its outputs are the copies [n, ...] that the parameter is expanded to, one for each example.
    """

    def __init__(self, parameter: nn.Parameter):
        super().__init__()
        self.weight = parameter


def layer_norm(layer: nn.Module, inputs: Tensor, deltas: Tensor, norms: bool) -> list[Share]:  # noqa: ARG001
    """LayerNorm: Σ_t δ_t ⊙ x̂_t, and Σ_t δ_t for the bias."""
    layer = cast(nn.LayerNorm, layer)
    shape, eps = list(layer.normalized_shape), layer.eps

    def by_feature(rows: Tensor) -> Tensor:  # [m, ..., *shape] -> [m, features, T]
        return rows.flatten(-len(shape)).reshape(len(rows), -1, layer.weight.numel()).mT

    def normalise(rows: Tensor) -> Tensor:
        return F.layer_norm(rows, shape, eps=eps)

    return _affine(layer.weight, layer.bias, inputs, deltas, by_feature, normalise)


def rms_norm(layer: nn.Module, inputs: Tensor, deltas: Tensor, norms: bool) -> list[Share]:  # noqa: ARG001
    """RMSNorm: Σ_t δ_t ⊙ x̂_t."""
    layer = cast(nn.RMSNorm, layer)
    shape, eps = list(layer.normalized_shape), layer.eps
    if eps is None:  # torch's choice, by the type of the numbers that were normalised
        eps = torch.finfo(inputs.dtype).eps

    def by_feature(rows: Tensor) -> Tensor:
        return rows.flatten(-len(shape)).reshape(len(rows), -1, layer.weight.numel()).mT

    return _affine(layer.weight, None, inputs, deltas, by_feature, lambda rows: F.rms_norm(rows, shape, eps=eps))


def group_norm(
    layer: nn.Module,
    inputs: Tensor,
    deltas: Tensor,
    norms: bool,  # noqa: ARG001
    moments: tuple[Tensor, Tensor] | None = None,
) -> list[Share]:
    """GroupNorm: Σ_t δ_t ⊙ x̂_t, and Σ_t δ_t for the bias, by torch's own kernel with all examples as one's channels.

    `moments` are the mean and 1/deviation of each group [n, groups], where the forward pass has kept them.
    """
    layer = cast(nn.GroupNorm, layer)

    def gradients(inputs: Tensor, deltas: Tensor, *known: Tensor) -> Tensor:  # [m, 2 · channels]
        rows, outgoing = (part.to(_wide(part)).reshape(1, -1, *part.shape[2:]) for part in (inputs, deltas))
        sizes = 1, rows.shape[1], rows[0, 0].numel(), len(inputs) * layer.num_groups
        mean, scale = [each.reshape(1, -1) for each in known] or torch.native_group_norm(
            rows, None, None, *sizes, layer.eps
        )[1:]
        one, kernel = rows.new_ones(rows.shape[1]), torch.ops.aten.native_group_norm_backward
        _, weights, biases = kernel(outgoing, rows, mean, scale, one, *sizes, [False, True, True])
        return torch.cat([part.reshape(len(inputs), -1) for part in (weights, biases)], 1)

    both = in_chunks(gradients, 3 * inputs[0].numel(), inputs, deltas, *(moments or ())).chunk(2, 1)
    pairs = zip((layer.weight, layer.bias), both, strict=True)
    return [kept(parameter, found) for parameter, found in pairs if parameter.requires_grad]


def batch_norm(layer: nn.Module, inputs: Tensor, deltas: Tensor, norms: bool) -> list[Share]:  # noqa: ARG001
    """BatchNorm by its running statistics: Σ_t δ_t ⊙ x̂_t, and Σ_t δ_t for the bias."""
    layer = cast(nn.BatchNorm2d, layer)
    mean, variance, eps = layer.running_mean, layer.running_var, layer.eps

    def normalise(rows: Tensor) -> Tensor:
        return F.batch_norm(rows, mean, variance, eps=eps)

    return _affine(layer.weight, layer.bias, inputs, deltas, by_channel, normalise)


def broadcast(layer: nn.Module, inputs: Tensor, deltas: Tensor, norms: bool) -> list[Share]:  # noqa: ARG001
    """Broadcast: δ summed over what the parameter is repeated along, except the examples."""
    parameter = cast(Tensor, layer.weight)
    repeated = [place for place, size in enumerate(_aligned(parameter, deltas.shape)) if place and size == 1]
    dtype = _wide(deltas)
    return [kept(parameter, deltas.sum(repeated, keepdim=True, dtype=dtype) if repeated else deltas.to(dtype))]


def _affine(
    weight: Tensor,
    bias: Tensor | None,
    inputs: Tensor,
    deltas: Tensor,
    by_feature: Callable[[Tensor], Tensor],
    normalise: Callable[[Tensor], Tensor],
) -> list[Share]:
    """The scale and the shift of a layer that normalises: both gradients are as small as one position."""
    shares = bias_share(bias, by_feature(deltas))
    if not weight.requires_grad:
        return shares

    def gradients(inputs: Tensor, deltas: Tensor) -> Tensor:
        return by_feature(normalise(inputs.to(_wide(inputs))) * deltas).sum(2)

    return [*shares, kept(weight, in_chunks(gradients, 3 * inputs[0].numel(), inputs, deltas))]


def bias_share(bias: Tensor | None, deltas: Tensor) -> list[Share]:
    """Σ_t δ_t of `deltas` [n, O, T], if there is a bias to train."""
    if bias is None or not bias.requires_grad:
        return []
    total = deltas.sum(2, dtype=_wide(deltas)) if deltas.shape[2] > 1 else deltas[:, :, 0].to(_wide(deltas))
    return [kept(bias, total)]


def kept(parameter: Tensor, gradients: Tensor) -> Share:
    """The share of a parameter whose gradients [n, ...] are at hand."""
    flat = gradients.flatten(1)

    def along(direction: Tensor) -> Tensor:
        return flat @ direction.to(flat.dtype).reshape(-1)

    return Share(parameter, lambda weights: weights.to(flat.dtype) @ flat, along, None, flat)


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


def in_chunks(function: Callable[..., Tensor], held: int, *rows: Tensor) -> Tensor:
    """`function` of all rows, computed on blocks of rows, where one row needs `held` numbers for a moment."""
    limit = CPU_BLOCK if rows[0].device.type == "cpu" else DEVICE_BLOCK
    size = max(1, limit // (4 * held))
    if size >= rows[0].shape[0]:
        return function(*rows)
    return torch.cat([function(*block) for block in zip(*(torch.split(part, size) for part in rows), strict=True)])


def products(left: Tensor, right: Tensor) -> Tensor:
    """Batched matrix products [m, a, b] x [m, b, c], summed and returned in float32 or wider."""
    wide = _wide(left)
    if left.dtype == wide:
        return torch.bmm(left, right)
    if left.device.type == "cuda":
        return torch.bmm(left, right, out_dtype=wide)
    return torch.bmm(left.to(wide), right.to(wide))


def dot(left: Tensor, right: Tensor) -> Tensor:
    """Σ left · right over everything but the rows [n, ...] -> [n], in float32 or wider; `left` is used up."""
    return left.mul_(right).flatten(1).sum(1, dtype=_wide(left))


def scaled(deltas: Tensor, weights: Tensor) -> Tensor:
    """Row i of `deltas` times weight i."""
    return deltas * weights.to(deltas.dtype).reshape(-1, *[1] * (deltas.ndim - 1))


def by_channel(rows: Tensor) -> Tensor:
    """[n, channels] or [n, channels, ...] as [n, channels, T]."""
    return rows.reshape(*rows.shape[:2], -1)


def _wide(values: Tensor) -> torch.dtype:
    return torch.float32 if values.dtype is torch.float32 else torch.promote_types(values.dtype, torch.float32)
