"""Exact greedy facility location without an n × n matrix."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from thresher.core.chunks import one_thread
from thresher.core.evidence import Evidence
from thresher.core.rounds import scattered
from thresher.core.rule import Decision, checked_count
from thresher.rules.coresets.centrality import Centrality, most_central, parts_of
from thresher.rules.coresets.coverage import Coreset, Cover, GainBounds, clusters, largest_gain
from thresher.rules.coresets.distances import Points, as_points
from thresher.rules.coresets.neighbour_lists import choose_near

NEIGHBOURS = 512  # lists begin when the best candidates have at most this many examples in reach
SAMPLE, COUNTED = 32, 2048  # candidates and examples by which that number is estimated


def facility_location(embeddings: Tensor, count: int) -> Coreset:
    """`count` medoids of embeddings [n, d] by greedy steps on f(S) = Σ_i max_{j ∈ S} similarity(i, j).

    similarity = largest distance - distance, in whole numbers (about 2⁻³⁰ of the largest), so that gains are exact and
    the medoids are those of naive greedy, ties to the lower index. At least 1 - 1/e of the best value (Nemhauser 1978).

    >>> facility_location(torch.tensor([[0.0], [1.0], [2.0], [9.0]]), 2)
    Coreset(indices=tensor([1, 3]), cluster_sizes=tensor([3, 1]), assignment=tensor([0, 0, 0, 1]))
    """
    points = as_points(embeddings)
    checked_count(count, len(points))
    cover = Cover.empty(points)
    with one_thread():
        cover.add(points, most_central(points))
        bounds = GainBounds.of_all(points, cover.reach)
        bounds.highest[cover.chosen] = -1
        while len(cover.chosen) < count and _in_reach(points, cover.reach, bounds.highest) > NEIGHBOURS:
            medoid = largest_gain(bounds)
            cover.add(points, medoid)
            bounds.add(medoid, cover.reach)
        choose_near(points, cover, bounds.highest, count)
    return clusters(cover.chosen, cover.owner)


def _in_reach(points: Points, reach: Tensor, bounds: Tensor) -> float:
    """How many examples have a candidate in reach, on average over the candidates with the highest bounds."""
    rows = bounds.topk(min(SAMPLE, len(bounds))).indices
    parts = max(1, len(points) // COUNTED)
    return parts * float(points.surely_near(rows, reach, points.positions[::parts]).double().mean())


@dataclass(frozen=True)
class FacilityLocation(Centrality):
    """Keep greedy k-medoids, each with the size of its cluster as weight: the coreset of CRUST, Algorithm 1.

    Columns for `mix` and the ledger: medoid (1 or 0), cluster (the id of its medoid), cluster_size.
    `select` may be any function (embeddings [n, d], count) -> Coreset, such as `partitioned_facility_location`.
    """

    select: Callable[[Tensor, int], Coreset] = facility_location

    gives: ClassVar[frozenset[str]] = frozenset({"medoid", "cluster", "cluster_size"})

    @staticmethod
    def joined(first: Decision, places: Tensor, then: Decision, ids: Tensor) -> Decision:
        """Clusters of clusters: what belongs to a proposal belongs to its medoid, so that sizes add up to n."""
        by_id = ids[places].argsort()
        own = by_id[torch.searchsorted(ids[places][by_id], first.columns["cluster"])]  # each example's proposal [n]
        cluster = then.columns["cluster"][own]
        marks = scattered(first, places, then, ids).columns["medoid"]
        number, size = torch.unique(cluster, return_inverse=True, return_counts=True)[1:]
        sizes = size[number].to(marks.dtype)
        return Decision(marks * sizes, {"medoid": marks, "cluster": cluster, "cluster_size": sizes})

    def __call__(self, evidence: Evidence) -> Decision:
        by_id, embeddings, count = self._asked(evidence)
        marks = torch.zeros(len(evidence), device=embeddings.device)
        sizes, clusters = torch.zeros_like(marks), torch.zeros_like(evidence.ids)
        for part, share in parts_of(len(evidence), count):
            chosen = self.select(embeddings[part], share)
            members = by_id[part.to(by_id.device)]
            medoid = members[chosen.indices]
            marks[medoid] = 1.0
            sizes[members] = chosen.cluster_sizes[chosen.assignment].to(sizes.dtype)
            clusters[members] = evidence.ids[medoid][chosen.assignment]
        columns = {"medoid": marks, "cluster": clusters, "cluster_size": sizes}
        return Decision(marks * sizes, columns)
