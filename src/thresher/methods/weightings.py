"""How far to believe each label of a teacher, by name."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from thresher.core.errors import unknown
from thresher.core.evidence import Signal
from thresher.core.signals import margin
from thresher.methods.method import CLASSES, Method
from thresher.rules import Debias, Fidelity, OnlyCorrect, RuleLike, once, product

DISTILLATION = "Weighted distillation with unlabeled examples (2022)"


@dataclass(frozen=True)
class Weighting(Method):
    """A named way to weigh a teacher's labels: `weighting.rule()` goes into `each_epoch`; None: all count the same."""

    make: Callable[[Callable[[bool], RuleLike]], RuleLike | None]  # from Debias, by whether it is to be consistent
    clock: str = "epoch"
    tasks: tuple[str, ...] = CLASSES

    instead: ClassVar[str] = "weighs the labels of a teacher and trains nothing: pass weights={} to distil()."

    @property
    def kind(self) -> str:
        return "weighting"

    def rule(
        self, *, by: Signal = margin, hard: bool = False, temperature: float = 1.0, every_epoch: bool = False
    ) -> RuleLike | None:
        """The rule by this confidence, asked once by the student at the start, or every epoch."""

        def debias(consistent: bool) -> RuleLike:
            rule = Debias(by, hard, temperature, consistent)
            return rule if every_epoch else once(rule)

        return self.make(debias)


WEIGHTINGS: dict[str, Weighting] = {
    each.name: each
    for each in (
        Weighting("unweighted", lambda _: None, "every label of the teacher counts the same", "baseline"),
        Weighting(
            "debias",
            lambda debias: debias(False),
            "weights by how often the teacher errs nearby, and how much that distorts the loss",
            DISTILLATION,
            needs=("validation",),
        ),
        Weighting(
            "consistent",
            lambda debias: debias(True),
            "debias by an estimate that tends to the weight that takes the bias out",
            DISTILLATION,
            needs=("validation",),
        ),
        Weighting(
            "fidelity",
            lambda _: Fidelity(),
            "weights fall with the entropy of the teacher's prediction",
            "Dehghani et al. (2017)",
        ),
        Weighting(
            "composition",
            lambda debias: product(Fidelity(), debias(False)),
            "debias times fidelity",
            DISTILLATION,
            needs=("validation",),
        ),
        Weighting(
            "oracle",
            lambda _: OnlyCorrect(),
            "only the labels that are right, which an oracle tells",
            DISTILLATION,
            needs=("column true_target",),
        ),
    )
}


def weighting(
    name: str, *, by: Signal = margin, hard: bool = False, temperature: float = 1.0, every_epoch: bool = False
) -> RuleLike | None:
    """The rule of the weighting of this name.

    >>> [type(rule).__name__ for rule in weighting("composition").rules]
    ['Fidelity', 'every']
    """
    if name not in WEIGHTINGS:
        raise unknown("weighting", name, WEIGHTINGS)
    return WEIGHTINGS[name].rule(by=by, hard=hard, temperature=temperature, every_epoch=every_epoch)
