"""The most central examples: those nearest to all others on average."""

import warnings
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from thresher.core.evidence import Evidence, Signal
from thresher.core.rounds import Rounds, counted, scattered, shared
from thresher.core.rule import Decision, Rule, check_size, checked_count
from thresher.core.schedules import Schedule
from thresher.core.signals import output_gradient
from thresher.rules.coresets.distances import Points, as_points, nearly_total_distances, total_distances

AT_ONCE = 40_000  # examples that are compared with each other: time and work grow with the square of their number
TRIED = 32  # examples whose sums are computed at once in the search for the most central one


def centrality(embeddings: Tensor, count: int) -> Tensor:
    """The `count` rows of embeddings [n, d] with the largest Σ_j similarity(i, j), most central first.

    similarity = largest distance - distance, so these are the smallest sums of distances; ties go to the lower index.
    This is what the code released with CRUST selects. No n × n matrix is made, and sums are exact.

    >>> centrality(torch.tensor([[0.0], [1.0], [2.0], [9.0]]), 2).tolist()
    [1, 2]
    """
    points = as_points(embeddings)
    return total_distances(points).argsort(stable=True)[: checked_count(count, len(points))]


def among_central(points: Points, count: int) -> Tensor:
    """The same examples in no order, which is found from sums that are nearly exact, and exact ones near the limit."""
    totals, doubt = nearly_total_distances(points)
    unsure = ((totals - totals.kthvalue(count).values).abs() <= 2 * doubt).nonzero()[:, 0]
    if 2 * len(unsure) > len(points):  # each pair once is then less work
        totals = total_distances(points)
    elif len(unsure) > 1:
        totals[unsure] = torch.cat([points.distances(some).sum(1) for some in torch.split(unsure, points.block)])
    return totals.argsort(stable=True)[:count]


def most_central(points: Points) -> int:
    """The first of `centrality`, mostly from the sums of a few examples.

    The sum of distances is convex, so the tangent plane at any example bounds the sums of all others from below;
    examples with a bound above the least sum so far are skipped.
    """
    n = len(points)
    least = n * (points.rows - points.rows.mean(0)).square().sum(1).sqrt()
    totals = torch.full_like(least, torch.inf)
    for _ in range(0, n // 4, TRIED):
        best = totals.min()
        if bool((least > best * (1 + 1e-6) + n).all()):  # the rounding of n distances and of the bounds
            return int((totals == best).int().argmax())
        rows = least.topk(min(TRIED, n), largest=False).indices
        for some in torch.split(rows, points.block):
            totals[some], tangents = _tangents(points, some)
            least = torch.maximum(least, tangents.amax(0))
        least[rows] = torch.inf
    return int(total_distances(points).argmin())


def _tangents(points: Points, rows: Tensor) -> tuple[Tensor, Tensor]:
    """The sums of distances from these rows [m], and the tangent planes there as bounds for all examples [m, n]."""
    distances = points.distances(rows)
    totals = distances.sum(1, keepdim=True)
    # Examples too near for their rounded distance to give a direction are left out: that only lowers the plane.
    far = distances > 2.0**24
    weights = torch.where(far, 1 / distances, 0.0)
    here = points.rows[rows]
    slopes = weights.sum(1, keepdim=True) * here - weights @ points.rows  # [m, d] gradient: Σ_j (here - j) / distance
    height = torch.where(far, distances, 0.0).sum(1, keepdim=True) - (slopes * here).sum(1, keepdim=True)
    return totals[:, 0], height + slopes @ points.rows.T - 2.0**-22 * totals


def parts_of(n: int, count: int, at_once: int = AT_ONCE) -> list[tuple[Tensor, int]]:
    """The positions to compare with each other, and how many to choose of each: one part, or several where n is large.

    >>> with warnings.catch_warnings(action="ignore"):
    ...     print([(part.tolist(), share) for part, share in parts_of(5, 3, at_once=4)])
    [([0, 2, 4], 2), ([1, 3], 1)]
    """
    number = -(-n // at_once)
    if number > 1:
        warnings.warn(
            f"{n:,} examples are chosen from in {number} parts of at most {at_once:,}, because the time "
            "grows with the square of their number.",
            stacklevel=2,
        )
    parts = [torch.arange(first, n, number) for first in range(number)]
    ends = [round(count * sum(map(len, parts[: place + 1])) / n) for place in range(number)]
    shares = zip(parts, [0, *ends[:-1]], ends, strict=True)
    return [(part, end - begun) for part, begun, end in shares if end > begun]


@dataclass(frozen=True)
class Centrality(Rule):
    """Weight 1 for the share `fraction` (or the `count`) of examples nearest to all others, 0 for the rest.

    `per_class(Centrality(fraction=0.5))` is what the code released with CRUST selects, by predicted class.
    """

    by: Signal = output_gradient
    fraction: float | Schedule | None = None
    count: int | None = None

    clocks: ClassVar[frozenset[str]] = frozenset({"epoch", "round"})

    def __post_init__(self) -> None:
        super().__post_init__()
        check_size(type(self).__name__, self.fraction, self.count)

    def rounds(self, evidence: Evidence, parts: int) -> Rounds:
        if self.count is not None:
            return counted(self, self.count, len(evidence), parts, self.joined)
        assert self.fraction is not None
        return shared(self, float(evidence.value(self.fraction)), parts, self.joined)

    @staticmethod
    def joined(first: Decision, places: Tensor, then: Decision, ids: Tensor) -> Decision:
        """The decision that both rounds make together."""
        return scattered(first, places, then, ids)

    def __call__(self, evidence: Evidence) -> Decision:
        by_id, embeddings, count = self._asked(evidence)
        weights = torch.zeros(len(evidence), device=embeddings.device)
        for part, share in parts_of(len(evidence), count):
            weights[by_id[part.to(by_id.device)[among_central(as_points(embeddings[part]), share)]]] = 1.0
        return Decision(weights)

    def _asked(self, evidence: Evidence) -> tuple[Tensor, Tensor, int]:
        """The order by id, in which ties are broken, the embeddings in this order, and how many to keep."""
        by_id, n = evidence.ids.argsort(), len(evidence)
        embeddings = evidence.read(self.by).reshape(n, -1)[by_id]
        if self.fraction is None:
            assert self.count is not None
            return by_id, embeddings, min(n, self.count)
        return by_id, embeddings, max(1, round(float(evidence.value(self.fraction)) * n))
