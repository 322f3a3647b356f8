"""Exact greedy facility location without an n × n matrix."""

import torch
from torch import Tensor

from thresher.rules.centrality import most_central
from thresher.rules.cover import Coreset, Cover, clusters
from thresher.rules.distances import Points, checked_count, measure
from thresher.rules.near import choose_near

NEIGHBOURS = 256  # pairs that an example may keep on average, once everyone's medoid is near
PAIRS = 2**23  # pairs that may be kept in any case: 64 MiB
SAMPLE = 128  # rows by which the number of pairs is foreseen


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

    gain(c) = Σ_i max(0, reach_i - distance(i, c)) changes by the rows i whose reach fell, and by no others.
    """
    n, changed = len(points), len(points)
    gains: Tensor | None = None
    while len(cover.chosen) < count:
        if changed >= n // 8:
            changed = 0
            pairs = _pairs_in_reach(points, cover)
            if pairs <= max(PAIRS, NEIGHBOURS * n):
                return pairs
        if gains is None:
            gains = _lost(points, points.everyone, cover.reach, torch.zeros_like(cover.reach))
            gains[cover.chosen] = -1
        medoid = int(gains.argmax())
        rows, before = cover.add(points, medoid)
        gains -= _lost(points, rows, before, cover.reach[rows])
        gains[medoid] = -1
        changed += len(rows)
    return 0


def _lost(points: Points, rows: Tensor, before: Tensor, after: Tensor) -> Tensor:
    """What each candidate's gain loses [n] (int64) when the reach of these rows falls from `before` to `after`."""
    lost = torch.zeros(len(points), dtype=torch.float64, device=points.rows.device)  # whole numbers below 2⁵³: exact
    for at, high, low in zip(*(torch.split(each, points.block) for each in (rows, before, after)), strict=True):
        sizes, others, distances = points.near(at, points.bound(high)[:, None])
        high, low = (each.repeat_interleave(sizes) for each in (high, low))
        lost.index_add_(0, others, (high - torch.maximum(distances, low)).clamp_(min=0))
    return lost.long()


def _pairs_in_reach(points: Points, cover: Cover) -> int:
    """About how many pairs are nearer than the reach of one of the two, from a sample of rows."""
    n = len(points)
    rows = points.everyone[:: max(1, n // SAMPLE)]
    near, bound = 0, points.bound(cover.reach)
    for at in torch.split(rows, points.block):
        near += int(points.inside(at, torch.maximum(bound[at, None], bound))[1].sum())
    return near * n // len(rows)
