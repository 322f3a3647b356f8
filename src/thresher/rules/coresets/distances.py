"""Distances between embeddings as whole numbers, which do not depend on the block in which they are computed."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from thresher.core.chunks import multiply, places_below, product_type, rows_at_once
from thresher.core.errors import ThresherError

UNITS = 2**30  # units of the span at most; the largest distance has at most twice as many and fits into 32 bits


@dataclass(frozen=True, eq=False)
class Points:
    """n embeddings, in units in which a distance is rounded to a whole number.

    Squared distances come from a matrix product, whose rounding depends on the block. Where its error could change the
    whole number, the distance is computed again from the differences, in a fixed order. So each pair has one distance,
    symmetric, and the same in every block and on every device; ties stay ties.
    """

    columns: Tensor  # [d, n] float64
    left: Tensor  # [n, d + 2]
    right: Tensor  # [d + 2, n]: left @ right are the squared distances
    error: float  # the largest error of left @ right
    rough: tuple[Tensor, Tensor]  # a left and right of `product_type` with a product just below the squared distances
    rough_error: float  # how far below at most

    def __len__(self) -> int:
        return self.columns.shape[1]

    @property
    def rows(self) -> Tensor:
        return self.columns.T

    @property
    def positions(self) -> Tensor:
        """0 ... n-1."""
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

    def nearly_distances(self, rows: Tensor, others: Tensor) -> Tensor:
        """Distances [m, k] between these examples, not rounded, and each off by the root of the error at most."""
        return (self.left[rows] @ self.right[:, others]).clamp_(min=0).sqrt_()

    def squares_at_least(self, rows: Tensor, others: Tensor | None = None) -> Iterator[tuple[Tensor, Tensor]]:
        """The rows in blocks, with close lower bounds of their squared distances to all [m, n], or to others [m, k].

        Each block overwrites the one before.
        """
        left, right = self.rough
        return self._products(rows, left, right if others is None else right[:, others])

    def near(self, rows: Tensor, reach: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """In blocks of rows: how many examples have each row within their reach [n], which ones, and their distances.

        Some examples just out of reach may be included.
        """
        # In single precision near duplicates seem nearer than they are.
        limit = torch.where(reach > 0, reach.square() * (1 + 2.0**-22), -torch.inf).to(self.rough[1].dtype)
        for some, squares in self.squares_at_least(rows):
            places = places_below(squares, limit)
            ends = torch.searchsorted(places, len(self) * torch.arange(1, len(some) + 1, device=places.device))
            sizes = ends.diff(prepend=torch.zeros_like(ends[:1]))
            row = torch.repeat_interleave(sizes, output_size=len(places))
            others = places.sub_(row, alpha=len(self))
            whole = self._again(some.index_select(0, row), others)
            inside = whole < reach.index_select(0, others)
            if 2 * int(inside.sum()) < len(inside):
                sizes = row[inside].bincount(minlength=len(some))
                others, whole = others[inside], whole[inside]
            yield sizes, others, whole

    def pairs_at_least(self) -> Iterator[tuple[int, Tensor]]:
        """Close lower bounds of the squared distances of all pairs, each once: of m rows from the first to all from it.

        Each block [m, n - first] overwrites the one before.
        """
        left, right = self.rough
        first, numbers = 0, right.new_empty(self.block * len(self))
        while first < len(self):
            rows = min(len(numbers) // (len(self) - first), len(self) - first)
            squares = numbers[: rows * (len(self) - first)].view(rows, -1)
            multiply(left[first : first + rows], right[:, first:], squares)
            yield first, squares
            first += rows

    def surely_near(self, rows: Tensor, reach: Tensor, others: Tensor) -> Tensor:
        """How many of the others [k] have each row [m] surely within their reach [n], the error considered."""
        limit = (reach.square() - self.error)[others]
        found = self._products(rows, self.left, self.right[:, others])
        return torch.cat([(squares < limit).sum(1) for _, squares in found])

    def _products(self, rows: Tensor, left: Tensor, right: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """The rows in blocks, with their rows of left @ right; each block overwrites the one before."""
        block = rows_at_once(right.shape[1], right)
        room = torch.empty(min(len(rows), block), right.shape[1], dtype=right.dtype, device=right.device)
        for some in torch.split(rows, block):
            products = room[: len(some)]
            multiply(left[some], right, products)
            yield some, products

    def _rounded(self, squares: Tensor) -> tuple[Tensor, Tensor]:
        """Whole distances from squared ones, and where the error could change them; the squares are overwritten."""
        distances = squares.clamp_(min=0).sqrt_()
        whole = distances.round()
        # An error e of the square is one of about e / (2 · distance) of the distance.
        spare = distances.sub(whole).abs_().neg_().add_(0.5).mul_(distances)
        return whole, spare <= self.error

    def _again(self, rows: Tensor, others: Tensor) -> Tensor:
        """Whole distances of pairs [p], computed from their differences."""
        return _lengths(self.columns, rows, others).round_()


def _lengths(columns: Tensor, rows: Tensor, others: Tensor) -> Tensor:
    """Distances of pairs [p] of the points in columns [d, n], summed in the order of d: the same on every device."""
    squares = torch.zeros(len(rows), dtype=columns.dtype, device=columns.device)
    for column in columns:
        steps = column.index_select(0, rows).sub_(column.index_select(0, others))
        squares.add_(steps.mul_(steps))
    return squares.sqrt_()


def as_points(embeddings: Tensor) -> Points:
    """The embeddings [n, d] in units of 2⁻³⁰ to 2⁻²⁹ of the span, which is at least half the largest distance.

    The unit is a power of two, so that only distances are rounded.
    """
    columns = checked_rows(embeddings).T.contiguous()
    columns = columns * 2.0 ** -math.frexp(float(columns.abs().max()))[1]  # squares can neither overflow nor vanish
    positions = torch.arange(columns.shape[1], device=columns.device)
    farthest = _lengths(columns, torch.zeros_like(positions), positions).argmax()
    span = float(_lengths(columns, farthest.expand_as(positions), positions).max())
    columns *= UNITS * 2.0 ** -math.frexp(span)[1]
    centred = (columns - columns.mean(1, keepdim=True)).T
    # Of d + 2 products, of the norms, and of _lengths; in single precision all of it is 2²⁹ times as much.
    error = (len(columns) + 8) * 2.0**-50 * float(centred.square().sum(1).max())
    kind = product_type(columns)
    less = error * torch.finfo(kind).eps / torch.finfo(torch.float64).eps
    return Points(columns, *_factors(centred, 0.0), error, _factors(centred.to(kind), less), 2 * less)


def _factors(centred: Tensor, less: float) -> tuple[Tensor, Tensor]:
    """A left [n, d + 2] and a right [d + 2, n] whose product is the squared distances minus `less`."""
    norms = centred.square().sum(1, keepdim=True) - less / 2
    ones = torch.ones_like(norms)
    return torch.cat([norms, ones, -2 * centred], 1), torch.cat([ones, norms, centred], 1).T.contiguous()


def checked_rows(embeddings: Tensor) -> Tensor:
    """The embeddings [n, d] in double precision, refused where they have no distances."""
    if not isinstance(embeddings, Tensor):
        raise ThresherError(f"Embeddings are a {type(embeddings).__name__}: give a tensor, as by torch.as_tensor.")
    if embeddings.layout != torch.strided:
        raise ThresherError(f"Embeddings are {embeddings.layout}: give dense rows, as by embeddings.to_dense().")
    if embeddings.ndim != 2 or 0 in embeddings.shape or embeddings.is_complex():
        raise ThresherError(f"Embeddings of shape {list(embeddings.shape)} have no distances: give real rows [n, d].")
    rows = embeddings.detach().double()
    if not torch.isfinite(rows).all():
        raise ThresherError("Some embeddings are NaN or infinite: drop those rows first.")
    return rows


def blocks(points: Points) -> Iterator[Tensor]:
    """The positions 0 ... n-1 in order, as many at once as a block of distances has rows."""
    yield from torch.split(points.positions, points.block)


def total_distances(points: Points) -> Tensor:
    """Σ_j distance(i, j) [n] in whole numbers (int64); each pair is measured once."""
    return _totals(points, points.distances).long()  # sums of whole numbers below 2⁵³ are exact in any order


def nearly_total_distances(points: Points) -> tuple[Tensor, float]:
    """The same in double precision from matrix products alone, and how far they may be off."""
    totals = _totals(points, points.nearly_distances)
    # A square that is off by e is one of a distance that is off by √e at most; whole numbers are off by a half.
    return totals, len(points) * (math.sqrt(points.error) + 1 + 2.0**-51 * float(totals.max()))


def _totals(points: Points, measure: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Σ_j measure(i, j) [n] of what is symmetric."""
    positions, first = points.positions, 0
    totals = torch.zeros_like(positions, dtype=torch.float64)
    for rows in blocks(points):
        m = len(rows)
        distances = measure(rows, positions[first:])
        totals[first:] += distances.sum(0)
        totals[first : first + m] += distances[:, m:].sum(1)
        first += m
    return totals
