"""Random weights and random picks."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from thresher.core.evidence import Evidence
from thresher.core.rule import Rule, check_count
from thresher.rules.keep import keep_smallest
from thresher.rules.meta_gradient import rectified


@dataclass(frozen=True)
class RandomWeights(Rule):
    """max(zᵢ, 0) / Σⱼ max(zⱼ, 0) with zᵢ ~ N(0, 1), anew in every batch: a strong regularizer (L2RW, Eq. 16).

    Where no z is positive, which Eq. 16 leaves open, all weights are equal.
    """

    clocks: ClassVar[frozenset[str]] = frozenset({"batch", "round"})
    timeless: ClassVar[bool] = True

    def __call__(self, evidence: Evidence) -> Tensor:
        ids = evidence.ids
        drawn = torch.randn(len(ids), generator=evidence.generator, device=ids.device)
        weights = rectified(
            drawn.scatter(0, ids.argsort(), drawn)
        )  # by id, so that the order in the batch does not matter
        return torch.where(weights.sum() > 0, weights, 1.0 / len(ids))


@dataclass(frozen=True)
class RandomPicks(Rule):
    """Weight 1 for `count` examples, all equally likely, 0 for the rest."""

    count: int = 100

    clocks: ClassVar[frozenset[str]] = frozenset({"epoch", "round"})

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count(self.count)

    def __call__(self, evidence: Evidence) -> Tensor:
        ids = evidence.ids
        drawn = torch.rand(len(ids), generator=evidence.generator, device=ids.device, dtype=torch.float64)
        return keep_smallest(drawn.scatter(0, ids.argsort(), drawn), ids, count=self.count)
