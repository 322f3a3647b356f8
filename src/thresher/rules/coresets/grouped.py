"""A selection within each group."""

from collections.abc import Callable
from typing import overload

import torch
from torch import Tensor

from thresher.core.errors import ThresherError
from thresher.rules.coresets.coverage import Coreset


@overload
def in_groups(
    select: Callable[[Tensor, int], Coreset], embeddings: Tensor, groups: Tensor, *, fraction: float
) -> Coreset: ...
@overload
def in_groups(
    select: Callable[[Tensor, int], Tensor], embeddings: Tensor, groups: Tensor, *, fraction: float
) -> Tensor: ...
def in_groups(
    select: Callable[[Tensor, int], Coreset | Tensor], embeddings: Tensor, groups: Tensor, *, fraction: float
) -> Coreset | Tensor:
    """max(1, round(fraction · size)) of each group, chosen among its own; `groups` [n] are whole numbers.

    The result is of the type that `select` returns: a Coreset for `facility_location`, indices for `centrality`.

    >>> from thresher.rules import facility_location
    >>> rows = torch.tensor([[0.0], [5.0], [1.0], [9.0], [2.0]])
    >>> in_groups(facility_location, rows, torch.tensor([0, 1, 0, 1, 0]), fraction=0.4)
    Coreset(indices=tensor([2, 1]), cluster_sizes=tensor([3, 2]), assignment=tensor([0, 1, 0, 1, 0]))
    """
    if not isinstance(groups, Tensor) or groups.is_floating_point():
        raise ThresherError(
            "Groups must be a tensor of whole numbers [n]: "
            "give torch.from_numpy(np.unique(groups, return_inverse=True)[1])."
        )
    if groups.shape != embeddings.shape[:1] or not 0 < fraction <= 1:
        raise ThresherError(
            f"Groups {list(groups.shape)} for embeddings {list(embeddings.shape)} with fraction={fraction}: "
            "give one group for each row, and a fraction above 0 and at most 1."
        )
    indices, sizes, assignment, chosen = [], [], torch.empty_like(groups, dtype=torch.long), 0
    for group in torch.unique(groups):
        members = (groups == group).nonzero()[:, 0]
        own = select(embeddings[members], max(1, round(fraction * len(members))))
        if isinstance(own, Coreset):
            sizes.append(own.cluster_sizes)
            assignment[members] = own.assignment + chosen
            chosen += len(own.indices)
        indices.append(members[own.indices if isinstance(own, Coreset) else own])
    return Coreset(torch.cat(indices), torch.cat(sizes), assignment) if sizes else torch.cat(indices)
