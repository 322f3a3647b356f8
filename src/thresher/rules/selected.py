"""Weights from what is known before training: a selection, which candidates may join later, or weights themselves."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from thresher.core.evidence import Evidence
from thresher.core.rule import Rule


@dataclass(frozen=True)
class Selected(Rule):
    """Weight 1 where the column `selected` is true, and after `epochs` epochs also where `candidate` is; else 0."""

    epochs: float = float("inf")

    clocks: ClassVar[frozenset[str]] = frozenset({"epoch"})
    columns: ClassVar[frozenset[str]] = frozenset({"selected", "candidate"})

    def __call__(self, evidence: Evidence) -> Tensor:
        chosen = evidence.columns["selected"].bool()
        if evidence.epoch >= self.epochs:
            chosen = chosen | evidence.columns["candidate"].bool()
        return chosen.float()


@dataclass(frozen=True)
class SampleWeight(Rule):
    """The column `sample_weight`: how far each example counts, as it was given with the data."""

    clocks: ClassVar[frozenset[str]] = frozenset({"epoch"})
    columns: ClassVar[frozenset[str]] = frozenset({"sample_weight"})

    def __call__(self, evidence: Evidence) -> Tensor:
        return evidence.columns["sample_weight"].float()
