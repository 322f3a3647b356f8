"""Rules that tell examples whose label is trusted from the rest, which someone else has to label."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from thresher.engine.evidence import Evidence
from thresher.rules.rule import Decision, Rule, RuleLike, ask
from thresher.signals import Signal, given, predicted


@dataclass(frozen=True)
class Agree(Rule):
    """Weight 1 where the predicted class is the given one, 0 elsewhere."""

    of: Signal = predicted

    @property
    def by_groups(self) -> bool:
        return True

    def __call__(self, evidence: Evidence) -> Tensor:
        return (evidence.read(self.of) == evidence.read(given)).float()


@dataclass(frozen=True)
class trusting(Rule):  # noqa: N801  # used like a function: trusting(Agree(), KeepAbove(confidence, 0.8))
    """Weights of `rule` where it keeps an example, whose label is then `trusted`; elsewhere those of `rest`.

    What the rest should teach is for `relabel` to say, which reads the column `trusted`. Without `rest` it is dropped.
    """

    rule: RuleLike
    rest: RuleLike | None = None

    gives: ClassVar[frozenset[str]] = frozenset({"trusted"})

    def __call__(self, evidence: Evidence) -> Decision:
        chosen = ask(self.rule, evidence, "rule")
        trusted = chosen.weights > 0
        others = Decision(torch.zeros_like(chosen.weights)) if self.rest is None else ask(self.rest, evidence, "rest")
        return Decision(
            torch.where(trusted, chosen.weights, others.weights),
            {**others.columns, **chosen.columns, "trusted": trusted.float()},
            {**others.memory, **chosen.memory},
        )
