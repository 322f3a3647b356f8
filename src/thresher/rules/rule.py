"""What a rule is: evidence in, weights out, and a declaration of what it reads."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, ClassVar

from torch import Tensor

from thresher.engine.evidence import Evidence
from thresher.errors import ThresherError
from thresher.schedules import Schedule
from thresher.signals import Signal


@dataclass(frozen=True)
class Decision:
    """Weights [n], with named columns for the ledger and `mix`, and memory for the next time the rule is asked."""

    weights: Tensor
    columns: Mapping[str, Tensor] = field(default_factory=dict)
    memory: Mapping[str, Tensor] = field(default_factory=dict)


class Reader:
    """Something that reads evidence: a frozen dataclass whose fields declare the signals, and this what else."""

    needs: ClassVar[frozenset[str]] = frozenset()  # other evidence: "peer", "average", "clean", ...
    columns: ClassVar[frozenset[str]] = frozenset()  # columns of the examples
    reads: ClassVar[frozenset[str]] = frozenset()  # columns that a rule of each_epoch gives
    provides: ClassVar[frozenset[str]] = frozenset()  # of both kinds, what it gives to the rules inside it


class Rule(Reader, ABC):
    """How much should each example count, now?"""

    clocks: ClassVar[frozenset[str]] = frozenset({"batch", "epoch", "round"})
    gives: ClassVar[frozenset[str]] = frozenset()  # columns of its decisions, for `mix`, `relabel` and the ledger

    @property
    def by_groups(self) -> bool:
        """Whether it heeds evidence.groups, which per_class sets; otherwise per_class asks it class by class."""
        return False

    @abstractmethod
    def __call__(self, evidence: Evidence) -> Tensor | Decision:
        """Non-negative, finite weights [n] (zero: dropped), or a Decision."""


RuleLike = Rule | Callable[[Evidence], Tensor | Decision]


def heeds_groups(rule: RuleLike) -> bool:
    """Whether per_class may leave the classes to the rule itself."""
    return isinstance(rule, Rule) and rule.by_groups


def ask(rule: RuleLike, evidence: Evidence, scope: str = "") -> Decision:
    """The rule's decision; inside a combinator `scope` keeps the memories of several rules apart."""
    if scope:
        own = {name[len(scope) + 1 :]: value for name, value in evidence.memory.items() if name.startswith(f"{scope}.")}
        evidence = evidence.but(memory=own)
    answer = rule(evidence)
    decision = answer if isinstance(answer, Decision) else Decision(answer)
    if not isinstance(decision.weights, Tensor):
        raise ThresherError(f"A rule gave a {type(decision.weights).__name__}: let it give a tensor of weights [n].")
    if decision.weights.shape != evidence.ids.shape:
        shape, n = list(decision.weights.shape), len(evidence)
        raise ThresherError(f"A rule gave weights of shape {shape} for {n} examples: let it give [{n}].")
    memory = {f"{scope}.{name}": value for name, value in decision.memory.items()} if scope else decision.memory
    return replace(decision, weights=decision.weights.float(), memory=memory)


def parts(value: Any) -> Iterator[Any]:
    """The value and everything inside it: the fields of rules and of other dataclasses, the items of tuples."""
    yield value
    for item in _inside(value):
        yield from parts(item)


def _inside(value: Any) -> list[Any]:
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, Signal):
        return list(value.reads)
    if is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, each.name) for each in fields(value)]
    return []


def signals_of(value: Any) -> list[Signal]:
    """The signals to compute for a rule, or for all rules of a recipe; in the order they are declared, each once.

    A signal made of others is not among them: it is put together from those when a rule reads it.
    """
    return list(dict.fromkeys(part for part in parts(value) if isinstance(part, Signal) and not part.reads))


def needs_of(value: Any) -> frozenset[str]:
    """The other evidence that a rule, or all rules of a recipe, read and that no rule around them provides."""
    own: frozenset[str] = value.needs if isinstance(value, Reader | Signal) else frozenset()
    return own | _less_provided(value, [needs_of(item) for item in _inside(value)])


def columns_of(value: Any) -> frozenset[str]:
    """The columns of the examples that a rule, or all rules of a recipe, read and that no rule around them provides."""
    own: frozenset[str] = value.columns if isinstance(value, Reader) else frozenset()
    return own | _less_provided(value, [columns_of(item) for item in _inside(value)])


def _less_provided(value: Any, inner: list[frozenset[str]]) -> frozenset[str]:
    provided: frozenset[str] = value.provides if isinstance(value, Reader) else frozenset()
    return frozenset().union(*inner) - provided


def reads_of(value: Any) -> frozenset[str]:
    """The columns of the epoch's decisions that `mix` and `relabel` read."""
    return frozenset().union(*(part.reads for part in parts(value) if isinstance(part, Reader)))


def gives_of(value: Any) -> frozenset[str]:
    """The columns that the decisions of a rule, or of the rules inside it, have."""
    return frozenset().union(*(part.gives for part in parts(value) if isinstance(part, Rule)))


def schedules_of(value: Any) -> list[Schedule]:
    """The schedules inside a rule, or inside all rules of a recipe."""
    return list(dict.fromkeys(part for part in parts(value) if isinstance(part, Schedule)))
