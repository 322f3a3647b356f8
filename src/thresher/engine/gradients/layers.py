"""For each kind of layer: every example's squared gradient norm, gradient along a direction, and weighted sum.

A formula gets the layer, its inputs [n, ...] and the gradients `deltas` [n, ...] of its outputs; row i belongs to
example i. Write C and O for the numbers that go in and out of one of T positions, K for the offsets of the kernel.
One example's weight gradient, Σ_t δ_t a_tᵀ, has C·O·K numbers and comes from T·(C + O) numbers. Where it is the smaller
of the two it is formed and kept instead of them, and the weighted sum is then one product. Where it is the larger it is
never formed: ‖Σ_t δ_t a_tᵀ‖² = Σ_ts (δ_t·δ_s)(a_t·a_s), which is then cheaper too, as T²(C + O) < T·C·O·K.
Along a direction D it is Σ_t δ_t·(D a_t), the layer applied with D as its kernel, if no gradient was formed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

# What a formula may hold at once beside its result: on the CPU what stays in cache, elsewhere what keeps kernels large.
CPU_BLOCK, DEVICE_BLOCK = 8 * 2**20, 256 * 2**20


@dataclass(frozen=True, eq=False)
class Share:
    """What one parameter adds: weights [n] -> the weighted gradient; a direction -> each example's gradient along it.

    `squared` is each example's squared gradient norm [n], where norms are wanted.
    """

    parameter: Tensor
    weighted: Callable[[Tensor], Tensor]
    along: Callable[[Tensor], Tensor]
    squared: Tensor | None


def linear(layer: nn.Module, inputs: Tensor, deltas: Tensor, norms: bool) -> list[Share]:
    """Linear on [n, C] or [n, ..., C]."""
    layer = cast(nn.Linear, layer)
    n, weight, size = len(deltas), layer.weight, layer.in_features + layer.out_features
    outgoing = deltas.reshape(n, -1, layer.out_features)
    shares = bias_share(layer.bias, outgoing.mT)
    if not weight.requires_grad:
        return shares
    incoming = inputs.to(deltas.dtype).reshape(n, -1, layer.in_features)
    positions = incoming.shape[1]
    if norms and weight.numel() <= positions * size:
        return [
            *shares,
            kept(weight, in_chunks(lambda a, d: products(d.mT, a), 2 * positions * size, incoming, outgoing)),
        ]

    def squares(incoming: Tensor, outgoing: Tensor) -> Tensor:
        return (products(incoming, incoming.mT) * products(outgoing, outgoing.mT)).sum((1, 2))

    def weighted(weights: Tensor) -> Tensor:
        return scaled(outgoing, weights).flatten(0, 1).mT @ incoming.flatten(0, 1)

    def along(direction: Tensor) -> Tensor:
        return dot(incoming @ direction.to(incoming.dtype).mT, outgoing)

    held = positions * (3 * positions + size)
    squared = in_chunks(squares, held, incoming, outgoing) if norms else None
    return [*shares, Share(weight, weighted, along, squared)]


def embedding(layer: nn.Module, inputs: Tensor, deltas: Tensor, norms: bool) -> list[Share]:
    """Embedding of [n] or [n, ...]: Σ_ts [token_t = token_s] δ_t·δ_s, without the padding token."""
    layer = cast(nn.Embedding, layer)
    n, padding = len(deltas), -1 if layer.padding_idx is None else layer.padding_idx
    outgoing, tokens = deltas.reshape(n, -1, layer.embedding_dim), inputs.reshape(n, -1)
    positions = tokens.shape[1]

    def squares(tokens: Tensor, outgoing: Tensor) -> Tensor:
        counted = (tokens[:, :, None] == tokens[:, None, :]) & (tokens != padding)[:, :, None]
        return (products(outgoing, outgoing.mT) * counted).sum((1, 2))

    def weighted(weights: Tensor) -> Tensor:
        rows, scatter = layer.num_embeddings, torch.ops.aten.embedding_dense_backward
        return cast(Tensor, scatter(scaled(outgoing, weights), tokens, rows, padding, False))

    def along(direction: Tensor) -> Tensor:  # the padding token's row is zero in it, as in every gradient
        return dot(F.embedding(tokens, direction.to(outgoing.dtype)), outgoing)

    held = positions * (3 * positions + layer.embedding_dim)
    return [Share(layer.weight, weighted, along, in_chunks(squares, held, tokens, outgoing) if norms else None)]


def layer_norm(layer: nn.Module, inputs: Tensor, deltas: Tensor, norms: bool) -> list[Share]:  # noqa: ARG001
    """LayerNorm: Σ_t δ_t ⊙ x̂_t, and Σ_t δ_t for the bias."""
    layer = cast(nn.LayerNorm, layer)
    shape, eps = list(layer.normalized_shape), layer.eps

    def by_feature(rows: Tensor) -> Tensor:  # [m, ..., *shape] -> [m, features, T]
        return rows.flatten(-len(shape)).reshape(len(rows), -1, layer.weight.numel()).mT

    return _affine(layer, inputs, deltas, by_feature, lambda rows: F.layer_norm(rows, shape, eps=eps))


def group_norm(layer: nn.Module, inputs: Tensor, deltas: Tensor, norms: bool) -> list[Share]:  # noqa: ARG001
    """GroupNorm: Σ_t δ_t ⊙ x̂_t, and Σ_t δ_t for the bias, by torch's own kernel with all examples as one's channels."""
    layer = cast(nn.GroupNorm, layer)

    def gradients(inputs: Tensor, deltas: Tensor) -> Tensor:  # [m, 2 · channels]
        rows, outgoing = (part.to(_wide(part)).reshape(1, -1, *part.shape[2:]) for part in (inputs, deltas))
        sizes = 1, rows.shape[1], rows[0, 0].numel(), len(inputs) * layer.num_groups
        _, mean, scale = torch.native_group_norm(rows, None, None, *sizes, layer.eps)
        one, kernel = rows.new_ones(rows.shape[1]), torch.ops.aten.native_group_norm_backward
        _, weights, biases = kernel(outgoing, rows, mean, scale, one, *sizes, [False, True, True])
        return torch.cat([part.reshape(len(inputs), -1) for part in (weights, biases)], 1)

    both = in_chunks(gradients, 3 * inputs[0].numel(), inputs, deltas).chunk(2, 1)
    pairs = zip((layer.weight, layer.bias), both, strict=True)
    return [kept(parameter, found) for parameter, found in pairs if parameter.requires_grad]


def batch_norm(layer: nn.Module, inputs: Tensor, deltas: Tensor, norms: bool) -> list[Share]:  # noqa: ARG001
    """BatchNorm by its running statistics: Σ_t δ_t ⊙ x̂_t, and Σ_t δ_t for the bias."""
    layer = cast(nn.BatchNorm2d, layer)
    mean, variance, eps = layer.running_mean, layer.running_var, layer.eps
    return _affine(layer, inputs, deltas, by_channel, lambda rows: F.batch_norm(rows, mean, variance, eps=eps))


def _affine(
    layer: nn.Module,
    inputs: Tensor,
    deltas: Tensor,
    by_feature: Callable[[Tensor], Tensor],
    normalise: Callable[[Tensor], Tensor],
) -> list[Share]:
    """The scale and the shift of a layer that normalises: both gradients are as small as one position."""
    layer = cast(nn.LayerNorm, layer)
    shares = bias_share(layer.bias, by_feature(deltas))
    if not layer.weight.requires_grad:
        return shares

    def gradients(inputs: Tensor, deltas: Tensor) -> Tensor:
        return by_feature(normalise(inputs.to(_wide(inputs))) * deltas).sum(2)

    return [*shares, kept(layer.weight, in_chunks(gradients, 3 * inputs[0].numel(), inputs, deltas))]


def bias_share(bias: Tensor | None, deltas: Tensor) -> list[Share]:
    """Σ_t δ_t of `deltas` [n, O, T], if there is a bias to train."""
    if bias is None or not bias.requires_grad:
        return []
    return [kept(bias, deltas.sum(2, dtype=_wide(deltas)))]


def kept(parameter: Tensor, gradients: Tensor) -> Share:
    """The share of a parameter whose gradients [n, ...] are at hand."""
    flat = gradients.flatten(1)
    squared = torch.linalg.vector_norm(flat, dim=1).square()

    def along(direction: Tensor) -> Tensor:
        return flat @ direction.to(flat.dtype).reshape(-1)

    return Share(parameter, lambda weights: weights.to(flat.dtype) @ flat, along, squared)


def in_chunks(function: Callable[..., Tensor], held: int, *rows: Tensor) -> Tensor:
    """`function` of all rows, computed on blocks of rows, where one row needs `held` numbers for a moment."""
    limit = CPU_BLOCK if rows[0].device.type == "cpu" else DEVICE_BLOCK
    size = max(1, limit // (4 * held))
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
    return torch.promote_types(values.dtype, torch.float32)
