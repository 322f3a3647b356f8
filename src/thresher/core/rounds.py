"""Selections in two rounds: a rule is asked about random parts of the examples, and then about what they proposed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from thresher.core.evidence import Evidence
from thresher.core.rule import Decision, Rule, RuleLike


def scattered(first: Decision, places: Tensor, then: Decision, ids: Tensor) -> Decision:
    """The values of the second round at the places of the proposed examples, and zero elsewhere."""
    columns = {name: value.new_zeros(len(ids), *value.shape[1:]) for name, value in then.columns.items()}
    for name, value in then.columns.items():
        columns[name][places] = value
    return Decision(first.weights.new_zeros(len(ids)).index_put((places,), then.weights), columns)


Joined = Callable[[Decision, Tensor, Decision, Tensor], Decision]


@dataclass(frozen=True)
class Rounds:
    """A selection in two rounds (GreeDi, Mirzasoleiman et al. 2013): no one needs to see more than a part at once.

    first   what each part is asked: examples with a weight above zero are its proposals
    then    what is asked about all proposals; None where what the parts decide stands
    joined  (decisions of all parts [n], places of the proposals [m], decision about them, ids [n]) -> decision [n]
    """

    first: Sequence[RuleLike]
    then: RuleLike | None = None
    joined: Joined = scattered


def rounds_of(rule: RuleLike | None, evidence: Evidence, parts: int) -> Rounds | None:
    """How a rule is asked about these examples in so many parts; None where it has to see all of them at once."""
    return rule.rounds(evidence, parts) if isinstance(rule, Rule) else None


def counted(rule: Rule, count: int, n: int, parts: int, joined: Joined = scattered) -> Rounds:
    """The rounds of a rule that chooses by its field `count`."""
    shares, again = proposals(min(count, n), n, parts)
    first = [replace(rule, count=max(1, share)) for share in shares]  # type: ignore[type-var]
    return Rounds(first, rule if again else None, joined)


def shared(rule: Rule, fraction: float, parts: int, joined: Joined = scattered) -> Rounds:
    """The rounds of a rule that chooses by its field `fraction`, of each group if there are groups.

    As in `proposals`, the parts propose as much as fits into one of them, and as is chosen of all at the most.
    """
    first = min(1.0, fraction * parts, 1 / parts)
    if first < fraction:
        return Rounds([replace(rule, fraction=fraction)] * parts, None, joined)  # type: ignore[type-var]
    own, then = (replace(rule, fraction=share) for share in (first, fraction / first))  # type: ignore[type-var]
    return Rounds([own] * parts, then, joined)


def proposals(count: int, n: int, parts: int) -> tuple[list[int], bool]:
    """How many of n each part proposes where `count` are to be chosen, and whether a second round chooses among those.

    As many as fit into a part together, `count` at the most; where fewer than `count` would, each chooses its share.

    >>> proposals(2, 100, 4), proposals(10, 100, 4), proposals(30, 100, 4)
    (([2, 2, 2, 2], True), ([6, 6, 6, 6], True), ([8, 7, 7, 8], False))
    """
    each = min(count, n // parts**2)
    if each * parts >= count:
        return [each] * parts, True
    ends = [round(count * (place + 1) / parts) for place in range(parts)]
    return [end - begun for begun, end in zip([0, *ends[:-1]], ends, strict=True)], False
