"""Matrices whose gradient is a sum of outer products: Linear layers, embeddings, and one matrix shared by both.

One example's gradient is Σ_t left_t right_tᵀ over the T positions of all uses of the matrix [rows, columns]. A Linear
layer has left = δ and right = its inputs; an embedding picks single rows, so that its left is the ids of tokens.
‖Σ_t left_t right_tᵀ‖² = Σ_ts (left_t·left_s)(right_t·right_s), over all pairs of uses, never forms the gradient: that
takes T²(rows + columns) products where forming it takes T·rows·columns. It is formed, and kept in place of the factors,
where it has no more numbers than they have.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from thresher.engine.gradients.layers import Share, bias_share, dot, in_chunks, kept, products, scaled


@dataclass(frozen=True, eq=False)
class Outer:
    """One use of a matrix: `left` [n, T, rows], or the ids of rows [n, T]; `right` [n, T, columns]."""

    parameter: Tensor
    left: Tensor
    right: Tensor

    @property
    def picks(self) -> bool:
        """Whether `left` holds ids."""
        return not self.left.is_floating_point()

    def weighted(self, weights: Tensor) -> Tensor:
        rows, columns = self.parameter.shape
        if self.picks:
            scatter = torch.ops.aten.embedding_dense_backward
            return cast(Tensor, scatter(scaled(self.right, weights), self.left, rows, -1, False))
        left, right = self.left, self.right
        if rows < columns:  # the narrower side is the one to copy
            left = scaled(left, weights)
        else:
            right = scaled(right, weights)
        return left.flatten(0, 1).mT @ right.flatten(0, 1)

    def along(self, direction: Tensor) -> Tensor:
        direction = direction.to(self.right.dtype)
        if self.picks:
            return dot(F.embedding(self.left, direction), self.right)
        if direction.shape[0] > direction.shape[1]:  # what is made is then the narrower of the two
            return dot(self.left @ direction, self.right)
        return dot(self.right @ direction.mT, self.left)


def linear(layer: nn.Module, inputs: Tensor, deltas: Tensor, norms: bool) -> list[Share | Outer]:  # noqa: ARG001
    """Linear on [n, C] or [n, ..., C]."""
    layer = cast(nn.Linear, layer)
    return _affine(layer.weight, layer.bias, inputs, deltas)


def in_projection(layer: nn.Module, inputs: Tensor, deltas: Tensor, norms: bool) -> list[Share | Outer]:  # noqa: ARG001
    """What nn.MultiheadAttention makes of [n, T, C] first: queries, keys and values side by side [n, T, 3C]."""
    layer = cast(nn.MultiheadAttention, layer)
    return _affine(cast(Tensor, layer.in_proj_weight), layer.in_proj_bias, inputs, deltas)


def _affine(weight: Tensor, bias: Tensor | None, inputs: Tensor, deltas: Tensor) -> list[Share | Outer]:
    outgoing = _by_position(deltas)
    shares: list[Share | Outer] = [*bias_share(bias, outgoing.mT)]
    if weight.requires_grad:
        shares.append(Outer(weight, outgoing, _by_position(inputs.to(deltas.dtype))))
    return shares


def transposed_linear(layer: nn.Module, inputs: Tensor, deltas: Tensor, norms: bool) -> list[Share | Outer]:  # noqa: ARG001
    """A Linear layer whose weight is [C, O], as GPT-2's are."""
    layer = cast(nn.Linear, layer)
    outgoing = _by_position(deltas)
    shares: list[Share | Outer] = [*bias_share(layer.bias, outgoing.mT)]
    if layer.weight.requires_grad:
        shares.append(Outer(layer.weight, _by_position(inputs.to(deltas.dtype)), outgoing))
    return shares


def embedding(layer: nn.Module, inputs: Tensor, deltas: Tensor, norms: bool) -> list[Share | Outer]:  # noqa: ARG001
    """Embedding of [n] or [n, ...]; the padding token has no gradient."""
    layer = cast(nn.Embedding, layer)
    n, tokens = len(deltas), inputs.reshape(len(inputs), -1)
    outgoing = deltas.reshape(n, -1, layer.embedding_dim)
    if layer.padding_idx is not None:
        outgoing = outgoing * (tokens != layer.padding_idx)[:, :, None]
    return [Outer(layer.weight, tokens, outgoing)]


def _by_position(rows: Tensor) -> Tensor:
    """[n, ..., C] as [n, T, C]."""
    return rows[:, None] if rows.ndim == 2 else rows.reshape(rows.shape[0], -1, rows.shape[-1])


def outer_share(uses: Sequence[Outer], norms: bool) -> Share:
    """The share of a matrix in all its uses together."""
    parameter, parts = uses[0].parameter, [part for use in uses for part in (use.left, use.right)]
    positions, widths = sum(use.right.shape[1] for use in uses), sum(parameter.shape)
    if norms and parameter.numel() <= positions * widths and not any(use.picks for use in uses):
        return kept(parameter, in_chunks(_formed, positions * widths + 2 * parameter.numel(), *parts))

    def weighted(weights: Tensor) -> Tensor:
        total = uses[0].weighted(weights).to(parameter.dtype)
        for use in uses[1:]:
            total = total.add_(use.weighted(weights))
        return total

    def along(direction: Tensor) -> Tensor:
        first, *others = (use.along(direction) for use in uses)
        return torch.stack([first, *others]).sum(0) if others else first

    copied = widths if _are_widened(parts) else min(parameter.shape)  # else only one side of a tied matrix is
    held = positions * (3 * positions + copied)
    return Share(parameter, weighted, along, in_chunks(_squares, held, *parts) if norms else None)


def _are_widened(parts: Sequence[Tensor]) -> bool:
    """Whether products of these are made of wider copies."""
    return any(part.device.type == "cpu" and part.is_floating_point() and part.itemsize < 4 for part in parts)


def _pairs(parts: Sequence[Tensor]) -> list[tuple[Tensor, Tensor]]:
    return list(zip(parts[::2], parts[1::2], strict=True))


def _formed(*parts: Tensor) -> Tensor:
    """Each example's gradient [m, rows, columns], from left and right of every use."""
    first, *others = _pairs(parts)
    total = products(first[0].mT, first[1])
    for left, right in others:
        total += products(left.mT, right)
    return total


def _squares(*parts: Tensor) -> Tensor:
    """Each example's squared norm [m], from left and right of every use."""
    uses, terms = _pairs(parts), []
    if len(uses) == 1 and uses[0][1].shape[1] == 1:  # one position of one use, as in most layers: no pairs to sum
        met = _between(uses[0][1], uses[0][1])
        return met.mul_(_between(uses[0][0], uses[0][0])).flatten()
    for place, (left, right) in enumerate(uses):
        for before, (other_left, other_right) in enumerate(uses[: place + 1]):
            met = _between(right, other_right).flatten(1)
            terms.append(torch.linalg.vecdot(_between(left, other_left).flatten(1).to(met.dtype), met))
            if before < place:
                terms[-1] *= 2
    return torch.stack(terms).sum(0)


def _between(one: Tensor, other: Tensor) -> Tensor:
    """The products of all positions of two uses [m, T, S]; an id stands for the row with a single 1 there."""
    picks, others_pick = not one.is_floating_point(), not other.is_floating_point()
    if picks and others_pick:
        return one[:, :, None] == other[:, None, :]
    if picks:
        return _between(other, one).mT
    if others_pick:
        return one.gather(2, other[:, None, :].expand(-1, one.shape[1], -1))
    if one.dtype != other.dtype:
        dtype = torch.promote_types(one.dtype, other.dtype)
        one, other = one.to(dtype), other.to(dtype)
    return products(one, other.mT)
