"""Exact greedy facility location without an n × n matrix."""

import torch
from torch import Tensor

from thresher.rules.centrality import most_central
from thresher.rules.cover import Coreset, Cover, clusters, gains_of
from thresher.rules.distances import Points, checked_count, measure
from thresher.rules.near import choose_near

PAIRS, NEIGHBOURS = 2**24, 256  # pairs that may be listed: so many in any case (128 MiB), or so many for each example
SAMPLE = 64  # rows by which the number of pairs is foreseen


def facility_location(embeddings: Tensor, count: int) -> Coreset:
    """`count` medoids of embeddings [n, d] by greedy steps on f(S) = Σ_i max_{j ∈ S} similarity(i, j).

    similarity = largest distance - distance, in whole numbers (2⁻³⁰ of the largest), so that gains are exact and the
    medoids are those of naive greedy, ties to the lower index. At least 1 - 1/e of the best value (Nemhauser 1978).

    >>> facility_location(torch.tensor([[0.0], [1.0], [2.0], [9.0]]), 2)
    Coreset(indices=tensor([1, 3]), cluster_sizes=tensor([3, 1]), assignment=tensor([0, 0, 0, 1]))
    """
    points = measure(embeddings)
    checked_count(count, len(points))
    cover = Cover.empty(points)
    cover.add(points, most_central(points))
    pairs = _choose_far(points, cover, count)
    if len(cover.chosen) < count:
        choose_near(points, cover, count, expected=pairs + pairs // 8)
    return clusters(cover.chosen, cover.owner)


def _choose_far(points: Points, cover: Cover, count: int) -> int:
    """Choose until there are `count` medoids, or so few pairs in reach that they can be listed: about how many.

    Gains only ever fall, so that an old gain is a bound: those are taken again that might still be the largest.
    """
    n = len(points)
    gains: Tensor | None = None
    while len(cover.chosen) < count:
        pairs = _pairs_in_reach(points, cover)
        if pairs <= max(PAIRS, NEIGHBOURS * n):
            return pairs
        if gains is None:
            gains = gains_of(points, points.everyone, cover.reach)
            gains[cover.chosen] = -1
            fresh = torch.ones_like(gains, dtype=torch.bool)
        medoid = _largest(points, gains, fresh, cover.reach)
        cover.add(points, medoid)
        gains[medoid] = -1
        fresh = torch.zeros_like(fresh)
    return 0


def _largest(points: Points, gains: Tensor, fresh: Tensor, reach: Tensor) -> int:
    """The first candidate of the largest gain; old gains are taken again, and marked as fresh, until that is sure."""
    while True:
        largest = gains.where(fresh, 0.0).max()  # at least 0: medoids, whose gains are below, stay out
        doubtful = (~fresh & (gains >= largest)).nonzero()[:, 0]
        if len(doubtful) == 0:
            return int((fresh & (gains == largest)).int().argmax())
        highest = gains[doubtful].argsort(descending=True)
        some = doubtful[highest[: points.block]]
        gains[some] = gains_of(points, some, reach)
        fresh[some] = True


def _pairs_in_reach(points: Points, cover: Cover) -> int:
    """About how many pairs are nearer than the reach of one of the two, from a sample of rows."""
    n = len(points)
    rows = points.everyone[:: max(1, n // SAMPLE)]
    near, bound = 0, points.bound(cover.reach)
    for at in torch.split(rows, points.block):
        near += int(points.inside(at, torch.maximum(bound[at, None], bound))[1].sum())
    return near * n // len(rows)
