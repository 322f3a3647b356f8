"""Combinators: rules made of rules."""

from dataclasses import dataclass, replace
from functools import reduce
from numbers import Real
from typing import ClassVar

import torch
from torch import Tensor

from thresher.core.errors import ThresherError, refuse_unless
from thresher.core.evidence import Evidence, Signal
from thresher.core.rounds import Rounds, rounds_of
from thresher.core.rule import Decision, Rule, RuleLike, ask, needs_of, parts, reads_groups
from thresher.core.signals import predicted


@dataclass(frozen=True)
class every(Rule):  # noqa: N801
    """Ask the rule every `period` epochs and repeat its decision in between; for the epoch clock."""

    period: float
    rule: RuleLike

    clocks: ClassVar[frozenset[str]] = frozenset({"epoch"})

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_unless("rule", self.rule, callable(self.rule), "a rule, such as Centrality(fraction=0.5)")
        if not (isinstance(self.period, Real) and self.period > 0):
            raise ThresherError(f"period={self.period} repeats nothing: give a number of epochs above 0.")

    def __call__(self, evidence: Evidence) -> Decision:
        memory = evidence.memory
        if "asked" in memory and evidence.epoch < int(memory["asked"]) + self.period:
            kept = {name[5:]: value for name, value in memory.items() if name.startswith("kept.") and len(value)}
            return Decision(memory["weights"], kept, memory)
        decision = ask(self.rule, evidence, "rule")
        gone = {name: value[:0] for name, value in memory.items() if name.startswith("kept.")}
        kept = gone | {f"kept.{name}": value for name, value in decision.columns.items()}
        asked = torch.tensor(evidence.epoch)
        return Decision(
            decision.weights, decision.columns, {**decision.memory, **kept, "weights": decision.weights, "asked": asked}
        )


def once(rule: RuleLike) -> every:
    """Ask the rule once and repeat its decision for the rest of the run."""
    return every(float("inf"), rule)


@dataclass(frozen=True)
class from_peer(Rule):  # noqa: N801
    """The rule's weights from the other network's evidence: each network teaches the other (Co-teaching)."""

    rule: RuleLike

    needs: ClassVar[frozenset[str]] = frozenset({"peer"})
    about: ClassVar[str | None] = "peer"
    timeless: ClassVar[bool] = True

    @property
    def reads_groups(self) -> bool:
        return reads_groups(self.rule)

    def __call__(self, evidence: Evidence) -> Decision:
        peer = evidence.other("peer")
        return ask(self.rule, peer.replace(groups=evidence.groups, memory=evidence.memory))


@dataclass(frozen=True)
class from_average(Rule):  # noqa: N801
    """The rule's weights from the evidence of the averaged model, which errs less than the trained one."""

    rule: RuleLike

    needs: ClassVar[frozenset[str]] = frozenset({"average"})
    about: ClassVar[str | None] = "average"
    timeless: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if "peer" in needs_of(self.rule):
            raise ThresherError("An average has no peer: write from_peer(from_average(rule)), the average of the peer.")

    @property
    def reads_groups(self) -> bool:
        return reads_groups(self.rule)

    def __call__(self, evidence: Evidence) -> Decision:
        average = evidence.other("average")
        return ask(self.rule, average.replace(groups=evidence.groups, memory=evidence.memory))


@dataclass(frozen=True, init=False)
class product(Rule):  # noqa: N801
    """The product of the rules' weights."""

    rules: tuple[RuleLike, ...]

    timeless: ClassVar[bool] = True

    def __init__(self, *rules: RuleLike):
        if not rules:
            raise ThresherError(f"{type(self).__name__}() combines rules: give at least one.")
        object.__setattr__(self, "rules", rules)

    @property
    def reads_groups(self) -> bool:
        return all(reads_groups(rule) for rule in self.rules)

    def __call__(self, evidence: Evidence) -> Decision:
        decisions = [ask(rule, evidence, str(place)) for place, rule in enumerate(self.rules)]
        weights = reduce(self.combine, [decision.weights for decision in decisions])
        columns = {name: value for decision in decisions for name, value in decision.columns.items()}
        memory = {name: value for decision in decisions for name, value in decision.memory.items()}
        return Decision(weights, columns, memory)

    @staticmethod
    def combine(one: Tensor, other: Tensor) -> Tensor:
        return one * other


class either(product):  # noqa: N801
    """The largest of the rules' weights."""

    @staticmethod
    def combine(one: Tensor, other: Tensor) -> Tensor:
        return torch.maximum(one, other)


@dataclass(frozen=True)
class per_class(Rule):  # noqa: N801
    """The rule within each class, predicted or given (`of=signals.given`): max(1, round(fraction · size)) each."""

    rule: RuleLike
    of: Signal = predicted

    timeless: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if any(isinstance(part, every) for part in parts(self.rule)):
            raise ThresherError(
                "every and once keep the weights of all examples: write every(3, per_class(rule)), not the reverse."
            )

    def allowed_clocks(self) -> frozenset[str]:
        """On the batch clock only with rules that read groups: asking class by class would wait for the device."""
        return self.clocks if reads_groups(self.rule) else self.clocks - {"batch"}

    def rounds(self, evidence: Evidence, parts: int) -> Rounds | None:
        """The rule's own, each within each class."""
        inner = rounds_of(self.rule, evidence, parts)
        if inner is None or any(getattr(rule, "count", None) is not None for rule in inner.first):
            return None  # a count of each class may be more than a part has
        then = None if inner.then is None else replace(self, rule=inner.then)
        return Rounds([replace(self, rule=rule) for rule in inner.first], then, inner.joined)

    def __call__(self, evidence: Evidence) -> Decision:
        labels = evidence.read(self.of)
        if reads_groups(self.rule):
            return ask(self.rule, evidence.replace(groups=labels))
        weights = torch.zeros(len(evidence), device=labels.device)
        columns: dict[str, Tensor] = {}
        memory: dict[str, Tensor] = {}
        for label in range(evidence.classes or 0):
            members = (labels == label).nonzero()[:, 0]
            if len(members) == 0:
                continue
            decision = ask(self.rule, evidence.subset(members), str(label))
            memory |= decision.memory
            weights[members] = decision.weights
            for name, value in decision.columns.items():
                columns.setdefault(name, value.new_zeros(len(evidence)))[members] = value
        return Decision(weights, columns, memory)
