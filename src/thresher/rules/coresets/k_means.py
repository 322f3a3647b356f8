"""k-means++ on embeddings that may be outer products: strong examples that differ from each other."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from thresher.core.evidence import Evidence, Signal
from thresher.core.rounds import Rounds, counted
from thresher.core.rule import Decision, Rule, check_count, checked_count
from thresher.core.seeding import generator as seeded
from thresher.core.signals import Pair, gradient_embedding, signal_or_pair_named
from thresher.rules.coresets.outer_products import Nearest, Products
from thresher.rules.coresets.picks import picked


def kmeans_plus_plus(
    left: Tensor,
    right: Tensor,
    count: int,
    generator: torch.Generator | None = None,
    *,
    scale: Tensor | None = None,
    order: Tensor | None = None,
    largest_first: bool = True,
) -> Tensor:
    """`count` positions by k-means++ on leftᵢ ⊗ rightᵢ (left [n, c], right [n, d], times scale [n]), none of them made.

    The first has the largest norm, as in the code released with BADGE (or any, equally likely, as in Arthur and
    Vassilvitskii 2007); each next one is drawn in proportion to its squared distance to the nearest so far.
    `order` [n] is the order in which positions share the draws and win ties.

    >>> left, right = torch.ones(4, 1), torch.tensor([[0.0], [0.1], [9.0], [9.1]])
    >>> kmeans_plus_plus(left, right, 2, torch.Generator().manual_seed(0)).tolist()
    [3, 1]
    """
    products = Products.of(left, right, scale)
    n, nearest = len(products), Nearest.empty(products)
    turns = torch.arange(n, device=left.device) if order is None else order
    source = seeded(0, "k-means++") if generator is None else generator
    draws = torch.rand(checked_count(count, n), dtype=torch.float64, generator=source, device=source.device).tolist()
    first = int(products.squares[turns].argmax()) if largest_first else int(draws[0] * n)
    chosen = [int(turns[first])]
    free = torch.ones(n, dtype=torch.bool)
    for draw in draws[1:]:
        latest = turns.new_tensor(chosen[-1:])
        nearest.add(products.at(latest))
        free[chosen[-1]] = False
        weights = nearest.squares[turns].cpu()  # so that sums, and with them the draws, are the same on every device
        place = _drawn(weights, draw) if weights.any() else int(free[turns.cpu()].int().argmax())
        chosen.append(int(turns[place]))
    return torch.tensor(chosen, device=left.device)


def _drawn(weights: Tensor, draw: float) -> int:
    """The first place where the running sum of the weights [n] is above this share of their total.

    >>> _drawn(torch.tensor([0.0, 3.0, 1.0]), 0.74), _drawn(torch.tensor([0.0, 3.0, 1.0]), 0.76)
    (1, 2)
    """
    running = weights.cumsum(0)
    share = torch.minimum(draw * running[-1], running[-1].nextafter(torch.zeros_like(running[-1])))
    return int(torch.searchsorted(running, share, right=True))


@dataclass(frozen=True)
class KMeansPlusPlus(Rule):
    """Weight 1 for `count` examples by k-means++, 0 for the rest: strong embeddings that differ from each other.

    On a pool `KMeansPlusPlus(count=100)` is BADGE (Ash et al. 2020), and by `scaled(gradient_embedding,
    average_divergence)` S-BADGE. `by` is a pair of factors, or a signal [n, d]. The column `pick` numbers the
    picks in order.
    """

    by: Signal | Pair = gradient_embedding
    count: int = 100
    largest_first: bool = True

    clocks: ClassVar[frozenset[str]] = frozenset({"epoch", "round"})

    def __post_init__(self) -> None:
        if isinstance(self.by, str):
            object.__setattr__(self, "by", signal_or_pair_named(self.by))
        super().__post_init__()
        check_count(self.count)

    def rounds(self, evidence: Evidence, parts: int) -> Rounds:
        return counted(self, self.count, len(evidence), parts)

    def __call__(self, evidence: Evidence) -> Decision:
        left, right, scale = _factors(evidence, self.by)
        order, count = evidence.ids.argsort(), min(self.count, len(evidence))
        return picked(
            kmeans_plus_plus(
                left, right, count, evidence.generator, scale=scale, order=order, largest_first=self.largest_first
            ),
            evidence,
        )


def _factors(evidence: Evidence, by: Signal | Pair) -> tuple[Tensor, Tensor, Tensor | None]:
    """The left and right factors, and the scale where there is one; a plain signal has a left of ones."""
    if isinstance(by, Signal):
        rows = evidence.read(by).reshape(len(evidence), -1)
        return torch.ones_like(rows[:, :1]), rows, None
    left, right = (evidence.read(side).reshape(len(evidence), -1) for side in (by.left, by.right))
    return left, right, None if by.scale is None else evidence.read(by.scale)
