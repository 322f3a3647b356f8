"""Weights by class: how frequent each class is, and how much of it is clean."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from thresher.core.evidence import Evidence, Signal
from thresher.core.rule import Rule
from thresher.core.signals import given, loss
from thresher.rules.keep import keep_smallest


def class_sizes(labels: Tensor, classes: int, counted: Tensor | None = None) -> Tensor:
    """The number of examples of each class [classes], or the sum of `counted` [n] in it; no host synchronisation.

    >>> class_sizes(torch.tensor([0, 2, 2]), 3).tolist()
    [1.0, 0.0, 2.0]
    """
    each = torch.ones(len(labels), device=labels.device) if counted is None else counted.float()
    return torch.zeros(classes, device=labels.device).scatter_add(0, labels, each)


@dataclass(frozen=True)
class InverseFrequency(Rule):
    """n / (present classes · size of the example's class): classes weigh the same in total (L2RW's Proportion)."""

    of: Signal = given

    timeless: ClassVar[bool] = True

    def __call__(self, evidence: Evidence) -> Tensor:
        labels = evidence.read(self.of)
        sizes = class_sizes(labels, evidence.classes or 1)
        return (len(labels) / (sizes > 0).sum()) / sizes[labels]


@dataclass(frozen=True)
class CleanShare(Rule):
    """The share of clean examples among those with the same given label: an oracle (L2RW's Weighted).

    It reads the column `is_corrupt`, which only benchmarks have.
    """

    of: Signal = given

    clocks: ClassVar[frozenset[str]] = frozenset({"epoch", "round"})
    columns: ClassVar[frozenset[str]] = frozenset({"is_corrupt"})
    timeless: ClassVar[bool] = True

    def __call__(self, evidence: Evidence) -> Tensor:
        labels, classes = evidence.read(self.of), evidence.classes or 1
        clean = class_sizes(labels, classes, ~evidence.columns["is_corrupt"].bool())
        return (clean / class_sizes(labels, classes).clamp_min(1))[labels]


@dataclass(frozen=True)
class HardestOfMajority(Rule):
    """Weight 1 for all, but of the largest class only for as many as the second largest has: by the largest signal.

    Hard mining as in the L2RW paper, section 4.1, which does not say how many to keep.
    """

    by: Signal = loss
    of: Signal = given

    timeless: ClassVar[bool] = True

    def __call__(self, evidence: Evidence) -> Tensor:
        labels, classes = evidence.read(self.of), evidence.classes or 1
        sizes = class_sizes(labels, max(classes, 2))
        most = sizes.topk(2).values[1].clamp_min(1)
        return keep_smallest(-evidence.read(self.by), evidence.ids, count=most, groups=labels, group_count=classes)


@dataclass(frozen=True)
class OnlyClean(Rule):
    """Weight 1 where the column `is_clean` is true, 0 elsewhere."""

    clocks: ClassVar[frozenset[str]] = frozenset({"epoch", "round"})
    columns: ClassVar[frozenset[str]] = frozenset({"is_clean"})
    timeless: ClassVar[bool] = True

    def __call__(self, evidence: Evidence) -> Tensor:
        return evidence.columns["is_clean"].float()
