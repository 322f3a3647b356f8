"""The contract of every rule and combinator: one table, one set of promises; a name without a row is an error."""

from dataclasses import FrozenInstanceError, dataclass, fields, replace
from typing import Any

import pytest
import torch
from some_evidence import same_but, some_evidence
from test_views import NoWaiting
from torch import Tensor

from thresher import Examples, Recipe, ThresherError, fit, rules, signals
from thresher.core.evidence import Evidence, Signal
from thresher.core.rule import columns_of, needs_of, parts, reads_groups, schedules_of, signals_of
from thresher.core.schedules import ramp
from thresher.core.signals import PAIRS, SIGNALS
from thresher.rules import (
    Agree,
    Centrality,
    CleanShare,
    ClipNorm,
    Crowd,
    Curriculum,
    Debias,
    Decision,
    Dimensionality,
    Disagree,
    FacilityLocation,
    Fidelity,
    HardestOfMajority,
    HoldOut,
    InverseFrequency,
    KCentre,
    KeepAbove,
    KeepLargest,
    KeepSmallest,
    KMeansPlusPlus,
    LearnedCurriculum,
    MetaGradient,
    NeighbourVote,
    OnlyClean,
    OnlyCorrect,
    RandomPicks,
    RandomWeights,
    Rule,
    SampleWeight,
    Selected,
    Uniform,
    Voted,
    ask,
    average_teaches,
    average_teaches_held_out,
    either,
    every,
    from_average,
    from_peer,
    if_predicted,
    once,
    per_class,
    product,
    trusting,
    warmup,
)

COVERS = {f"{way}facility_location" for way in ("", "stochastic_", "partitioned_", "streamed_")}
NOT_RULES = {"Coreset", "Decision", "Rule", "RuleLike", "ask", "centrality", "in_groups", "keep_smallest", "rectified"}
NOT_RULES |= COVERS | {"debias_weights", "local_dimensionality", "mean_of_nearest", "teacher_labels"}
NOT_RULES |= {"k_centre", "kmeans_plus_plus", "neighbour_votes", "neighbours_within", "shares_of_votes"}
EVERY_TASK = ("classes", "soft", "real")
LABELLED = ("classes", "soft")
KEEP = KeepSmallest(by=signals.loss, fraction=0.6)


class Remembering(Rule):
    """A rule with memory and a column, which heeds no groups: weight falls with the rank and with every question."""

    def __call__(self, evidence: Evidence) -> Decision:
        by_id = evidence.ids.argsort()
        order = by_id[evidence.read(signals.loss)[by_id].argsort(stable=True)]
        ranks = order.argsort().float()
        asked = evidence.memory.get("asked", torch.zeros(())) + 1
        return Decision(1 / (1 + ranks + asked), {"rank": ranks}, {"asked": asked})


# name exported from thresher.rules -> (a rule of that kind, the tasks it is for)
TABLE: dict[str, list[tuple[Any, tuple[str, ...]]]] = {
    "Agree": [(Agree(), LABELLED)],
    "Centrality": [(Centrality(fraction=0.5), EVERY_TASK), (Centrality(by=signals.features, count=1), EVERY_TASK)],
    "ClipNorm": [
        (ClipNorm(1.0), EVERY_TASK),
        (ClipNorm(ramp(2.0, 0.5, epochs=2), by=signals.output_gradient_norm), EVERY_TASK),
    ],
    "Crowd": [(Crowd(1.5), EVERY_TASK), (Crowd(0.5, by=signals.features), EVERY_TASK)],
    "CleanShare": [(CleanShare(), LABELLED)],
    "Curriculum": [
        (Curriculum(0.6), EVERY_TASK),
        (Curriculum(ramp(1.0, 0.5, epochs=2), width=ramp(0.0, 0.5, epochs=2)), EVERY_TASK),
    ],
    "Debias": [
        (Debias(), LABELLED),
        (Debias(by=signals.entropy, hard=True, temperature=2.0, consistent=True), LABELLED),
    ],
    "Dimensionality": [(Dimensionality(), EVERY_TASK), (Dimensionality(start=0, window=2, neighbours=3), EVERY_TASK)],
    "Disagree": [(Disagree(), LABELLED), (Disagree(of=signals.loss), EVERY_TASK)],
    "FacilityLocation": [(FacilityLocation(fraction=0.5), EVERY_TASK)],
    "Fidelity": [(Fidelity(), LABELLED)],
    "HoldOut": [(HoldOut(0.3), EVERY_TASK)],
    "HardestOfMajority": [(HardestOfMajority(), LABELLED)],
    "InverseFrequency": [(InverseFrequency(), LABELLED), (InverseFrequency(of=signals.predicted), LABELLED)],
    "KCentre": [(KCentre(count=3), EVERY_TASK), (KCentre(by=signals.output_gradient, count=70), EVERY_TASK)],
    "KMeansPlusPlus": [
        (KMeansPlusPlus(count=5), EVERY_TASK),
        (
            KMeansPlusPlus(by=signals.scaled(signals.gradient_embedding, signals.average_divergence), count=5),
            EVERY_TASK,
        ),
        (KMeansPlusPlus(by=signals.features, count=70, largest_first=False), EVERY_TASK),
    ],
    "KeepAbove": [
        (KeepAbove(by=signals.loss, bound=0.5), EVERY_TASK),
        (KeepAbove(by=signals.confidence, bound=ramp(0.2, 0.9, epochs=3)), LABELLED),
    ],
    "KeepLargest": [
        (KeepLargest(by=signals.loss, fraction=0.3), EVERY_TASK),
        (KeepLargest(by=signals.entropy, count=3), LABELLED),
    ],
    "KeepSmallest": [
        (KEEP, EVERY_TASK),
        (KeepSmallest(by=signals.output_gradient_norm, count=5), EVERY_TASK),
        (KeepSmallest(by=signals.gradient_norm, fraction=ramp(1.0, 0.2, epochs=4)), EVERY_TASK),
        (KeepSmallest(by=signals.predicted, fraction=0.5), LABELLED),
    ],
    "LearnedCurriculum": [(LearnedCurriculum(0.6, ramp(0.0, 1.0, epochs=4), 4), LABELLED)],
    "MetaGradient": [(MetaGradient(), EVERY_TASK), (MetaGradient(by=signals.loss), EVERY_TASK)],
    "NeighbourVote": [
        (NeighbourVote(count=5), LABELLED),
        (NeighbourVote(sure=None), LABELLED),
        (NeighbourVote(count=3, kept=True), LABELLED),
    ],
    "OnlyClean": [(OnlyClean(), EVERY_TASK)],
    "RandomPicks": [(RandomPicks(5), EVERY_TASK)],
    "Voted": [(Voted(), LABELLED)],
    "OnlyCorrect": [(OnlyCorrect(), EVERY_TASK)],
    "RandomWeights": [(RandomWeights(), EVERY_TASK)],
    "SampleWeight": [(SampleWeight(), EVERY_TASK)],
    "Selected": [(Selected(), EVERY_TASK), (Selected(epochs=0), EVERY_TASK)],
    "Uniform": [(Uniform(), EVERY_TASK), (Uniform(0.0), EVERY_TASK)],
    "average_teaches": [(average_teaches(Debias()), LABELLED), (average_teaches(Fidelity()), LABELLED)],
    "average_teaches_held_out": [
        (average_teaches_held_out(Debias(), held_out=HoldOut(0.5)), LABELLED),
        (average_teaches_held_out(Debias(), held_out=HoldOut(1e-9)), LABELLED),  # hardly anybody
    ],
    "either": [(either(KEEP, ClipNorm(1.0)), EVERY_TASK), (either(Agree(), Remembering()), LABELLED)],
    "every": [(every(3, KEEP), EVERY_TASK), (every(2, Remembering()), EVERY_TASK)],
    "from_average": [(from_average(KEEP), EVERY_TASK), (from_average(per_class(KEEP)), LABELLED)],
    "from_peer": [(from_peer(KEEP), EVERY_TASK), (from_peer(per_class(KEEP)), LABELLED)],
    "if_predicted": [(if_predicted(0.01, KEEP), LABELLED), (if_predicted(0.2, Remembering()), LABELLED)],
    "once": [(once(KEEP), EVERY_TASK)],
    "per_class": [
        (per_class(KEEP), LABELLED),
        (per_class(KEEP, of=signals.given), LABELLED),
        (per_class(warmup(0, from_peer(KEEP))), LABELLED),
        (per_class(Remembering(), of=signals.given), LABELLED),
        (per_class(product(KEEP, Remembering())), LABELLED),
        (per_class(FacilityLocation(fraction=0.5)), LABELLED),
        (per_class(product(Centrality(fraction=0.5), Crowd(1.5)), of=signals.given), LABELLED),
    ],
    "product": [
        (product(KEEP, ClipNorm(1.0)), EVERY_TASK),
        (product(Remembering(), Remembering()), EVERY_TASK),
        (product(Fidelity(), once(Debias())), LABELLED),
    ],
    "trusting": [
        (trusting(KEEP), EVERY_TASK),
        (trusting(from_average(Agree()), rest=Remembering()), LABELLED),
        (trusting(Remembering(), rest=Uniform()), EVERY_TASK),
    ],
    "warmup": [
        (warmup(1, KEEP), EVERY_TASK),
        (warmup(9, KEEP), EVERY_TASK),
        (warmup(0, Remembering()), EVERY_TASK),
        (warmup(1, Remembering(), before=KEEP), EVERY_TASK),
        (warmup(2, KEEP, before=Remembering()), EVERY_TASK),
    ],
}
ROWS = [
    pytest.param(rule, task, n, id=f"{name}{place}-{task}-{n}")
    for name, rows in TABLE.items()
    for place, (rule, tasks) in enumerate(rows)
    for task in tasks
    for n in (1, 2, 64)
]
over_everything = pytest.mark.parametrize(("rule", "task", "n"), ROWS)


def about(n: int, task: str, *, tied: bool = False, **facts: Any) -> Evidence:
    """Evidence with all other evidence there is and a generator; with `tied`, nothing but the ids differs."""
    own, peer, average, teacher, known, judge, labelled = (some_evidence(n, task, seed=seed) for seed in range(7))
    if tied:
        own, peer, average, teacher, known = (_all_alike(each) for each in (own, peer, average, teacher, known))
    others = {
        name: same_but(other, ids=own.ids, targets=own.targets)
        for name, other in (("peer", peer), ("average", average), ("teacher", teacher))
    }
    others["labelled"] = labelled
    judge = same_but(judge, ids=known.ids, targets=known.targets)
    others["validation"] = known.replace(others={"teacher": judge, "average": judge})
    return own.replace(
        others=others, generator=torch.Generator().manual_seed(7), **({"epoch": 1, "epochs": 4.0} | facts)
    )


def _all_alike(evidence: Evidence) -> Evidence:
    return evidence.replace(
        targets=evidence.targets[:1].expand_as(evidence.targets),
        raw_outputs=evidence.outputs[:1].expand_as(evidence.outputs),
        known={k: v[:1].expand_as(v) for k, v in evidence.known.items() if not isinstance(k, str)},
        columns={name: column[:1].expand_as(column) for name, column in evidence.columns.items()},
    )


def permuted(evidence: Evidence, order: Tensor) -> Evidence:
    """The same examples in another order, written out here so that Evidence.subset is not trusted."""
    return evidence.replace(
        ids=evidence.ids[order],
        targets=evidence.targets[order],
        raw_outputs=evidence.raw_outputs[order],  # type: ignore[index]
        known={k: v[order] for k, v in evidence.known.items() if not isinstance(k, str)},
        columns={name: column[order] for name, column in evidence.columns.items()},
        others={name: permuted(other, order) for name, other in evidence.others.items()},
        generator=torch.Generator().manual_seed(7) if evidence.generator is not None else None,
    )


def facts_of(evidence: Evidence) -> dict[str, Any]:
    """Copies of everything a rule could change: tensors, mappings of tensors, other evidence; not the cache."""

    def copied(value: Any) -> Any:
        if isinstance(value, Evidence):
            return facts_of(value)
        if isinstance(value, dict):
            return {name: copied(item) for name, item in value.items()}
        return value.detach().clone().requires_grad_(value.requires_grad) if isinstance(value, Tensor) else value

    kept = {field.name: copied(getattr(evidence, field.name)) for field in fields(evidence) if field.name != "known"}
    return kept | {
        "prepared": {k: copied(v) for k, v in evidence.known.items() if not isinstance(k, str) and k.prepared}
    }


def equal(first: Any, second: Any) -> bool:
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(equal(first[key], second[key]) for key in first)
    if isinstance(first, Tensor):
        return torch.equal(first, second) and first.requires_grad == second.requires_grad
    return bool(first is second or first == second)


def test_every_exported_name_has_a_row() -> None:
    assert set(TABLE) | NOT_RULES == set(rules.__all__)
    assert not set(TABLE) & NOT_RULES
    for name, rows in TABLE.items():
        kind = getattr(rules, name)
        for rule, _ in rows:
            assert isinstance(rule, kind if isinstance(kind, type) else Rule)


@over_everything
def test_weights_are_one_finite_non_negative_detached_number_for_each_example(rule: Any, task: str, n: int) -> None:
    evidence = about(n, task)
    evidence = same_but(evidence, raw_outputs=evidence.outputs.clone().requires_grad_() * 1)
    decision = ask(rule, evidence)
    assert decision.weights.shape == (n,)
    assert decision.weights.dtype == torch.float32
    assert torch.isfinite(decision.weights).all()
    assert (decision.weights >= 0).all()
    for tensor in (decision.weights, *decision.columns.values(), *decision.memory.values()):
        assert not tensor.requires_grad
    assert all(len(column) == n for column in decision.columns.values())


@over_everything
@pytest.mark.parametrize("tied", [False, True], ids=["different", "tied"])
def test_permuting_the_examples_with_their_ids_permutes_the_weights(rule: Any, task: str, n: int, tied: bool) -> None:
    evidence, order = about(n, task, tied=tied), torch.randperm(n, generator=torch.Generator().manual_seed(3))
    straight, shuffled = ask(rule, evidence), ask(rule, permuted(evidence, order))
    torch.testing.assert_close(shuffled.weights, straight.weights[order], rtol=1e-5, atol=1e-6)
    for name, column in straight.columns.items():
        torch.testing.assert_close(shuffled.columns[name], column[order])


@over_everything
def test_nothing_is_mutated_and_the_same_question_has_the_same_answer(rule: Any, task: str, n: int) -> None:
    evidence = about(n, task)
    before = facts_of(evidence)
    first = ask(rule, evidence)
    answer = first.weights.clone()
    assert equal(before, facts_of(evidence))
    again = ask(rule, same_but(evidence, generator=torch.Generator().manual_seed(7)))
    assert torch.equal(again.weights, answer)
    assert torch.equal(first.weights, answer)


@over_everything
def test_memory_goes_round_without_being_changed(rule: Any, task: str, n: int) -> None:
    memory: dict[str, Tensor] = {}
    for epoch in range(3):
        evidence = same_but(about(n, task), memory=dict(memory), epoch=epoch)
        kept = facts_of(evidence)["memory"]
        decision = ask(rule, evidence)
        assert decision.weights.shape == (n,)
        assert equal(kept, dict(evidence.memory))
        memory |= decision.memory


def is_for_batches(rule: Any) -> bool:
    inside = [part for part in parts(rule) if isinstance(part, Rule)]
    loops = any(isinstance(part, per_class) and not reads_groups(part.rule) for part in inside)
    return not loops and all("batch" in part.clocks for part in inside)


@pytest.mark.parametrize(("rule", "task", "n"), [row for row in ROWS if is_for_batches(row.values[0])])
def test_a_rule_for_batches_never_waits_for_the_device(rule: Any, task: str, n: int) -> None:
    with NoWaiting():
        ask(rule, about(n, task, scalars={schedule: torch.tensor(0.5) for schedule in schedules_of(rule)}))


@pytest.mark.parametrize(
    "rule", [rule for rows in TABLE.values() for rule, _ in rows], ids=lambda rule: type(rule).__name__
)
def test_a_rule_is_a_value(rule: Any) -> None:
    if not fields(rule):
        return
    name = fields(rule)[0].name
    with pytest.raises(FrozenInstanceError):
        setattr(rule, name, getattr(rule, name))
    assert hash(rule) == hash(rule)


# A signal is given by its name as well.

NAMES = {value: name for name, value in {**SIGNALS, **PAIRS}.items()}
TAKEN = [
    pytest.param(part, field.name, id=f"{type(part).__name__}-{field.name}-{NAMES.get(value, 'made')}")
    for rows in TABLE.values()
    for rule, _ in rows
    for part in parts(rule)
    if isinstance(part, Rule) and not isinstance(part, Remembering)
    for field in fields(part)
    if isinstance(value := getattr(part, field.name), Signal | signals.Pair)
]


def test_all_signals_have_their_names() -> None:
    exported = {name for name in signals.__all__ if isinstance(getattr(signals, name), Signal | signals.Pair)}
    assert exported == {*SIGNALS, *PAIRS}
    assert all(getattr(signals, name) is value for value, name in NAMES.items())


@pytest.mark.parametrize(("rule", "field"), TAKEN)
def test_a_signal_may_be_given_by_its_name(rule: Any, field: str) -> None:
    assert field in ("by", "of"), "a rule takes names in these fields only"
    name = NAMES.get(getattr(rule, field))
    if name is not None:
        named = replace(rule, **{field: name})
        assert named == rule
        assert hash(named) == hash(rule)
        assert getattr(named, field) is getattr(rule, field)
    with pytest.raises(ThresherError, match="There is no signal 'los'"):
        replace(rule, **{field: "los"})


def test_a_rule_of_single_signals_takes_no_pair() -> None:
    assert KMeansPlusPlus(by="gradient_embedding") == KMeansPlusPlus()
    assert per_class(KEEP, of="given") == per_class(KEEP, of=signals.given)
    with pytest.raises(ThresherError, match="There is no signal 'gradient_embedding'"):
        KeepSmallest(by="gradient_embedding", fraction=0.5)


# Whatever rules a rule holds are found, in whatever it holds them.


@dataclass(frozen=True)
class Holding(Rule):
    """The weights of the first of some rules, which may be a list, a dict, a set or rules inside these."""

    rules: Any

    def __call__(self, evidence: Evidence) -> Decision:
        first = next(part for part in parts(self.rules) if isinstance(part, Rule))
        return ask(first, evidence)


HELD = (from_peer(KeepSmallest(by="gradient_norm", fraction=ramp(1.0, 0.5, epochs=2))), OnlyClean())
HOLDERS = {
    "tuple": HELD,
    "list": list(HELD),
    "set": set(HELD),
    "dict": dict(enumerate(HELD)),
    "dict of lists": {"all": [list(HELD)]},
    "list of holders": [Holding([rule]) for rule in HELD],
}


@pytest.mark.parametrize("held", HOLDERS.values(), ids=HOLDERS.keys())
def test_rules_in_collections_are_found(held: Any) -> None:
    rule = Holding(held)
    assert needs_of(rule) == {"peer"}
    assert columns_of(rule) == {"is_clean"}
    assert signals_of(rule) == [signals.gradient_norm]
    assert schedules_of(rule) == [ramp(1.0, 0.5, epochs=2)]
    train = Examples(torch.randn(8, 2), torch.arange(8) % 2)
    with pytest.raises(ThresherError, match="reads 'peer', which is missing"):
        fit(Recipe(each_batch=rule), torch.nn.Linear(2, 2), train, epochs=1, batch=4, device="cpu")
    with pytest.raises(ThresherError, match="reads the column 'is_clean'"):
        fit(Recipe(each_batch=rule, peers=2), lambda: torch.nn.Linear(2, 2), train, epochs=1, batch=4, device="cpu")
