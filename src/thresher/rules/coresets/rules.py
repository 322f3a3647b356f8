"""Rules that keep a coreset: the most central examples, or medoids that count as much as their clusters."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from thresher.core.evidence import Evidence, Signal
from thresher.core.rule import Decision, Rule, check_size
from thresher.core.schedules import Schedule
from thresher.core.signals import output_gradient
from thresher.rules.coresets.centrality import centrality
from thresher.rules.coresets.coverage import Coreset
from thresher.rules.coresets.facility_location import facility_location


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
        check_size(type(self).__name__, self.fraction, self.count)

    def __call__(self, evidence: Evidence) -> Decision:
        by_id, embeddings, count = self._asked(evidence)
        weights = torch.zeros(len(evidence), device=embeddings.device)
        weights[by_id[centrality(embeddings, count)]] = 1.0
        return Decision(weights)

    def _asked(self, evidence: Evidence) -> tuple[Tensor, Tensor, int]:
        """The order by id, in which ties are broken, the embeddings in this order, and how many to keep."""
        by_id, n = evidence.ids.argsort(), len(evidence)
        embeddings = evidence.read(self.by).reshape(n, -1)[by_id]
        if self.fraction is None:
            assert self.count is not None
            return by_id, embeddings, min(n, self.count)
        return by_id, embeddings, max(1, round(float(evidence.value(self.fraction)) * n))


@dataclass(frozen=True)
class FacilityLocation(Centrality):
    """Keep greedy k-medoids, each with the size of its cluster as weight: the coreset of CRUST, Algorithm 1.

    Columns for `mix` and the ledger: medoid (1 or 0), cluster (the id of one's medoid), cluster_size.
    `select` may be any function (embeddings [n, d], count) -> Coreset, such as `partitioned_facility_location`.
    """

    select: Callable[[Tensor, int], Coreset] = facility_location

    gives: ClassVar[frozenset[str]] = frozenset({"medoid", "cluster", "cluster_size"})

    def __call__(self, evidence: Evidence) -> Decision:
        by_id, embeddings, count = self._asked(evidence)
        chosen = self.select(embeddings, count)
        medoid = by_id[chosen.indices]
        own = torch.empty_like(chosen.assignment).scatter(0, by_id, chosen.assignment)
        marks = torch.zeros(len(evidence), device=embeddings.device)
        marks[medoid] = 1.0
        sizes = chosen.cluster_sizes[own]
        columns = {"medoid": marks, "cluster": evidence.ids[medoid][own], "cluster_size": sizes}
        return Decision(marks * sizes, columns)
