"""Distances between embeddings as whole numbers: the same numbers in whatever block they are computed."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from thresher.errors import ThresherError

UNITS = 2.0**30  # of the span, which is at least half the largest distance: a distance fits into 32 bits
BLOCK = {"cpu": 2**16, "cuda": 2**25}  # numbers computed at once: what stays in the cache, what fills the device


@dataclass(frozen=True, eq=False)
class Points:
    """n embeddings, ready to be measured: `columns` [d, n] in double precision, `scale` whole numbers to a distance."""

    columns: Tensor
    scale: float

    def __len__(self) -> int:
        return self.columns.shape[1]

    @property
    def block(self) -> int:
        """How many rows of n distances to compute at once."""
        return max(1, BLOCK.get(self.columns.device.type, BLOCK["cuda"]) // len(self))

    def squared(self, rows: Tensor, first: int = 0) -> Tensor:
        """Squared distances [m, n - first] from the examples at positions `rows` to all from `first` on."""
        return squared_distances(self.columns[:, rows], self.columns[:, first:])

    def whole(self, squares: Tensor) -> Tensor:
        """Squared distances as whole distances (float64); the squares are overwritten."""
        return squares.sqrt_().mul_(self.scale).round_()


def squared_distances(left: Tensor, right: Tensor) -> Tensor:
    """Σ_k (left_k - right_k)² [m, n] of left [d, m] and right [d, n], always summed in the order of k.

    Only correctly rounded operations, one after the other: a matrix product would sum in an order that depends on the
    block, and then equal distances would differ in their last bits and ties would be broken by chance.
    """
    total = left[0, :, None] - right[0]
    total.mul_(total)
    step = torch.empty_like(total)
    for one, other in zip(left[1:], right[1:], strict=True):
        torch.sub(one[:, None], other, out=step)
        total.add_(step.mul_(step))
    return total


def measure(embeddings: Tensor) -> Points:
    """The embeddings [n, d] as points whose distances are multiples of 2⁻³⁰ of (at most) the largest one."""
    if embeddings.ndim != 2 or 0 in embeddings.shape or embeddings.is_complex():
        raise ThresherError(f"Embeddings of shape {list(embeddings.shape)} cannot be measured: give real rows [n, d].")
    columns = embeddings.detach().double().T.contiguous()
    if not torch.isfinite(columns).all():
        raise ThresherError("Some embeddings are not finite, so nothing is near to them: drop those rows first.")
    columns = columns * 2.0 ** -math.frexp(float(columns.abs().max()))[1]  # squares can neither overflow nor vanish
    start = squared_distances(columns[:, :1], columns)[0].argmax()
    span = math.sqrt(float(squared_distances(columns[:, start, None], columns).max()))
    return Points(columns, UNITS / span if span > 0 else 1.0)


def checked_count(count: int, n: int) -> int:
    """The count, if so many can be chosen of n."""
    if not (isinstance(count, int) and 1 <= count <= n):
        raise ThresherError(f"count={count} cannot be chosen of {n} examples: give a whole number from 1 to {n}.")
    return count


def blocks(points: Points) -> Iterator[Tensor]:
    """The positions 0 ... n-1 in order, as many at once as a block of distances has rows."""
    yield from torch.arange(len(points), device=points.columns.device).split(points.block)


def total_distances(points: Points) -> Tensor:
    """Σ_j distance(i, j) [n] in whole numbers (int64); each pair is measured once."""
    totals = torch.zeros(len(points), dtype=torch.long, device=points.columns.device)
    for rows in blocks(points):
        first, m = int(rows[0]), len(rows)
        distances = points.whole(points.squared(rows, first))
        totals[first:] += distances.sum(0).long()  # sums of whole numbers below 2⁵³ are exact in any order
        totals[first : first + m] += distances[:, m:].sum(1).long()
    return totals
