"""Distances between embeddings as whole numbers: the same numbers in whatever block they are computed."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from thresher.blocks import rows_at_once
from thresher.errors import ThresherError

Marks = NDArray[Any]
UNITS = 2.0**30  # of the span, which is at least half the largest distance: a distance fits into 32 bits


@dataclass(frozen=True, eq=False)
class Points:
    """n embeddings, ready to be measured, in double precision; a distance of 1 is `scale` whole numbers.

    Squared distances come from a matrix product, which is quick but sums in an order that depends on the block. Where
    its error could change the rounding, the distance is computed again from the differences, in a fixed order. So each
    pair has one distance, the same both ways, in every block and on every device, and ties stay ties.
    """

    rows: Tensor  # [n, d]
    left: Tensor  # [n, d + 2], and
    right: Tensor  # [d + 2, n]: their product is the squared distances
    error: float  # ... with no more error than this
    scale: float

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def everyone(self) -> Tensor:
        return torch.arange(len(self), device=self.rows.device)

    @property
    def block(self) -> int:
        """How many rows of n distances to compute at once."""
        return rows_at_once(len(self), self.rows)

    def distances(self, rows: Tensor, others: Tensor | None = None) -> Tensor:
        """Whole distances [m, k] (float64) between the examples at positions `rows` and `others`, or all."""
        if others is None:
            others, right = self.everyone, self.right
        else:
            right = self.right[:, others]
        squares = self.left[rows] @ right
        whole, doubtful = self._rounded(squares)
        places = doubtful.flatten().nonzero()[:, 0]
        whole.view(-1)[places] = self._again(rows[places // len(others)], others[places % len(others)])
        return whole

    def bound(self, reach: Tensor) -> Tensor:
        """What the squares in the matrix product are below, wherever a whole distance is below its reach."""
        return ((reach + 1) / self.scale).square_().add_(self.error)

    def inside(self, rows: Tensor, bound: Tensor) -> tuple[Tensor, Tensor]:
        """Squared distances [m, n], and whether they are below the bound [m, 1] or [m, n]."""
        squares = self.left[rows] @ self.right
        return squares, squares < bound

    def near(self, rows: Tensor, bound: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """For each row how many are inside, which ones, and their whole distances: one list after the other."""
        squares, inside = self.inside(rows, bound)
        m, n = squares.shape
        flat = _ones(inside.flatten().cpu().numpy())
        counts = np.diff(np.searchsorted(flat, np.arange(m + 1) * n))
        sizes, places = (torch.from_numpy(each).to(rows.device) for each in (counts, flat))
        whole, doubtful = self._rounded(squares.flatten().index_select(0, places))
        again = doubtful.nonzero()[:, 0]
        whole[again] = self._again(rows[places[again] // n], places[again] % n)
        return sizes, places - (torch.arange(m, device=rows.device) * n).repeat_interleave(sizes), whole

    def _rounded(self, squares: Tensor) -> tuple[Tensor, Tensor]:
        """Whole distances of squared ones, and where the error might change them; the squares are overwritten."""
        distances = squares.clamp_(min=0).sqrt_().mul_(self.scale)
        whole = distances.round()
        # An error e of the square is one of about e / (2 · distance) of the distance.
        spare = distances.sub(whole).abs_().neg_().add_(0.5).mul_(distances)
        return whole, spare <= self.error * self.scale**2

    def _again(self, rows: Tensor, others: Tensor) -> Tensor:
        """Whole distances of pairs [p], from their differences."""
        return _lengths(self.rows[rows] - self.rows[others]).mul_(self.scale).round_()


def _lengths(steps: Tensor) -> Tensor:
    """√ Σ_k steps_k² [p], summed in the order of k: the same bits everywhere. The steps [p, d] are overwritten."""
    total = torch.zeros_like(steps[:, 0])
    for squares in steps.mul_(steps).T:
        total.add_(squares)
    return total.sqrt_()


def _ones(marks: Marks) -> Marks:
    """Where the marks are true, looking into eight at a time only where one is: few are, and np.flatnonzero is slow."""
    even = len(marks) // 8 * 8
    words = np.flatnonzero(marks[:even].view(np.uint64) != 0)
    found = np.flatnonzero(marks[:even].reshape(-1, 8)[words])
    return np.concatenate([8 * words[found >> 3] + (found & 7), even + np.flatnonzero(marks[even:])])


def measure(embeddings: Tensor) -> Points:
    """The embeddings [n, d] as points whose distances are multiples of 2⁻³⁰ of (at most) the largest one."""
    if embeddings.ndim != 2 or 0 in embeddings.shape or embeddings.is_complex():
        raise ThresherError(f"Embeddings of shape {list(embeddings.shape)} cannot be measured: give real rows [n, d].")
    rows = embeddings.detach().double()
    if not torch.isfinite(rows).all():
        raise ThresherError("Some embeddings are not finite, so nothing is near to them: drop those rows first.")
    rows = rows * 2.0 ** -math.frexp(float(rows.abs().max()))[1]  # squares can neither overflow nor vanish
    span = float(_lengths(rows - rows[_lengths(rows - rows[0]).argmax()]).max())
    centred = rows - rows.mean(0)
    norms = centred.square().sum(1, keepdim=True)
    left = torch.cat([norms, torch.ones_like(norms), -2 * centred], 1)
    right = torch.cat([torch.ones_like(norms), norms, centred], 1).T.contiguous()
    error = (rows.shape[1] + 8) * 2.0**-50 * float(norms.max())  # of d + 2 products, and of _lengths
    return Points(rows, left, right, error, UNITS / span if span > 0 else 1.0)


def checked_count(count: int, n: int) -> int:
    """The count, if so many can be chosen of n."""
    if not (isinstance(count, int) and 1 <= count <= n):
        raise ThresherError(f"count={count} cannot be chosen of {n} examples: give a whole number from 1 to {n}.")
    return count


def blocks(points: Points) -> Iterator[Tensor]:
    """The positions 0 ... n-1 in order, as many at once as a block of distances has rows."""
    yield from torch.split(points.everyone, points.block)


def total_distances(points: Points) -> Tensor:
    """Σ_j distance(i, j) [n] in whole numbers (int64); each pair is measured once."""
    everyone = points.everyone
    totals = torch.zeros_like(everyone)
    for rows in blocks(points):
        first, m = int(rows[0]), len(rows)
        distances = points.distances(rows, everyone[first:])
        totals[first:] += distances.sum(0).long()  # sums of whole numbers below 2⁵³ are exact in any order
        totals[first : first + m] += distances[:, m:].sum(1).long()
    return totals
