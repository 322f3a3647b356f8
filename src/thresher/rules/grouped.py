"""A selection within each group."""

from collections.abc import Callable

import torch
from torch import Tensor

from thresher.errors import ThresherError
from thresher.rules.cover import Coreset


def in_groups(
    select: Callable[[Tensor, int], Coreset], embeddings: Tensor, groups: Tensor, *, fraction: float
) -> Coreset:
    """max(1, round(fraction · size)) medoids of each group, chosen among its own; `groups` [n] are whole numbers.

    >>> from thresher.rules import facility_location
    >>> rows = torch.tensor([[0.0], [5.0], [1.0], [9.0], [2.0]])
    >>> in_groups(facility_location, rows, torch.tensor([0, 1, 0, 1, 0]), fraction=0.4)
    Coreset(indices=tensor([2, 1]), cluster_sizes=tensor([3, 2]), assignment=tensor([0, 1, 0, 1, 0]))
    """
    if groups.shape != embeddings.shape[:1] or not 0 < fraction <= 1:
        raise ThresherError(
            f"Groups {list(groups.shape)} for embeddings {list(embeddings.shape)} with fraction={fraction}: "
            "give one group for each row, and a fraction above 0 and at most 1."
        )
    indices, sizes, assignment, chosen = [], [], torch.empty_like(groups, dtype=torch.long), 0
    for group in torch.unique(groups):
        members = (groups == group).nonzero()[:, 0]
        own = select(embeddings[members], max(1, round(fraction * len(members))))
        indices.append(members[own.indices])
        sizes.append(own.cluster_sizes)
        assignment[members] = own.assignment + chosen
        chosen += len(own.indices)
    return Coreset(torch.cat(indices), torch.cat(sizes), assignment)
