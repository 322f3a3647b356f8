"""Greedy facility location in two rounds: within random parts, then among the medoids of the parts."""

import math

import torch
from torch import Tensor

from thresher.core.errors import ThresherError
from thresher.core.rule import checked_count
from thresher.core.seeding import generator as seeded
from thresher.rules.coresets.coverage import Coreset, assigned
from thresher.rules.coresets.distances import as_points
from thresher.rules.coresets.facility_location import facility_location

PART = 2000  # default size of a part


def partitioned_facility_location(
    embeddings: Tensor,
    count: int,
    *,
    parts: int | None = None,
    proposals: float = 2.0,
    generator: torch.Generator | None = None,
) -> Coreset:
    """As `facility_location`, in two rounds: random parts propose `proposals` · count medoids, greedy takes count.

    GreeDi (Mirzasoleiman et al. 2013), with the value measured on the examples of each round. Time grows with
    n · part + (proposals · count)², and parts are independent.

    >>> partitioned_facility_location(torch.tensor([[0.0], [1.0], [2.0], [9.0]]), 2, parts=2).cluster_sizes.tolist()
    [3, 1]
    """
    points = as_points(embeddings)
    n = len(points)
    checked_count(count, n)
    parts = max(1, round(n / PART)) if parts is None else parts
    if not (1 <= parts <= n and proposals >= 1):
        raise ThresherError(
            f"parts={parts} with proposals={proposals}: give 1 to {n} parts, and at least one proposal for each medoid."
        )
    each = math.ceil(proposals * count / parts)
    proposed = []
    for part in torch.randperm(n, generator=generator or seeded(0, "parts")).tensor_split(parts):
        members = part.sort().values.to(embeddings.device)
        chosen = facility_location(embeddings[members], min(each, len(members))).indices
        proposed.append(members[chosen])
    candidates = torch.cat(proposed).sort().values
    return assigned(points, candidates[facility_location(embeddings[candidates], count).indices].tolist())
