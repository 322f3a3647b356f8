"""The base class of rules: evidence in, weights out, and a declaration of what is read."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from thresher.core.errors import ThresherError, refuse_other_fields, refuse_unless
from thresher.core.evidence import Evidence, Signal
from thresher.core.schedules import Schedule
from thresher.core.signals import signal_named

if TYPE_CHECKING:
    from thresher.core.rounds import Rounds


@dataclass(frozen=True)
class Decision:
    """Weights [n], named columns for the ledger and `mix`, and memory for the next call of the rule."""

    weights: Tensor
    columns: Mapping[str, Tensor] = field(default_factory=dict)
    memory: Mapping[str, Tensor] = field(default_factory=dict)


class Reader:
    """Something that reads evidence: a frozen dataclass whose fields hold the signals, with declarations of the rest.

    A class that defines its own `__call__` or `forward` must declare itself whether it is timeless.
    """

    needs: ClassVar[frozenset[str]] = frozenset()  # other evidence: "peer", "average", "clean", ...
    columns: ClassVar[frozenset[str]] = frozenset()  # columns of the examples
    decided: ClassVar[Mapping[str, str]] = {}  # columns that a rule of each_epoch must give, each with such a rule
    provides: ClassVar[frozenset[str]] = frozenset()  # needs and columns that it provides to the rules inside it
    timeless: ClassVar[bool] = False  # it reads the epoch only through schedules and the parts inside it

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "timeless" not in vars(cls) and vars(cls).keys() & {"__call__", "forward"}:
            cls.timeless = False

    def __post_init__(self) -> None:
        refuse_other_fields(self)

    def phase(self, epoch: int) -> Hashable:
        """What a captured step assumes about the epoch: it is captured again when this changes."""
        return None if self.timeless else epoch


class Rule(Reader, ABC):
    """How much should each example count, now?

    A frozen dataclass reads the signals in its fields `by` and `of`, which take a signal or its name.
    """

    clocks: ClassVar[frozenset[str]] = frozenset({"batch", "epoch", "round"})
    gives: ClassVar[frozenset[str]] = frozenset()  # columns of its decisions, for `mix`, `relabel` and the ledger
    about: ClassVar[str | None] = None  # the evidence that rules inside it read: "peer", "average" (None: its own)

    def __post_init__(self) -> None:
        for name in ("by", "of"):
            if isinstance(given := getattr(self, name, None), str):
                object.__setattr__(self, name, signal_named(given))
        super().__post_init__()

    def allowed_clocks(self) -> frozenset[str]:
        """The clocks on which it can be asked: every "batch", every "epoch", every "round"."""
        return self.clocks

    @property
    def reads_groups(self) -> bool:
        """Whether it ranks within evidence.groups, which per_class sets; otherwise per_class asks it class by class."""
        return False

    def refuse(self, epochs: float) -> None:
        """Refuse settings that would fail later in a run of this many epochs."""

    def rounds(self, evidence: Evidence, parts: int) -> "Rounds | None":  # noqa: ARG002
        """How it is asked about these examples in so many parts; None where it has to see all of them at once."""
        return None

    @abstractmethod
    def __call__(self, evidence: Evidence) -> Tensor | Decision:
        """Non-negative, finite weights [n] (zero: dropped), or a Decision."""


RuleLike = Rule | Callable[[Evidence], Tensor | Decision]


def reads_groups(rule: RuleLike) -> bool:
    """Whether the rule itself ranks within groups, so that per_class need not ask it class by class."""
    return isinstance(rule, Rule) and rule.reads_groups


def ask(rule: RuleLike, evidence: Evidence, scope: str = "") -> Decision:
    """The rule's decision; inside a combinator `scope` separates the memories of several rules."""
    if scope:
        own = {name[len(scope) + 1 :]: value for name, value in evidence.memory.items() if name.startswith(f"{scope}.")}
        evidence = evidence.replace(memory=own)
    answer = rule(evidence)
    decision = answer if isinstance(answer, Decision) else Decision(answer)
    if not isinstance(decision.weights, Tensor):
        raise ThresherError(f"A rule gave a {type(decision.weights).__name__}: return a tensor of weights [n].")
    if decision.weights.is_complex():
        raise ThresherError("A rule gave weights that are complex numbers: return real ones.")
    if decision.weights.shape != evidence.ids.shape:
        shape, n = list(decision.weights.shape), len(evidence)
        raise ThresherError(f"A rule gave weights of shape {shape} for {n} examples: return [{n}].")
    memory = {f"{scope}.{name}": value for name, value in decision.memory.items()} if scope else decision.memory
    return Decision(decision.weights.float(), decision.columns, memory)


def parts(value: Any) -> Iterator[Any]:
    """The value and everything inside it: the fields of rules and of other dataclasses, the items of collections."""
    yield value
    for item in _inside(value):
        yield from parts(item)


def _inside(value: Any) -> list[Any]:
    if isinstance(value, tuple | list | set | frozenset):
        return list(value)
    if isinstance(value, Mapping):
        return list(value.values())
    if isinstance(value, Signal):
        return list(value.made_of)
    if is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, each.name) for each in fields(value)]
    return []


def signals_of(value: Any) -> list[Signal]:
    """The signals to record for a rule, or for all rules of a recipe; in the order they are declared, each once.

    A signal made of others is not included: it is computed from those when a rule reads it.
    """
    return list(dict.fromkeys(part for part in parts(value) if isinstance(part, Signal) and not part.made_of))


def needs_of(value: Any) -> frozenset[str]:
    """The other evidence that a rule, or all rules of a recipe, read and that no rule around them provides."""
    own: frozenset[str] = value.needs if isinstance(value, Reader | Signal) else frozenset()
    return own | (frozenset().union(*map(needs_of, _inside(value))) - _provided(value))


def columns_of(value: Any) -> frozenset[str]:
    """The columns of the examples that a rule, or all rules of a recipe, read and that no rule around them provides."""
    own: frozenset[str] = value.columns if isinstance(value, Reader) else frozenset()
    return own | (frozenset().union(*map(columns_of, _inside(value))) - _provided(value))


def _provided(value: Any) -> frozenset[str]:
    return value.provides if isinstance(value, Reader) else frozenset()


def decided_of(value: Any) -> dict[str, str]:
    """The columns of the epoch's decisions that `mix` and `relabel` read, each with a rule that gives it."""
    return {name: by for part in parts(value) if isinstance(part, Reader) for name, by in part.decided.items()}


def asked_about(name: str, value: Any) -> tuple[Any, ...]:
    """The parts of a rule that read the evidence of this name: "peer" or "average"."""
    return tuple(
        item for part in parts(value) if isinstance(part, Rule) and part.about == name for item in _inside(part)
    )


def gives_of(value: Any) -> frozenset[str]:
    """The columns that the decisions of a rule, or of the rules inside it, have."""
    return frozenset().union(*(part.gives for part in parts(value) if isinstance(part, Rule)))


def schedules_of(value: Any) -> list[Schedule]:
    """The schedules inside a rule, or inside all rules of a recipe."""
    return list(dict.fromkeys(part for part in parts(value) if isinstance(part, Schedule)))


def check_size(rule: str, fraction: float | Schedule | None, count: int | None) -> None:
    """Refuse a rule with neither or both of fraction and count, or with one out of range."""
    if (fraction is None) == (count is None):
        raise ThresherError(f"{rule} needs fraction= or count=: give exactly one of them.")
    if not isinstance(fraction, Schedule | None):
        refuse_unless(
            "fraction", fraction, isinstance(fraction, Real), "a number, or a schedule such as ramp(1.0, 0.6)"
        )
    if isinstance(fraction, Real) and not 0 < fraction <= 1:
        raise ThresherError(f"fraction={fraction} is what is kept: give a number above 0 and at most 1.")
    if count is not None:
        check_count(count)


def check_count(count: int) -> None:
    """Refuse a count of examples that keeps none."""
    if not (isinstance(count, int) and count >= 1):
        raise ThresherError(f"count={count} keeps nothing: give a whole number of at least 1.")


def checked_count(count: int, n: int) -> int:
    """The count, if n examples are enough for it."""
    if not (isinstance(count, Integral) and 1 <= count <= n):
        raise ThresherError(f"count={count} cannot be chosen of {n} examples: give a whole number from 1 to {n}.")
    return count


@dataclass(frozen=True)
class warmup(Rule):  # noqa: N801  # used like a function: warmup(5, rule)
    """`before` during the first `epochs` epochs, and `then` from epoch `epochs` on.

    As a rule, `then` and `before` are rules; without `before` every example counts the same at first. As a mix, `then`
    is a mix, and nothing is mixed at first.
    """

    epochs: float
    then: Any
    before: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (isinstance(self.epochs, int | float) and self.epochs >= 0) or self.then is None:
            raise ThresherError(
                f"warmup({self.epochs}, {self.then}) is not a warm-up: give a number of epochs, and then a rule."
            )

    @property
    def reads_groups(self) -> bool:
        return all(reads_groups(rule) for rule in (self.before, self.then) if rule is not None)

    def __call__(self, evidence: Evidence) -> Decision:
        if evidence.epoch >= self.epochs:
            return ask(self.then, evidence, "then" if self.before is not None else "")
        if self.before is None:
            return Decision(torch.ones(len(evidence), device=evidence.ids.device))
        return ask(self.before, evidence, "before")

    def rounds(self, evidence: Evidence, parts: int) -> "Rounds | None":
        now = in_epoch(evidence.epoch, self)
        return now.rounds(evidence, parts) if isinstance(now, Rule) else None

    def phase(self, epoch: int) -> Hashable:
        return epoch < self.epochs


def in_epoch(epoch: float, value: Any) -> Any:
    """The content of a slot in this epoch: the value itself, or the part of its warm-up that applies.

    >>> in_epoch(4, warmup(5, "mix")), in_epoch(5, warmup(5, "mix")), in_epoch(0, "mix")
    (None, 'mix', 'mix')
    """
    if isinstance(value, warmup):
        return value.before if epoch < value.epochs else in_epoch(epoch, value.then)
    return value
