"""Rules and combinators: equal to naive references, with ties, NaN, groups, memories and schedules."""

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import keep as reference
from some_evidence import same_but, some_evidence
from tiny import assert_same_run, examples, net
from torch import Tensor

from thresher import Recipe, fit, signals
from thresher.core.errors import ThresherError
from thresher.core.evidence import Evidence, Signal
from thresher.core.rule import columns_of, needs_of, schedules_of, signals_of
from thresher.core.schedules import Schedule, cosine, ramp, step
from thresher.rules import (
    ClipNorm,
    Decision,
    KeepLargest,
    KeepSmallest,
    Rule,
    Uniform,
    ask,
    every,
    from_peer,
    keep_smallest,
    once,
    per_class,
    product,
    warmup,
)

# few distinct values, so that ties are the rule; NaN and infinities too
VALUES = st.sampled_from([0.0, -0.0, 1.0, 1.0, -2.5, float("nan"), float("inf"), float("-inf"), 1e-30])
FRACTIONS = st.one_of(st.sampled_from([0.5, 0.6, 1.0, 0.1, 0.3, 1e-9]), st.floats(0.001, 1.0))
CLASSES = 3


@st.composite
def problems(draw: st.DrawFn) -> tuple[list[float], list[int], list[int]]:
    n = draw(st.integers(1, 24))
    values = draw(st.lists(VALUES, min_size=n, max_size=n))
    ids = draw(st.lists(st.integers(0, 10_000), min_size=n, max_size=n, unique=True))
    groups = draw(st.lists(st.integers(0, CLASSES - 1), min_size=n, max_size=n))
    return values, ids, groups


def signal_with(values: list[float] | Tensor) -> Signal:
    found = torch.as_tensor(values)
    return Signal("made_up", lambda evidence: found)  # noqa: ARG005


def evidence_about(values: list[float], ids: list[int], **facts: Any) -> Evidence:
    return some_evidence(len(values), width=CLASSES, ids=torch.tensor(ids), **facts)


@settings(max_examples=200, deadline=None)
@given(problems(), FRACTIONS, st.booleans())
def test_keep_smallest_equals_the_naive_reference_by_fraction(problem: Any, fraction: float, grouped: bool) -> None:
    values, ids, groups = problem
    given_groups = groups if grouped else None
    expected = reference.keep_smallest(values, ids, fraction=fraction, groups=given_groups)
    for as_given in (fraction, torch.tensor(fraction, dtype=torch.float64)):
        kept = keep_smallest(
            torch.tensor(values),
            torch.tensor(ids),
            fraction=as_given,
            groups=torch.tensor(groups) if grouped else None,
            group_count=CLASSES,
        )
        assert kept.tolist() == expected


@settings(max_examples=100, deadline=None)
@given(problems(), st.integers(1, 30), st.booleans())
def test_keep_smallest_equals_the_naive_reference_by_count(problem: Any, count: int, grouped: bool) -> None:
    values, ids, groups = problem
    kept = keep_smallest(
        torch.tensor(values),
        torch.tensor(ids),
        count=count,
        groups=torch.tensor(groups) if grouped else None,
        group_count=CLASSES,
    )
    assert kept.tolist() == reference.keep_smallest(values, ids, count=count, groups=groups if grouped else None)


@settings(max_examples=100, deadline=None)
@given(problems(), FRACTIONS, st.sampled_from([1, -1]))
def test_the_rules_rank_their_signal_and_never_prefer_nan(problem: Any, fraction: float, sign: int) -> None:
    values, ids, _ = problem
    kind = KeepSmallest if sign == 1 else KeepLargest
    expected = reference.keep_smallest([sign * value for value in values], ids, fraction=fraction)
    evidence = evidence_about(values, ids)
    assert ask(kind(by=signal_with(values), fraction=fraction), evidence).weights.tolist() == expected
    room = sum(expected)
    if room <= sum(value == value for value in values):
        assert all(value == value for value, kept in zip(values, expected, strict=True) if kept)


@settings(max_examples=100, deadline=None)
@given(problems(), FRACTIONS)
def test_per_class_is_the_rule_within_each_class(problem: Any, fraction: float) -> None:
    values, ids, groups = problem
    rule = KeepSmallest(by=signal_with(values), fraction=fraction)
    evidence = evidence_about(values, ids, targets=torch.tensor(groups))
    expected = reference.keep_smallest(values, ids, fraction=fraction, groups=groups)
    assert ask(per_class(rule, of=signals.given), evidence).weights.tolist() == expected


# the last four come out differently when the share is computed in float32
SHARES = [(5, 0.5, 2), (7, 0.5, 4), (10, 0.65, 6), (64, 0.6, 38), (1, 0.1, 1)]
SHARES += [(45, 0.7, 31), (50, 0.59, 30), (75, 0.14, 11), (95, 0.3, 28)]


@pytest.mark.parametrize(("n", "fraction", "count"), SHARES)
def test_the_number_kept_is_the_rounded_share_and_at_least_one(n: int, fraction: float, count: int) -> None:
    evidence = some_evidence(n)
    for setting in (fraction, ramp(fraction, fraction, epochs=3)):
        assert ask(KeepSmallest(by=signals.loss, fraction=setting), evidence).weights.sum() == count


def test_a_fraction_of_numpy_is_a_number_like_any_other() -> None:
    evidence = some_evidence(10)
    assert ask(KeepSmallest(by=signals.loss, fraction=np.float32(0.5)), evidence).weights.sum() == 5  # type: ignore[arg-type]


def test_a_scheduled_fraction_follows_the_epoch_and_the_engines_scalar_comes_first() -> None:
    fraction = ramp(1.0, 0.5, epochs=10)
    rule = KeepSmallest(by=signals.loss, fraction=fraction)
    kept = [float(ask(rule, some_evidence(20, epoch=epoch)).weights.sum()) for epoch in (0, 4, 10, 30)]
    assert kept == [20, 16, 10, 10]
    scalar = {fraction: torch.tensor(0.25, dtype=torch.float64)}
    assert ask(rule, some_evidence(20, scalars=scalar)).weights.sum() == 5


@pytest.mark.parametrize(
    "make",
    [
        lambda: KeepSmallest(by=signals.loss),
        lambda: KeepSmallest(by=signals.loss, fraction=0.5, count=3),
        lambda: KeepSmallest(by=signals.loss, fraction=0.0),
        lambda: KeepSmallest(by=signals.loss, fraction=1.01),
        lambda: KeepSmallest(by=signals.loss, fraction=float("nan")),
        lambda: KeepSmallest(by=signals.loss, fraction=np.float32(2.0)),  # type: ignore[arg-type]
        lambda: KeepLargest(by=signals.loss, count=0),
        lambda: KeepLargest(by=signals.loss, count=2.5),  # type: ignore[arg-type]
        lambda: ClipNorm(0.0),
        lambda: ClipNorm(float("nan")),
        lambda: product(),
        lambda: ramp(1.0, 0.5, epochs=0),
        lambda: per_class(every(3, Uniform())),
        lambda: per_class(warmup(2, once(Uniform()))),
        lambda: ask(KeepSmallest(by=signals.output_gradient, fraction=0.5), some_evidence(4)),
        lambda: ask(ClipNorm(1.0, by=signals.output_gradient), some_evidence(4)),
        lambda: ask(lambda evidence: evidence.losses.mean(), some_evidence(4)),
        lambda: ask(lambda evidence: evidence.losses[:, None], some_evidence(4)),
        lambda: ask(from_peer(Uniform()), some_evidence(4)),
    ],
)
def test_what_no_rule_can_do_is_refused_with_the_fix(make: Any) -> None:
    with pytest.raises(ThresherError, match=": "):
        make()


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.sampled_from([0.0, 1e-45, 0.5, 1.0, 2.0, 1e30, float("inf")]), min_size=1), st.sampled_from([0.5, 40.0])
)
def test_clip_norm_bounds_every_norm_and_leaves_short_ones_alone(norms: list[float], bound: float) -> None:
    weights = ask(ClipNorm(bound, by=signal_with(norms)), some_evidence(len(norms))).weights
    for norm, weight in zip(torch.tensor(norms).tolist(), weights.tolist(), strict=True):
        assert weight == pytest.approx(1.0 if norm <= bound else bound / norm)


def test_clip_norm_reads_the_gradient_norm_unless_told_otherwise_and_takes_a_schedule() -> None:
    evidence = some_evidence(9, epoch=5)
    norms = evidence.read(signals.gradient_norm)
    expected = [min(1.0, 0.75 / norm) for norm in norms.tolist()]
    assert ask(ClipNorm(ramp(1.0, 0.5, epochs=10)), evidence).weights.tolist() == pytest.approx(expected)


@dataclass(frozen=True)
class Counting(Rule):
    """1 / (id + `by` for each time it was asked), with a column and memory; heeds no groups."""

    by: float = 1

    def __call__(self, evidence: Evidence) -> Decision:
        asked = evidence.memory.get("asked", torch.zeros(())) + self.by
        return Decision(1 / (evidence.ids + asked), {"ids": evidence.ids}, {"asked": asked})


@dataclass(frozen=True)
class Summing(Rule):
    """How many examples it has been shown so far, for each of those it is shown now; heeds no groups."""

    def __call__(self, evidence: Evidence) -> Decision:
        seen = evidence.memory.get("seen", torch.zeros(())) + len(evidence)
        return Decision(seen.expand(len(evidence)), {"ids": evidence.ids}, {"seen": seen})


@dataclass(frozen=True)
class OnlyFirst(Rule):
    """Weight 1 for the lowest id of those it is shown; heeds no groups."""

    def __call__(self, evidence: Evidence) -> Tensor:
        return (evidence.ids == evidence.ids.min()).float()


def asked_over(rule: Rule, epochs: int, evidence: Evidence) -> list[Decision]:
    """The decisions of each epoch, with the memory carried on as the engine does."""
    memory: dict[str, Tensor] = {}
    decisions = []
    for epoch in range(epochs):
        decisions.append(ask(rule, same_but(evidence, epoch=epoch, memory=dict(memory))))
        memory.update(decisions[-1].memory)
    return decisions


@pytest.mark.parametrize("kind", [torch.bool, torch.int64, torch.float16, torch.float64], ids=str)
@pytest.mark.parametrize("clock", ["each_batch", "each_epoch"])
def test_a_rule_may_give_weights_of_any_kind(kind: torch.dtype, clock: str) -> None:
    recipes = [Recipe(**{clock: lambda evidence, to=to: (evidence.ids % 2).to(to)}) for to in (torch.float32, kind)]
    theirs, ours = (fit(recipe, lambda: net(seed=0), examples(), steps=3, batch=8, device="cpu") for recipe in recipes)
    assert_same_run(ours, theirs)


def test_warmup_gives_everyone_weight_one_and_then_the_rule() -> None:
    evidence, keep = some_evidence(10), KeepSmallest(by=signals.loss, fraction=0.5)
    weights = [decision.weights for decision in asked_over(warmup(2, keep), 4, evidence)]
    assert torch.equal(weights[0], torch.ones(10))
    assert torch.equal(weights[1], torch.ones(10))
    assert torch.equal(weights[2], ask(keep, evidence).weights)
    assert torch.equal(weights[3], weights[2])


def test_every_asks_once_a_period_and_repeats_weights_and_columns_in_between() -> None:
    evidence = some_evidence(5)
    decisions = asked_over(every(3, Counting()), 8, evidence)
    times = [round(float(1 / decision.weights[0]) - float(evidence.ids[0])) for decision in decisions]
    assert times == [1, 1, 1, 2, 2, 2, 3, 3]
    assert all(torch.equal(decision.columns["ids"], evidence.ids) for decision in decisions)


def test_every_keeps_its_period_when_first_asked_late_and_after_a_gap() -> None:
    evidence = some_evidence(4)
    first = ask(every(3, Counting()), same_but(evidence, epoch=5))
    assert torch.equal(first.memory["asked"], torch.tensor(5))
    for epoch, asked_again in ((7, False), (8, True), (40, True)):
        later = ask(every(3, Counting()), same_but(evidence, epoch=epoch, memory=dict(first.memory)))
        assert (not torch.equal(later.weights, first.weights)) == asked_again


def test_once_asks_once() -> None:
    evidence = some_evidence(5)
    decisions = asked_over(once(Counting()), 6, evidence)
    assert all(torch.equal(decision.weights, 1 / (evidence.ids + 1)) for decision in decisions)


def test_every_and_once_are_for_the_epoch_clock_only() -> None:
    assert once(Uniform()).clocks == every(2, Uniform()).clocks == {"epoch"}


def test_product_multiplies_and_keeps_the_memories_apart() -> None:
    evidence = some_evidence(6)
    rule = product(Counting(), every(2, Counting()), Counting(by=5))
    ids = evidence.ids.float()
    for epoch, decision in enumerate(asked_over(rule, 4, evidence)):
        expected = 1 / (ids + epoch + 1) / (ids + epoch // 2 + 1) / (ids + 5 * (epoch + 1))
        torch.testing.assert_close(decision.weights, expected, rtol=1e-5, atol=0)
        assert torch.equal(decision.columns["ids"], evidence.ids)


def test_product_of_one_rule_is_that_rule() -> None:
    evidence, keep = some_evidence(9), KeepSmallest(by=signals.loss, fraction=0.4)
    assert torch.equal(ask(product(keep), evidence).weights, ask(keep, evidence).weights)


def test_from_peer_asks_about_the_peers_evidence_with_ones_own_memory() -> None:
    own = some_evidence(12)
    peer = some_evidence(12, seed=5, ids=own.ids, targets=own.targets)
    linked = own.replace(others={"peer": peer})
    keep = KeepSmallest(by=signals.loss, fraction=0.5)
    weights = ask(from_peer(keep), linked).weights
    assert torch.equal(weights, ask(keep, peer).weights)
    assert not torch.equal(weights, ask(keep, own).weights)
    decisions = asked_over(from_peer(Counting()), 3, linked)
    assert torch.equal(decisions[2].weights, 1 / (own.ids + 3))


def test_identical_peers_choose_as_one_alone_would() -> None:
    own = some_evidence(12)
    keep = KeepSmallest(by=signals.output_gradient_norm, fraction=0.5)
    assert torch.equal(ask(from_peer(keep), own.replace(others={"peer": own})).weights, ask(keep, own).weights)


# every way to wrap a rule that heeds groups must agree with asking class by class
WRAPPED = {
    "keep": lambda rule: rule,
    "warmup": lambda rule: warmup(0, rule),
    "from_peer": from_peer,
    "product": lambda rule: product(rule, Uniform(), ClipNorm(1.0)),
    "deep": lambda rule: warmup(0, product(from_peer(rule), Uniform())),
}


@pytest.mark.parametrize("wrap", WRAPPED.values(), ids=WRAPPED.keys())
@pytest.mark.parametrize("of", [signals.predicted, signals.given], ids=["predicted", "given"])
def test_per_class_by_groups_equals_class_by_class(wrap: Any, of: Signal) -> None:
    own = some_evidence(40)
    evidence = own.replace(others={"peer": some_evidence(40, seed=1, ids=own.ids, targets=own.targets)})
    for inner in (KeepSmallest(by=signals.loss, fraction=0.4), KeepLargest(by=signals.loss, count=2), OnlyFirst()):
        rule = wrap(inner)
        labels, expected = evidence.read(of), torch.zeros(40)
        for label in labels.unique():
            members = (labels == label).nonzero()[:, 0]
            expected[members] = ask(rule, evidence.subset(members)).weights
        assert torch.equal(ask(per_class(rule, of=of), evidence).weights, expected)
    assert wrap(KeepSmallest(by=signals.loss, count=1)).reads_groups
    assert not wrap(OnlyFirst()).reads_groups


def test_per_class_gives_every_class_its_own_memory_and_scatters_columns() -> None:
    evidence = some_evidence(30)
    decisions = asked_over(per_class(Summing(), of=signals.given), 3, evidence)
    sizes = torch.bincount(evidence.targets)
    assert len(sizes.unique()) > 1
    assert torch.equal(decisions[2].weights, 3.0 * sizes[evidence.targets])
    assert torch.equal(decisions[2].columns["ids"], evidence.ids)


def test_a_class_by_class_rule_sees_all_of_a_clean_set_and_its_part_of_the_peer() -> None:
    own = some_evidence(8)
    clean, peer = some_evidence(8, seed=1), some_evidence(8, seed=2, ids=own.ids)
    seen = []

    def look(evidence: Evidence) -> Tensor:
        seen.append((len(evidence), len(evidence.other("clean")), len(evidence.other("peer"))))
        assert torch.equal(evidence.other("peer").ids, evidence.ids)
        return torch.ones(len(evidence))

    ask(per_class(look, of=signals.given), own.replace(others={"clean": clean, "peer": peer}))
    assert sum(n for n, _, _ in seen) == 8
    assert all(clean_n == 8 and peer_n == n for n, clean_n, peer_n in seen)


@pytest.mark.parametrize("name", ["clean", "labelled", "validation"])
def test_other_examples_are_never_taken_for_the_same_because_of_their_ids(name: str) -> None:
    own = some_evidence(8)
    part = own.replace(others={name: some_evidence(8, seed=1, ids=own.ids)}).subset(torch.tensor([1, 4]))
    assert len(part) == 2
    assert len(part.other(name)) == 8


def test_what_a_rule_reads_is_found_through_every_combinator() -> None:
    fraction, bound = ramp(1.0, 0.5, epochs=3), cosine(1.0)
    inner = KeepSmallest(by=signals.margin, fraction=fraction)
    rule = product(warmup(3, from_peer(per_class(inner))), every(2, ClipNorm(bound)), Uniform())
    assert signals_of(rule) == [signals.margin, signals.predicted, signals.gradient_norm]
    assert needs_of(rule) == {"peer"}
    assert schedules_of(rule) == [fraction, bound]
    assert columns_of(rule) == frozenset()
    assert signals_of(None) == []


@pytest.mark.parametrize(
    ("schedule", "at", "value"),
    [
        (ramp(1.0, 0.6, epochs=10, after=5), 5, 1.0),
        (ramp(1.0, 0.6, epochs=10, after=5), 10, 0.8),
        (ramp(1.0, 0.6, epochs=10, after=5), 99, 0.6),
        (step(1.0, at=(2, 4), times=0.5), 4, 0.25),
        (cosine(2.0, 1.0), 25, 1.5),
        (cosine(2.0, 1.0), 80, 1.0),
    ],
)
def test_schedules_have_the_values_their_formulas_say(schedule: Schedule, at: float, value: float) -> None:
    assert schedule(at, 50) == pytest.approx(value)


def test_schedules_are_values_however_their_epochs_are_given() -> None:
    assert step(0.1, at=[80, 100]) == step(0.1, at=(80, 100))  # type: ignore[arg-type]
    assert len({step(0.1, at=[80, 100]), step(0.1, at=(80, 100)), ramp(1, 0, 2), ramp(1, 0, 2)}) == 2  # type: ignore[arg-type]


def test_no_two_settings_share_a_decision_by_accident() -> None:
    evidence = some_evidence(20)
    kept = [
        tuple(ask(kind(by=by, fraction=fraction), evidence).weights.tolist())
        for kind, by, fraction in itertools.product(
            (KeepSmallest, KeepLargest), (signals.loss, signals.entropy), (0.3, 0.6)
        )
    ]
    assert len(set(kept)) == len(kept)
