"""Distances from n outer products to the nearest of some centres, without multiplying them out."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from thresher.core.chunks import rows_at_once
from thresher.core.errors import ThresherError

SINGLE, DOUBLE = 2.0**-23, 2.0**-52
VANISHING, OVERFLOWING = 2.0**-200, 2.0**250  # of ‖·‖²‖·‖²: outside, products in single precision under- or overflow
Rows = Tensor | slice


@dataclass(frozen=True, eq=False)
class Products:
    """n embeddings gᵢ = scaleᵢ · leftᵢ ⊗ rightᵢ, with left [n, c], right [n, d] and, where given, scale [n].

    ‖gᵢ - gⱼ‖² = ‖gᵢ‖² + ‖gⱼ‖² - 2 (aᵢ·aⱼ)(hᵢ·hⱼ), where a is the scaled left and h the right: n · (c + d) numbers are
    enough. A table [n, d] is the same with a left of ones.
    """

    left: Tensor
    right: Tensor
    scale: Tensor | None
    norms: Tensor  # [n, 2] ‖leftᵢ‖² and ‖rightᵢ‖², in double precision

    @classmethod
    def of(cls, left: Tensor, right: Tensor, scale: Tensor | None = None) -> "Products":
        """The products of these factors, which must be finite."""
        if left.ndim != 2 or right.ndim != 2 or len(left) != len(right) or 0 in (*left.shape, *right.shape):
            shapes = f"{list(left.shape)} and {list(right.shape)}"
            raise ThresherError(f"Factors of shape {shapes} do not match: give rows [n, c] and [n, d].")
        left, right = (f.detach() if f.dtype in (torch.float32, torch.float64) else f.float() for f in (left, right))
        norms = torch.stack([_squared_lengths(factor) for factor in (left, right)], 1)
        made = cls(left, right, None if scale is None else scale.detach().double(), norms)
        if not torch.isfinite(made.squares).all():
            raise ThresherError("Some embeddings are NaN or infinite: drop those rows first.")
        return made

    @classmethod
    def table(cls, rows: Tensor) -> "Products":
        """Embeddings that are the rows [n, d] themselves."""
        return cls.of(torch.ones_like(rows[:, :1]), rows)

    def __len__(self) -> int:
        return len(self.left)

    @property
    def width(self) -> int:
        return self.left.shape[1] + self.right.shape[1]

    @property
    def squares(self) -> Tensor:
        """‖gᵢ‖² [n]."""
        squares = self.norms.prod(1)
        return squares if self.scale is None else squares * self.scale.square()

    def at(self, rows: Rows) -> "Products":
        """The embeddings at these positions."""
        scale = None if self.scale is None else _at(self.scale, rows)
        return Products(_at(self.left, rows), _at(self.right, rows), scale, _at(self.norms, rows))

    def times(self, dots: Tensor, other: "Products") -> Tensor:
        """aᵢ·aⱼ in double precision, from products of the left factors [n] or [n, k] before they are scaled."""
        dots = dots.double()
        if self.scale is not None:
            dots = dots * (self.scale if dots.ndim == 1 else self.scale[:, None])
        return dots if other.scale is None else dots * other.scale

    def exact(self, other: "Products") -> Tensor:
        """‖gᵢ - gⱼ‖² [n] to the embedding at the same place in the other, or to its only one; 0 within rounding."""
        # Summed row by row, so that equal rows have equal distances and ties stay ties.
        left, right = (
            mine.to(torch.float64, copy=True).mul_(theirs.double()).sum(1)
            for mine, theirs in ((self.left, other.left), (self.right, other.right))
        )
        both = self.squares + other.squares
        squares = both - 2 * self.times(left, other) * right
        return squares.where(squares > DOUBLE * (self.width + 8) * both, 0.0)


@dataclass(frozen=True, eq=False)
class Nearest:
    """The squared distance of each embedding to the nearest centre so far [n], in double precision.

    Few embeddings come nearer to a centre when one is added. Which ones may is found by bounds, first from the left
    factors, then from the products in the precision of the factors; only those distances are computed in double
    precision. So they do not depend on blocks, and are those of the multiplied embeddings.
    """

    all: Products
    squares: Tensor
    span: tuple[Tensor, Tensor]

    @classmethod
    def empty(cls, products: Products) -> "Nearest":
        """No centre yet: every distance is infinite."""
        return cls(products, torch.full_like(products.norms[:, 0], torch.inf), _span(products.norms))

    def add(self, centres: Products) -> None:
        """Add these k embeddings as centres."""
        n, k, beside = len(self.all), len(centres), self.all.left
        least, most = (ours * theirs for ours, theirs in zip(self.span, _span(centres.norms), strict=True))
        fits = bool((least > VANISHING).all() & (most < OVERFLOWING).all())
        error = _error(self.all) if fits else (self.all.width + 8) * DOUBLE
        for rows in _blocks(n, self.all.left.shape[1] // 4 + 4 * k, beside):
            some, far = self.all.at(rows), self.squares[rows]
            both = some.squares[:, None] + centres.squares
            doubt = error * both
            left = some.times(_dots(some.left, centres.left, fits), centres)
            at_least = both - 2 * left.abs() * (some.norms[:, 1:] * centres.norms[:, 1]).sqrt() - doubt
            near = (at_least < far[:, None]).any(1).nonzero()[:, 0]
            for at in _few_or_all(near, len(some), self.all.width + k, beside):
                found = _at(both, at) - 2 * _at(left, at) * _dots(_at(some.right, at), centres.right, fits)
                reach = torch.minimum(_at(far, at), (found + _at(doubt, at)).amin(1))
                place, centre = (found - _at(doubt, at) <= reach[:, None]).nonzero().T
                nearer = place + at.start if isinstance(at, slice) else at[place]
                exact = some.at(nearer).exact(centres if k == 1 else centres.at(centre))
                far.scatter_reduce_(0, nearer, exact, "amin")


def _dots(rows: Tensor, others: Tensor, fits: bool) -> Tensor:
    """All products [m, k], in double precision where single would under- or overflow."""
    return rows @ others.T if fits else rows.double() @ others.double().T


def _span(norms: Tensor) -> tuple[Tensor, Tensor]:
    """The least norms above zero [2] and the largest."""
    return norms.where(norms > 0, torch.inf).amin(0), norms.amax(0)


def _error(products: Products) -> float:
    """The error of a squared distance from matrix products, as a share of ‖gᵢ‖² + ‖gⱼ‖²."""
    if products.left.dtype == products.right.dtype == torch.float64:
        return (products.width + 8) * DOUBLE
    rounded = {"highest": 0.0, "high": 2.0**-9, "medium": 2.0**-6}[torch.get_float32_matmul_precision()]
    return (products.width + 8) * SINGLE + rounded


def _squared_lengths(rows: Tensor) -> Tensor:
    """‖rowᵢ‖² [n] in double precision."""
    lengths = torch.empty(len(rows), dtype=torch.float64, device=rows.device)
    for at in _blocks(len(rows), 2 * rows.shape[1], rows):
        piece = rows[at].to(torch.float64, copy=True)
        lengths[at] = piece.mul_(piece).sum(1)
    return lengths


def _at(rows: Tensor, where: Rows) -> Tensor:
    return rows[where] if isinstance(where, slice) else rows.index_select(0, where)


def _few_or_all(places: Tensor, n: int, width: int, beside: Tensor) -> Iterator[Rows]:
    """The places in pieces, or slices of all n where gathering so many places would cost more."""
    if 2 * len(places) > n:
        return iter(_blocks(n, width, beside))
    return iter(torch.split(places, rows_at_once(width, beside)))


def _blocks(n: int, width: int, beside: Tensor) -> list[slice]:
    step = rows_at_once(width, beside)
    return [slice(start, min(n, start + step)) for start in range(0, n, step)]
