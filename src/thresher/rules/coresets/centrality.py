"""The most central examples: those nearest to all others on average."""

import torch
from torch import Tensor

from thresher.core.rule import checked_count
from thresher.rules.coresets.distances import Points, measure, total_distances

TRIED = 32  # examples whose sums are taken at once in the search for the most central one


def centrality(embeddings: Tensor, count: int) -> Tensor:
    """The `count` rows of embeddings [n, d] with the largest Σ_j similarity(i, j), most central first.

    similarity = largest distance - distance, so these are the smallest sums of distances; ties go to the lower index.
    This is what the code released with CRUST selects. No n × n matrix is made, and sums are exact.

    >>> centrality(torch.tensor([[0.0], [1.0], [2.0], [9.0]]), 2).tolist()
    [1, 2]
    """
    points = measure(embeddings)
    return total_distances(points).argsort(stable=True)[: checked_count(count, len(points))]


def most_central(points: Points) -> int:
    """The first of `centrality`, mostly from the sums of a few examples.

    The sum of distances is convex, so that the tangent plane at any example tried bounds all others from below; whoever
    is bound to have more than the least sum so far need not be tried.
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
    """The sums of distances from these rows [m], and below the tangent planes there at all examples [m, n]."""
    distances = points.distances(rows)
    totals = distances.sum(1, keepdim=True)
    # Those too near for their rounded distance to give a direction are left out: that only lowers the plane.
    far = distances > 2.0**24
    weights = torch.where(far, 1 / distances, 0.0)
    here = points.rows[rows]
    slopes = weights.sum(1, keepdim=True) * here - weights @ points.rows  # [m, d] gradient: Σ_j (here - j) / distance
    height = torch.where(far, distances, 0.0).sum(1, keepdim=True) - (slopes * here).sum(1, keepdim=True)
    return totals[:, 0], height + slopes @ points.rows.T - 2.0**-22 * totals
