"""Rules that decide which labels are trusted; the averaged model may label the rest."""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from thresher.core.errors import ThresherError
from thresher.core.evidence import Evidence, Signal
from thresher.core.rule import Decision, Rule, RuleLike, ask
from thresher.core.schedules import Schedule
from thresher.core.signals import given, predicted


@dataclass(frozen=True)
class Agree(Rule):
    """Weight 1 where the predicted class is the given one, 0 elsewhere."""

    of: Signal = predicted

    @property
    def reads_groups(self) -> bool:
        return True

    def __call__(self, evidence: Evidence) -> Tensor:
        return (evidence.read(self.of) == evidence.read(given)).float()


@dataclass(frozen=True)
class trusting(Rule):  # noqa: N801  # used like a function: trusting(Agree(), KeepAbove(confidence, 0.8))
    """Weights of `rule` where it keeps an example, whose label is then `trusted`; elsewhere those of `rest`.

    `relabel` and `rest` may read the column `trusted`, and `rest` those of `rule`. Without `rest` the other examples
    are dropped.
    """

    rule: RuleLike
    rest: RuleLike | None = None

    gives: ClassVar[frozenset[str]] = frozenset({"trusted"})

    def __call__(self, evidence: Evidence) -> Decision:
        chosen = ask(self.rule, evidence, "rule")
        trusted = chosen.weights > 0
        others = Decision(torch.zeros_like(chosen.weights))
        if self.rest is not None:
            marked = evidence.replace(columns={**evidence.columns, **chosen.columns, "trusted": trusted.float()})
            others = ask(self.rest, marked, "rest")
        return Decision(
            torch.where(trusted, chosen.weights, others.weights),
            {**others.columns, **chosen.columns, "trusted": trusted.float()},
            {**others.memory, **chosen.memory},
        )


@dataclass(frozen=True)
class if_predicted(Rule):  # noqa: N801
    """The rule in epochs in which at least `enough` · `clean` of the given labels are predicted; else `otherwise`.

    A model that predicts fewer labels than are right knows less than the labels do. Without `otherwise` all labels
    then have weight 1.
    """

    clean: float | Schedule
    rule: RuleLike
    enough: float = 0.8
    of: Signal = predicted
    otherwise: RuleLike | None = None

    clocks: ClassVar[frozenset[str]] = frozenset({"epoch"})

    def __call__(self, evidence: Evidence) -> Decision:
        found = Agree(self.of)(evidence)
        if found.double().mean() >= self.enough * evidence.value(self.clean):
            asked = ask(self.rule, evidence, "rule")
        elif self.otherwise is not None:
            asked = ask(self.otherwise, evidence, "otherwise")
        else:
            asked = Decision(torch.ones_like(found))
        return replace(asked, memory={**evidence.memory, **asked.memory})


@dataclass(frozen=True)
class HoldOut(Rule):
    """Weight 0 for about this share of the examples, always the same ones (by a hash of their ids), 1 for the others.

    >>> some = HoldOut(0.25).places(torch.arange(1000))
    >>> int(some.sum()), some[:8].tolist()
    (251, [True, False, True, False, False, True, False, False])
    """

    share: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.share < 1:
            raise ThresherError(f"HoldOut({self.share}) is not a share of the examples: give a number between 0 and 1.")

    def places(self, ids: Tensor) -> Tensor:
        """Whether each of these ids is held out; multiples of the golden ratio fill [0, 1) evenly (Knuth)."""
        return ids * 2654435769 % 2**32 < self.share * 2**32

    def __call__(self, evidence: Evidence) -> Tensor:
        return (~self.places(evidence.ids)).float()


@dataclass(frozen=True)
class average_teaches(Rule):  # noqa: N801
    """A rule about a teacher, such as Debias, with the averaged model as the teacher.

    It needs a validation set whose targets are right: fit(validation=...). On targets as corrupt as the training set a
    good teacher would look wrong.
    """

    rule: RuleLike

    needs: ClassVar[frozenset[str]] = frozenset({"average", "validation"})
    clocks: ClassVar[frozenset[str]] = frozenset({"epoch"})
    provides: ClassVar[frozenset[str]] = frozenset({"teacher", "validation", "from_teacher"})

    def __call__(self, evidence: Evidence) -> Decision:
        known = self.known(evidence)
        if not len(known):  # the teacher cannot be judged
            return Decision(torch.zeros(len(evidence), device=evidence.ids.device))
        taught = torch.ones(len(evidence), dtype=torch.bool, device=evidence.ids.device)
        others = {"teacher": evidence.other("average"), "validation": _with_teacher(known)}
        return ask(self.rule, evidence.replace(others=others, columns={**evidence.columns, "from_teacher": taught}))

    def known(self, evidence: Evidence) -> Evidence:
        """The examples by which the teacher is judged."""
        return evidence.other("validation")


@dataclass(frozen=True)
class average_teaches_held_out(average_teaches):  # noqa: N801
    """`average_teaches` without a validation set: the teacher is judged on held-out examples whose labels are trusted.

    Not all of these labels are right, and where trust means agreement with the teacher, the weights are too large.
    """

    held_out: HoldOut = HoldOut()

    needs: ClassVar[frozenset[str]] = frozenset({"average"})

    def known(self, evidence: Evidence) -> Evidence:
        if "trusted" not in evidence.columns:
            raise ThresherError(
                "average_teaches_held_out reads the column trusted: use it as the rest of trusting(rule, rest)."
            )
        places = self.held_out.places(evidence.ids) & (evidence.columns["trusted"] > 0)
        return evidence.subset(places.nonzero()[:, 0])


def _with_teacher(evidence: Evidence) -> Evidence:
    return evidence.replace(others={"teacher": evidence.other("average")})
