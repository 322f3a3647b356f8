"""The rule of L2RW: an example counts as far as its gradient helps a few clean ones."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from thresher.core.evidence import Evidence, Signal
from thresher.core.rule import Rule
from thresher.core.signals import clean_agreement


@dataclass(frozen=True)
class MetaGradient(Rule):
    """wᵢ = max(uᵢ, 0) / Σⱼ max(uⱼ, 0), where uᵢ is the product of example i's gradient with the clean batch's.

    Algorithm 1 of "Learning to reweight examples" (Ren et al. 2018), exactly. Where no u is positive all weights are
    zero and the step is skipped, where the paper's optimizer would still move by its momentum.
    """

    by: Signal = clean_agreement

    clocks: ClassVar[frozenset[str]] = frozenset({"batch"})
    timeless: ClassVar[bool] = True

    def __call__(self, evidence: Evidence) -> Tensor:
        return rectified(evidence.read(self.by))


def rectified(values: Tensor) -> Tensor:
    """max(values, 0) scaled to sum 1; all zeros where none is positive.

    >>> rectified(torch.tensor([3.0, -5.0, 1.0])).tolist(), rectified(torch.tensor([-1.0, 0.0])).tolist()
    ([0.75, 0.0, 0.25], [0.0, 0.0])
    """
    positive = values.clamp_min(0)
    total = positive.sum()
    return positive / torch.where(total > 0, total, 1.0)
