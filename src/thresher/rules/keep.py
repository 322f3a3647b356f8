"""Rules that keep some examples and drop the rest by ranking a signal."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from thresher.core.errors import ThresherError
from thresher.core.evidence import Evidence, Signal
from thresher.core.rule import Rule, check_size
from thresher.core.schedules import Schedule


def keep_smallest(
    values: Tensor,
    ids: Tensor,
    *,
    fraction: float | Tensor | None = None,
    count: int | Tensor | None = None,
    groups: Tensor | None = None,
    group_count: int = 1,
) -> Tensor:
    """Ones for the smallest values [n], zeros for the rest; ties go to the lower id, NaN counts as largest.

    Of each group of m examples max(1, round(fraction · m)) are kept, or `count`. No host synchronisation.

    >>> keep_smallest(torch.tensor([3.0, 1.0, 2.0, 1.0]), torch.arange(4), count=2).tolist()
    [0.0, 1.0, 0.0, 1.0]
    """
    n = len(values)
    if values.shape != ids.shape:
        raise ThresherError(
            f"Ranking {n} examples needs one number each, not {list(values.shape)}: choose a signal of shape [n]."
        )
    order = ids.argsort()
    order = order[values[order].argsort(stable=True)]
    if groups is None:
        limit = count if count is not None else _share(fraction, n)
        if not isinstance(limit, Tensor):
            return torch.zeros(n, device=values.device).index_fill_(0, order[:limit], 1.0)
        ranks = torch.arange(n, device=values.device)
    else:
        order = order[groups[order].argsort(stable=True)]
        counts = torch.zeros(group_count, dtype=torch.long, device=values.device)
        counts = counts.scatter_add(0, groups, torch.ones_like(groups))
        starts = counts.cumsum(0) - counts
        sorted_groups = groups[order]
        ranks = torch.arange(n, device=values.device) - starts[sorted_groups]
        limit = count if count is not None else _share(fraction, counts[sorted_groups])
    return torch.zeros(n, device=values.device).scatter_(0, order, (ranks < limit).float())


def _share(fraction: float | Tensor | None, sizes: Tensor | int) -> Tensor | int:
    """max(1, round(fraction · size)), in float64 so that the same fraction keeps the same count on every device."""
    assert fraction is not None
    if isinstance(sizes, int) and not isinstance(fraction, Tensor):
        return max(1, round(fraction * sizes))
    wanted = torch.round(torch.as_tensor(fraction, dtype=torch.float64) * sizes)
    return torch.clamp_min(wanted, 1)


@dataclass(frozen=True)
class KeepSmallest(Rule):
    """Weight 1 for the share `fraction` (or the `count`) of examples whose signal is smallest, 0 for the rest.

    `KeepSmallest(by=signals.output_gradient_norm, fraction=0.6)` is PRL(L) at 40% corruption (Algorithm 3).
    """

    by: Signal
    fraction: float | Schedule | None = None
    count: int | None = None

    largest: ClassVar[bool] = False
    timeless: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_size(type(self).__name__, self.fraction, self.count)

    @property
    def reads_groups(self) -> bool:
        return True

    def refuse(self, epochs: float) -> None:
        """Refuse a share to keep that leaves (0, 1] during the run."""
        if not isinstance(self.fraction, Schedule):
            return
        for epoch in range(math.ceil(epochs) + 1):
            share = self.fraction(epoch, epochs)
            if not 0 < share <= 1:
                raise ThresherError(
                    f"The share to keep is {share:g} in epoch {epoch + 1}: keep it above 0 and at most 1."
                )

    def __call__(self, evidence: Evidence) -> Tensor:
        values = evidence.read(self.by)
        return keep_smallest(
            -1 * values if self.largest else values,
            evidence.ids,
            fraction=None if self.fraction is None else evidence.value(self.fraction),
            count=self.count,
            groups=evidence.groups,
            group_count=evidence.classes or 1,
        )


@dataclass(frozen=True)
class KeepLargest(KeepSmallest):
    """Weight 1 for the share `fraction` (or the `count`) of examples whose signal is largest, 0 for the rest."""

    largest: ClassVar[bool] = True


@dataclass(frozen=True)
class KeepAbove(Rule):
    """Weight 1 where the signal is above `bound`, 0 elsewhere; how many are kept depends on the data."""

    by: Signal
    bound: float | Schedule

    timeless: ClassVar[bool] = True

    @property
    def reads_groups(self) -> bool:
        return True

    def __call__(self, evidence: Evidence) -> Tensor:
        return (evidence.read(self.by) > evidence.value(self.bound)).float()


@dataclass(frozen=True)
class Uniform(Rule):
    """The same weight for all examples: 1 is plain training, 0 drops them all, as in the `before` of a warm-up."""

    weight: float = 1.0

    timeless: ClassVar[bool] = True

    @property
    def reads_groups(self) -> bool:
        return True

    def __call__(self, evidence: Evidence) -> Tensor:
        return torch.full((len(evidence),), self.weight, device=evidence.ids.device)
