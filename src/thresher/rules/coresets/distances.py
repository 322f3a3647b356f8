"""Distances between embeddings as whole numbers: the same numbers in whatever block they are computed."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from thresher.core.chunks import multiply, places_below, product_type, rows_at_once
from thresher.core.errors import ThresherError

UNITS = 2**30  # the span has at most so many, the largest distance at most twice as many: it fits into 32 bits


@dataclass(frozen=True, eq=False)
class Points:
    """n embeddings, in units in which a distance is rounded to a whole number.

    Squared distances come from a matrix product, which is quick but sums in an order that depends on the block. Where
    its error could change the rounding, the distance is computed again from the differences, in a fixed order. So each
    pair has one distance, the same both ways, in every block and on every device, and ties stay ties.
    """

    columns: Tensor  # [d, n] float64
    left: Tensor  # [n, d + 2], and
    right: Tensor  # [d + 2, n]: their product is the squared distances
    error: float  # ... with no more error than this
    rough: tuple[Tensor, Tensor]  # such a left and right whose product is never above the squared distances

    def __len__(self) -> int:
        return self.columns.shape[1]

    @property
    def rows(self) -> Tensor:
        return self.columns.T

    @property
    def positions(self) -> Tensor:
        return torch.arange(len(self), device=self.rows.device)

    @property
    def block(self) -> int:
        """How many rows of n distances to compute at once."""
        return rows_at_once(len(self), self.rows)

    def distances(self, rows: Tensor, others: Tensor | None = None) -> Tensor:
        """Whole distances [m, k] (float64) between the examples at positions `rows` and `others`, or all."""
        if others is None:
            others, right = self.positions, self.right
        else:
            right = self.right[:, others]
        whole, doubtful = self._rounded(self.left[rows] @ right)
        places = doubtful.flatten().nonzero()[:, 0]
        whole.view(-1)[places] = self._again(rows[places // len(others)], others[places % len(others)])
        return whole

    def squares_at_least(self, rows: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """The rows in blocks, with what their squared distances to all [m, n] are at least: quick, and not much less.

        Each block overwrites the one before.
        """
        return self._products(rows, *self.rough)

    def near(self, rows: Tensor, reach: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """In blocks of rows: how many have each in (or just out of) reach [n], which ones, their whole distances."""
        # Single precision takes duplicates of a medoid, and crowds in nearly one place, for nearer than they are.
        limit = torch.where(reach > 0, reach.square() * (1 + 2.0**-22), -torch.inf).to(self.rough[1].dtype)
        for some, squares in self.squares_at_least(rows):
            places = places_below(squares, limit)
            row, others = places // len(self), places % len(self)
            whole = self._again(some[row], others)
            inside = whole < reach[others]
            if 2 * int(inside.sum()) < len(inside):
                row, others, whole = row[inside], others[inside], whole[inside]
            yield row.bincount(minlength=len(some)), others, whole

    def surely_near(self, rows: Tensor, reach: Tensor) -> Tensor:
        """How many have each row [m] nearer than their reach [n], but for those where the error could decide."""
        limit = reach.square() - self.error
        return torch.cat([(squares < limit).sum(1) for _, squares in self._products(rows, self.left, self.right)])

    def _products(self, rows: Tensor, left: Tensor, right: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """The rows in blocks, with those of left @ right; each block overwrites the one before."""
        room = torch.empty(min(len(rows), self.block), len(self), dtype=right.dtype, device=right.device)
        for some in torch.split(rows, self.block):
            products = room[: len(some)]
            multiply(left[some], right, products)
            yield some, products

    def _rounded(self, squares: Tensor) -> tuple[Tensor, Tensor]:
        """Whole distances of squared ones, and where the error might change them; the squares are overwritten."""
        distances = squares.clamp_(min=0).sqrt_()
        whole = distances.round()
        # An error e of the square is one of about e / (2 · distance) of the distance.
        spare = distances.sub(whole).abs_().neg_().add_(0.5).mul_(distances)
        return whole, spare <= self.error

    def _again(self, rows: Tensor, others: Tensor) -> Tensor:
        """Whole distances of pairs [p], from their differences."""
        return _lengths(self.columns, rows, others).round_()


def _lengths(columns: Tensor, rows: Tensor, others: Tensor) -> Tensor:
    """Distances of pairs [p] of the points in columns [d, n], summed in the order of d: the same bits everywhere."""
    squares = torch.zeros(len(rows), dtype=columns.dtype, device=columns.device)
    for column in columns:
        steps = column.index_select(0, rows).sub_(column.index_select(0, others))
        squares.add_(steps.mul_(steps))
    return squares.sqrt_()


def as_points(embeddings: Tensor) -> Points:
    """The embeddings [n, d] in units of 2⁻³⁰ to 2⁻²⁹ of the span, which is at least half the largest distance.

    The unit is a power of two, so that nothing is rounded but the distances.
    """
    columns = checked_rows(embeddings).T.contiguous()
    columns = columns * 2.0 ** -math.frexp(float(columns.abs().max()))[1]  # squares can neither overflow nor vanish
    everyone = torch.arange(columns.shape[1], device=columns.device)
    farthest = _lengths(columns, torch.zeros_like(everyone), everyone).argmax()
    span = float(_lengths(columns, farthest.expand_as(everyone), everyone).max())
    columns *= UNITS * 2.0 ** -math.frexp(span)[1]
    centred = (columns - columns.mean(1, keepdim=True)).T
    # Of d + 2 products, of the norms, and of _lengths; in single precision all of it is 2²⁹ times as much.
    error = (len(columns) + 8) * 2.0**-50 * float(centred.square().sum(1).max())
    kind = product_type(columns)
    rough = _factors(centred.to(kind), error * torch.finfo(kind).eps / torch.finfo(torch.float64).eps)
    return Points(columns, *_factors(centred, 0.0), error, rough)


def _factors(centred: Tensor, less: float) -> tuple[Tensor, Tensor]:
    """A left [n, d + 2] and a right [d + 2, n] whose product is the squared distances less so much."""
    norms = centred.square().sum(1, keepdim=True) - less / 2
    ones = torch.ones_like(norms)
    return torch.cat([norms, ones, -2 * centred], 1), torch.cat([ones, norms, centred], 1).T.contiguous()


def checked_rows(embeddings: Tensor) -> Tensor:
    """The embeddings [n, d] in double precision, if distances between them can be measured."""
    if not isinstance(embeddings, Tensor):
        raise ThresherError(f"Embeddings are a {type(embeddings).__name__} here: give a tensor, as by torch.as_tensor.")
    if embeddings.layout != torch.strided:
        raise ThresherError(f"Embeddings are {embeddings.layout}: give dense rows, as by embeddings.to_dense().")
    if embeddings.ndim != 2 or 0 in embeddings.shape or embeddings.is_complex():
        raise ThresherError(f"Embeddings of shape {list(embeddings.shape)} cannot be measured: give real rows [n, d].")
    rows = embeddings.detach().double()
    if not torch.isfinite(rows).all():
        raise ThresherError("Some embeddings are not finite, so nothing is near to them: drop those rows first.")
    return rows


def blocks(points: Points) -> Iterator[Tensor]:
    """The positions 0 ... n-1 in order, as many at once as a block of distances has rows."""
    yield from torch.split(points.positions, points.block)


def total_distances(points: Points) -> Tensor:
    """Σ_j distance(i, j) [n] in whole numbers (int64); each pair is measured once."""
    everyone = points.positions
    totals = torch.zeros_like(everyone)
    for rows in blocks(points):
        first, m = int(rows[0]), len(rows)
        distances = points.distances(rows, everyone[first:])
        totals[first:] += distances.sum(0).long()  # sums of whole numbers below 2⁵³ are exact in any order
        totals[first : first + m] += distances[:, m:].sum(1).long()
    return totals
