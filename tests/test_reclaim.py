"""Reclaim: its term, its labels and its weights against slow references, what is recorded, and that it pays."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest
import torch
from reference import reclaim as reference
from some_evidence import same_but, some_evidence
from test_views import NoWaiting
from tiny import assert_same_run, assert_same_tensors, by_id, examples, net, real_examples, trusted
from torch import Tensor, nn

from thresher import Examples, Recipe, ThresherError, fit, signals
from thresher.bench.run.results import read
from thresher.bench.suites import SUITES
from thresher.core.evidence import Evidence
from thresher.core.rule import Decision, schedules_of
from thresher.core.schedules import ramp
from thresher.corruption import corrupt
from thresher.data.loading import digits
from thresher.engine.device.capture import phase
from thresher.engine.store.about import describe
from thresher.methods import MethodFacts, method
from thresher.methods.reclaim import (
    DEBIASED,
    DEBIASED_HELD_OUT,
    agreeing,
    central,
    growing,
    joint,
    patient,
    reclaim,
    short,
)
from thresher.models.__init__ import MLP
from thresher.objectives import CrossEntropy, NearUniform, near_uniform
from thresher.rules import (
    Agree,
    Debias,
    HoldOut,
    KeepAbove,
    KeepSmallest,
    MetaGradient,
    Uniform,
    ask,
    average_teaches,
    average_teaches_held_out,
    either,
    from_average,
    from_peer,
    if_predicted,
    per_class,
    trusting,
    warmup,
)
from thresher.slots.average import Growing, over
from thresher.slots.mix import Mixup
from thresher.slots.relabel import TeacherLabels, blended_targets, labels_of_peer
from thresher.slots.views import Flip, Shift, View

SHAPES = [(1, 2), (3, 2), (40, 10)]


@pytest.mark.parametrize(("n", "classes"), SHAPES)
def test_the_uniform_terms_have_the_value_and_the_gradient_of_the_divergence(n: int, classes: int) -> None:
    outputs = (3 * torch.randn(n, classes, generator=torch.Generator().manual_seed(n))).double().requires_grad_()
    terms, whole = near_uniform(outputs), reference.divergence_from_uniform(outputs)
    torch.testing.assert_close(terms.mean(), whole)
    torch.testing.assert_close(terms, torch.stack(reference.uniform_terms(outputs)))
    ours, theirs = (torch.autograd.grad(value, outputs)[0] for value in (terms.mean(), whole))
    torch.testing.assert_close(ours, theirs)


def test_the_uniform_term_pushes_towards_a_class_that_was_given_up_and_never_waits() -> None:
    outputs = torch.tensor([[4.0, 0.0], [4.0, 0.0]], requires_grad=True)
    with NoWaiting():
        total = near_uniform(outputs).mean()
        total.backward()
    assert outputs.grad is not None
    assert (outputs.grad[:, 1] < 0).all(), "descent raises the second class"
    assert torch.isfinite(near_uniform(torch.tensor([[400.0, 0.0]]))).all()


def test_the_term_is_for_training_alone_and_nothing_at_strength_zero() -> None:
    evidence = some_evidence(6)
    plain, term = CrossEntropy(), NearUniform(0.5)
    expected = plain(evidence) + 0.5 * near_uniform(evidence.outputs)
    torch.testing.assert_close(term(evidence), expected)
    assert torch.equal(NearUniform(0.0)(evidence), plain(evidence))
    term.eval()
    assert torch.equal(term(evidence), plain(evidence))
    assert torch.equal(term.output_gradient(evidence), plain.output_gradient(evidence))
    assert not torch.equal(term.train().output_gradient(evidence), plain.output_gradient(evidence))


def test_a_sweep_leaves_the_term_out_and_the_mode_as_it_was() -> None:
    ranked: list[Tensor] = []

    def look(evidence: Evidence) -> Tensor:
        ranked.append(evidence.read(signals.loss))
        return torch.ones(len(evidence))

    class Reads(KeepSmallest):
        def __call__(self, evidence: Evidence) -> Tensor:
            return look(evidence)

    for objective in (CrossEntropy(), NearUniform(5.0)):
        recipe = Recipe(each_epoch=Reads(by=signals.loss, fraction=1.0), objective=objective)
        fit(recipe, net(seed=1), examples(), epochs=1, batch=8, device="cpu")
    assert torch.equal(*ranked)


@pytest.mark.parametrize(("trust", "temperature"), [(0.8, 0.5), (1.0, 1.0), (0.0, 2.0)])
def test_labels_are_those_of_the_reference(trust: float, temperature: float) -> None:
    draws = torch.Generator().manual_seed(0)
    outputs, given = 2 * torch.randn(20, 4, generator=draws), torch.randint(4, (20,), generator=draws)
    believed = torch.rand(20, generator=draws) < 0.5
    found = blended_targets(torch.eye(4)[given], outputs, believed, trust, temperature)
    rows = zip(given.tolist(), outputs, believed.tolist(), strict=True)
    expected = [reference.lesson(*row, trust, temperature) for row in rows]
    torch.testing.assert_close(found, torch.tensor(expected))


def test_training_is_that_of_the_reference() -> None:
    """Targets, weights, the term, the average and the order of all of it, over five epochs of one batch each."""
    train, rate = examples(24, corrupt=0.5), 0.6
    assert isinstance(train.inputs, Tensor)
    rule = warmup(2, trusting(from_average(Agree()), rest=teacher_confidence))
    recipe = Recipe(each_epoch=rule, relabel=TeacherLabels(0.7, 0.4), objective=NearUniform(0.3), average=rate)
    run = fit(
        recipe, net(seed=3), train, epochs=5, batch=24, device="cpu",
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.5),
    )  # fmt: skip
    model, average = reference.train(
        net(seed=3), train.inputs, train.targets, epochs=5, warm=2, rate=rate, learning_rate=0.5, strength=0.3,
        rest=lambda p: float(p.max()), trust=0.7, temperature=0.4,
    )  # fmt: skip
    shares = [record.get("trusted") for record in run.history]
    assert shares[:2] == [None, None]
    assert 0 < shares[-1] < 1, "both kinds of examples are there"
    for ours, theirs in ((run.model, model), (run.averages[0], average)):
        for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-5)


def teacher_confidence(evidence: Evidence) -> Tensor:
    return evidence.other("average").read(signals.confidence)


def test_trusting_joins_two_rules_and_says_whom_it_trusts() -> None:
    evidence = some_evidence(6)
    some = by_id(lambda ids: 2.0 * (ids % 2))
    both = ask(trusting(some, rest=by_id(lambda ids: ids / 10)), evidence)
    odd = evidence.ids % 2 == 1
    assert 0 < odd.sum() < 6
    torch.testing.assert_close(both.weights, torch.where(odd, 2.0, evidence.ids / 10))
    assert torch.equal(both.columns["trusted"], odd.float())
    assert torch.equal(ask(trusting(some), evidence).weights, 2.0 * odd), "without a rule the rest is dropped"


def test_trusting_keeps_the_memories_of_its_rules_apart() -> None:
    def counting(evidence: Evidence) -> Decision:
        asked = evidence.memory.get("asked", torch.zeros(())) + 1
        return Decision(asked * (evidence.ids % 2).float(), memory={"asked": asked})

    evidence, memory = some_evidence(6), dict[str, Tensor]()
    for turn in (1.0, 2.0):
        decision = ask(trusting(counting, rest=counting), evidence.replace(memory=memory))
        memory |= decision.memory
        assert float(decision.weights.max()) == turn
    assert sorted(memory) == ["rest.asked", "rule.asked"]


def test_the_average_is_the_teacher_of_debias() -> None:
    own, teacher, known, judge = (some_evidence(40, seed=seed) for seed in range(4))
    validation = known.replace(others={"average": same_but(judge, ids=known.ids, targets=known.targets)})
    teacher = same_but(teacher, ids=own.ids, targets=own.targets)
    found = ask(average_teaches(Debias()), own.replace(others={"average": teacher, "validation": validation}))
    linked = {"teacher": teacher, "validation": known.replace(others={"teacher": validation.other("average")})}
    everyone = {"from_teacher": torch.ones(40, dtype=torch.bool)}
    assert torch.equal(found.weights, ask(Debias(), own.replace(others=linked, columns=everyone)).weights)
    assert len(found.weights.unique()) > 1


def test_held_out_examples_that_are_trusted_stand_for_a_validation_set() -> None:
    own, teacher = some_evidence(60), some_evidence(60, seed=1)
    teacher, held = same_but(teacher, ids=own.ids, targets=own.targets), HoldOut(0.4)
    evidence = own.replace(others={"average": teacher})
    rule = trusting(from_average(per_class(KeepSmallest(by=signals.loss, fraction=0.6))), rest=Uniform())
    trusted_ones = ask(rule, evidence).columns["trusted"] > 0
    places = (trusted_ones & held.places(own.ids)).nonzero()[:, 0]
    assert 3 < len(places) < 30
    debias = replace(rule, rest=average_teaches_held_out(Debias(), held_out=held))
    found = ask(debias, evidence)
    known = own.subset(places).replace(others={"average": teacher.subset(places)})
    expected = ask(average_teaches(Debias()), evidence.replace(others={"average": teacher, "validation": known}))
    torch.testing.assert_close(found.weights[~trusted_ones], expected.weights[~trusted_ones])


def test_held_out_examples_are_never_visited() -> None:
    train = examples(60)
    recipe = reclaim(MethodFacts(0.25, 3, 5), rest=DEBIASED_HELD_OUT, trusted=short)
    run = fit(recipe, net(seed=1), train, epochs=5, batch=8, device="cpu")
    rows = run.ledger.to_pandas()
    out = HoldOut(0.1).places(torch.tensor(rows["id"].to_list())).numpy()
    assert out.any()
    assert not rows["visited"][out].any()
    assert rows["visited"][~out].any()
    assert rows["teacher_confidence"].notna().any(), "Debias was asked"


def test_agree_above_either_and_until() -> None:
    evidence = some_evidence(30)
    agrees = (evidence.outputs.argmax(1) == evidence.targets).float()
    sure = (evidence.outputs.softmax(1).amax(1) > 0.6).float()
    above = KeepAbove(by=signals.confidence, bound=0.6)
    assert 0 < sure.sum() < 30
    assert torch.equal(ask(Agree(), evidence).weights, agrees)
    assert torch.equal(ask(above, evidence).weights, sure)
    assert torch.equal(ask(either(Agree(), above), evidence).weights, torch.maximum(agrees, sure))
    for epoch, expected in ((0, agrees), (2, agrees), (3, sure)):
        assert torch.equal(ask(warmup(3, above, before=Agree()), evidence.replace(epoch=epoch)).weights, expected)


def test_the_ledger_and_the_history_say_what_was_trusted_and_taught() -> None:
    train = examples(60, corrupt=0.4)
    recipe = reclaim(MethodFacts(0.4, 3, 6), trusted=agreeing, rest=Uniform(), mix=None)
    run = fit(recipe, net(seed=2), train, epochs=6, batch=10, device="cpu")
    assert "trusted" not in run.history[0], "the warm-up trusts everyone"
    rows = run.ledger.to_pandas()
    true, corrupted = train.columns["true_target"].numpy(), train.columns["is_corrupt"].numpy()
    for record in run.history[1:]:
        last = rows[rows["epoch"] == record["epoch"]]
        believed = last["trusted"].to_numpy() > 0
        assert (last["taught"][believed] == last["target"][believed]).all()
        assert record["trusted"] == pytest.approx(believed.mean())
        assert record["trusted_clean"] == pytest.approx(1 - corrupted[believed].mean())
        assert record["reclaimed"] == pytest.approx(1 - believed.mean())
        assert record["reclaimed_right"] == pytest.approx((last["taught"] == true)[~believed].mean())
        assert record["clean_share"] == pytest.approx((last["taught"] == true).mean())
    assert (rows["target"] == np.tile(train.targets.numpy(), 6)).all(), "the given target stays"
    unknown = fit(recipe, net(seed=2), replace(train, columns={}), epochs=6, batch=10, device="cpu").history[-1]
    assert unknown["trusted"] == run.history[-1]["trusted"]
    assert "trusted_clean" not in unknown


def test_what_is_only_seen_blended_is_recorded_as_it_is() -> None:
    train = examples(44)
    assert isinstance(train.inputs, Tensor)
    run = fit(Recipe(mix=Mixup(), average=0.5), net(seed=1), train, epochs=1, batch=8, device="cpu")
    plain = run.model.eval()(train.inputs).detach().softmax(1)
    rows = run.ledger.to_pandas()
    torch.testing.assert_close(torch.tensor(rows["p_given"].to_list()), plain.gather(1, train.targets[:, None])[:, 0])
    assert rows["visited"].sum() == 40, "a remainder of four opens the next epoch"


def test_batch_rules_see_the_new_targets() -> None:
    seen: list[Tensor] = []

    def note(evidence: Evidence) -> Tensor:
        seen.append(evidence.targets)
        return torch.ones(len(evidence))

    train = examples(24)
    rule = trusting(by_id(lambda ids: ids < 0), rest=Uniform())  # nobody is trusted
    recipe = Recipe(each_epoch=rule, each_batch=note, relabel=TeacherLabels(temperature=1.0), average=0.5)
    model = net(seed=1)
    assert isinstance(train.inputs, Tensor)
    expected = model.eval()(train.inputs).detach().softmax(1)
    run = fit(recipe, model.train(), train, epochs=1, batch=24, device="cpu")
    torch.testing.assert_close(seen[0].sort(0).values, expected.sort(0).values)
    losses = torch.nn.functional.cross_entropy(expected.log(), train.targets, reduction="none")
    noted = torch.tensor(run.ledger.to_pandas()["loss"].to_list())
    torch.testing.assert_close(noted, losses, rtol=1e-4, atol=1e-5)


def test_an_average_over_epochs_is_a_growing_one() -> None:
    runs = [
        fit(Recipe(average=average), net(seed=1), examples(44), epochs=2, batch=11, device="cpu")
        for average in (over(2), Growing(1 - 1 / 8))
    ]
    assert_same_tensors(*(list(run.averages[0].parameters()) for run in runs))
    assert over(0.01).rate(steps=4) == 0.0
    assert_same_run(*runs)


def test_an_average_of_rate_zero_is_the_model_itself_with_its_buffers() -> None:
    run = fit(
        Recipe(average=0.0), net(seed=1, batch_norm=True), examples(44), epochs=2, batch=11, device="cpu"
    )  # fmt: skip
    assert_same_tensors(*(list(part.state_dict().values()) for part in (run.model, run.averages[0])))


def doubled(images: Tensor, _: torch.Generator) -> Tensor:
    return 2 * images


def darkened(images: Tensor, _: torch.Generator) -> Tensor:
    return images - 5


@pytest.mark.parametrize("views", [(), (doubled, darkened)], ids=["no views", "of the first view"])
@pytest.mark.parametrize("frozen", [False, True])
def test_an_averaged_model_has_batch_norm_statistics_of_its_own_unless_they_are_frozen(
    frozen: bool, views: tuple[View, ...]
) -> None:
    train, model = examples(44), net(seed=1, batch_norm=True)
    norm = next(layer for layer in model.modules() if isinstance(layer, nn.BatchNorm1d))
    if frozen:
        norm.eval()
    run = fit(Recipe(average=0.9, views=views), model, train, epochs=2, batch=11, device="cpu")
    average, seen = run.averages[0], []
    assert isinstance(train.inputs, Tensor)
    mine = next(layer for layer in average.modules() if isinstance(layer, nn.BatchNorm1d))
    mine.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    average(2 * train.inputs if views else train.inputs)
    assert not mine.training
    assert mine.momentum == norm.momentum
    expected = (torch.zeros(len(mine.running_mean)), torch.ones(len(mine.running_var)))
    if not frozen:
        expected = (seen[0].mean(0), seen[0].var(0))
    torch.testing.assert_close((mine.running_mean, mine.running_var), expected)


def test_everyone_is_trusted_while_few_labels_are_predicted() -> None:
    evidence = some_evidence(40, memory={"rule.seen": torch.tensor(3)})
    predicted = float((evidence.outputs.argmax(1) == evidence.targets).float().mean())
    few, enough = (predicted / 0.8 * much for much in (1.01, 0.99))
    assert 0 < predicted < 1
    unsure = ask(if_predicted(few, Agree()), evidence)
    assert torch.equal(unsure.weights, torch.ones(40))
    assert unsure.memory == evidence.memory
    for clean in (enough, ramp(1.0, enough, epochs=1e-9)):
        assert torch.equal(ask(if_predicted(clean, Agree()), evidence.replace(epoch=1)).weights, Agree()(evidence))
    assert torch.equal(ask(if_predicted(few, Agree(), enough=0.7), evidence).weights, Agree()(evidence))
    smallest = KeepSmallest(by=signals.loss, fraction=0.25)
    other = ask(if_predicted(few, Agree(), otherwise=smallest), evidence)
    assert torch.equal(other.weights, smallest(evidence))
    assert other.memory == evidence.memory


def test_without_a_rate_that_can_be_told_labels_that_are_predicted_are_trusted() -> None:
    evidence = some_evidence(40, epoch=50)
    assert 0 < float(Agree()(evidence).mean()) < 0.8  # too few for any rate below 0.2 to be believed
    told, untold, as_before = (
        ask(joint(MethodFacts(rate, 3, 60), **changes), evidence).weights
        for rate, changes in ((0.1, {}), (None, {}), (None, {"otherwise": None}))
    )
    assert torch.equal(told, torch.ones(40))
    assert torch.equal(as_before, torch.ones(40))
    assert torch.equal(untold, Agree()(evidence))


@pytest.mark.parametrize("clean", [0.3, 0.8])
@pytest.mark.parametrize("epoch", [0, 4, 5, 9])
def test_joint_trust_is_agreement_and_as_many_small_gradients_as_are_clean(epoch: int, clean: float) -> None:
    plain = some_evidence(40, epoch=epoch)
    evidence = plain.replace(raw_outputs=plain.raw_outputs + 1.5 * torch.eye(4)[plain.targets])  # many are right
    trusted = ask(joint(MethodFacts(1 - clean, 4, 10)), evidence).weights > 0
    given, sizes = evidence.targets, evidence.read(signals.output_gradient_norm)
    small, predicted = set[int](), set((evidence.outputs.argmax(1) == given).nonzero()[:, 0].tolist())
    for group in [given == label for label in range(4)] if epoch < 5 else [given >= 0]:
        mine = group.nonzero()[:, 0]
        small |= set(mine[sizes[mine].argsort()[: round(clean * len(mine))]].tolist())
    assert set(trusted.nonzero()[:, 0].tolist()) == small | predicted
    assert (small - predicted) if clean == 0.8 else (predicted - small)
    assert (ask(joint(MethodFacts(0.2, 4, 10)), plain).weights == 1).all(), "far fewer than 80% are predicted"


def test_patience_asks_for_more_in_the_first_half_and_reclaims_later() -> None:
    recipe = patient(MethodFacts(0.8, 4, 12))
    trust = recipe.each_epoch.then.rule.rule  # inside warmup, trusting and from_average
    plain = some_evidence(400, seed=1)
    right = plain.outputs.argmax(1) == plain.targets
    clean = float(right.float().mean()) / 0.85  # 0.85 of what would be clean is predicted
    trust = replace(trust, before=replace(trust.before, clean=clean), then=replace(trust.then, clean=clean))
    shares = [float((ask(trust, plain.replace(epoch=epoch)).weights > 0).float().mean()) for epoch in range(12)]
    assert shares[:6] == [1.0] * 6
    assert max(shares[6:]) < 0.9
    least = either(Agree(), short(MethodFacts(0.8, 4, 12)))
    within_classes = [
        torch.equal(ask(trust, plain.replace(epoch=at)).weights, ask(least, plain).weights) for at in (8, 9)
    ]
    assert within_classes == [True, False]
    share = next(part for part in schedules_of(recipe.each_epoch) if isinstance(part, ramp))
    assert [round(share(epoch, 12), 6) for epoch in (0, 4, 9, 12)] == [0.2, 0.2, 0.9, 0.9]


PARTS: dict[str, Any] = {
    "as it is": {},
    "rest dropped": {"rest": None},
    "debiased": {"rest": DEBIASED},
    "debiased, held out": {"rest": DEBIASED_HELD_OUT},
    "by centrality": {"trusted": central},
    "by gradients": {"trusted": short},
    "by agreement": {"trusted": agreeing},
    "growing": {"rest": growing(MethodFacts(0.25, 3, 4))},
    "not mixed": {"mix": None},
    "mixed at once": {"mix": warmup(0, Mixup())},
    "not averaged": {"average": 0.0},
    "not uniform": {"uniform": 0.0},
    "corrected": {"correct": MetaGradient()},
}


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS.keys())
def test_every_part_can_be_switched_and_is_another_method(part: dict[str, Any]) -> None:
    train, facts = examples(44), MethodFacts(0.25, 3, 4)
    recipe = reclaim(facts, **part, views=(Flip(), Shift(0.25)))
    run = fit(
        recipe,
        net(seed=1),
        train,
        epochs=4,
        batch=8,
        device="cpu",
        clean=trusted(train, 9),
        validation=examples(20, seed=8),
    )
    assert (describe(recipe) == describe(reclaim(facts, views=recipe.views))) == (not part)
    assert len(run.history) == 4
    assert run.history[-1]["trusted"] > 0


def test_two_networks_each_have_a_teacher_of_their_own() -> None:
    recipe = replace(reclaim(MethodFacts(0.25, 3, 3), trusted=agreeing), peers=2)
    run = fit(recipe, net, examples(44), epochs=3, batch=8, device="cpu")
    rows = run.ledger.to_pandas()
    one, other = (rows[(rows["peer"] == peer) & (rows["epoch"] == 2)]["taught"].to_numpy() for peer in (0, 1))
    assert (one != other).any()


def test_reclaim_learns_where_half_of_the_labels_are_wrong() -> None:
    train, test = digits()
    wrong = corrupt(train, "symmetric:0.5", seed=0)

    def score(name: str) -> float:
        run = fit(
            method(name).recipe(classes=10, epochs=30), lambda: MLP((1, 8, 8), 10, hidden=(256,)), wrong, test=test,
            epochs=30, batch=64, device="cpu", optimizer=partial(torch.optim.Adam, lr=5e-3),
        )  # fmt: skip
        if name == "reclaim":
            assert run.history[-1]["trusted_clean"] > 0.95
            assert run.history[-1]["reclaimed_right"] > 0.95
        found = run.last(5)
        assert found is not None
        return found

    plain, ours = score("standard"), score("reclaim")
    assert ours > 0.94
    assert ours > plain + 0.12


def test_the_step_is_recorded_once_for_the_warm_up_and_once_for_the_rest() -> None:
    recipe = reclaim(MethodFacts(0.4, 10, 115))
    phases = [phase(recipe, epoch) for epoch in range(115)]
    assert phases == [phases[0]] * 15 + [phases[-1]] * 100
    assert phases[0] != phases[-1]
    changing = Recipe(each_batch=warmup(3, KeepSmallest(by=signals.loss, fraction=0.5), before=Uniform()))
    assert phase(changing, 2) != phase(changing, 3)


def call(recipe: Recipe, train: Examples | None = None) -> Any:
    train = train or examples()
    return fit(recipe, net(train.outputs), train, epochs=1, batch=8, device="cpu")


REFUSED = {
    "nobody tells whom to trust": (
        lambda: call(Recipe(relabel=TeacherLabels(), average=0.9)),
        "reads the column 'trusted', which no rule of its each_epoch gives: put one there, such as trusting",
    ),
    "no average": (lambda: call(Recipe(each_epoch=trusting(Agree()), relabel=TeacherLabels())), "average=0.999"),
    "real targets": (lambda: call(reclaim(MethodFacts(0.4, None, 1)), real_examples()), "choose another"),
    "no classes": (
        lambda: call(Recipe(each_epoch=trusting(Uniform()), relabel=TeacherLabels(), average=0.9), real_examples()),
        "choose another relabelling",
    ),
    "no validation set": (lambda: call(reclaim(MethodFacts(0.4, 3, 1), rest=DEBIASED)), "pass validation=Examples"),
    "nobody held out": (lambda: HoldOut(0.0), "between 0 and 1"),
    "no epochs": (lambda: over(0), "averages nothing"),
    "away from uniform": (lambda: NearUniform(-1.0), "at least 0"),
}


@pytest.mark.parametrize(("wrong", "sentence"), REFUSED.values(), ids=REFUSED.keys())
def test_refusals(wrong: Any, sentence: str) -> None:
    with pytest.raises(ThresherError, match=sentence):
        wrong()


def test_the_page_says_what_is_stored() -> None:
    root = Path(__file__).parent.parent
    page = (root / "docs" / "methods" / "reclaim.md").read_text(encoding="utf-8")
    stored = [row for row in read(root / "results" / "reclaim-paper.jsonl")[0] if row["status"] == "ok"]

    def mean(cell: str, method: str) -> str:
        return f"{100 * fmean(row['last'] for row in stored if (row['cell'], row['method']) == (cell, method)):.1f}"

    worse, plain = mean("cifar10n-worse", "reclaim"), mean("cifar10n-worse", "standard")
    assert f"score {worse} on average of three seeds; plain training ends at {plain}, and where" in page
    assert f"it is {mean('cifar10-symmetric-50', 'reclaim')} (one seed)" in page
    much = mean("cifar10-symmetric-80", "patient")
    assert f"{much} with [reclaim-patient](reclaim-patient.md) (one seed)" in page
    patiently = (root / "docs" / "methods" / "reclaim-patient.md").read_text(encoding="utf-8")
    assert f"the last ten epochs score {much}\n(one seed)" in patiently


def test_patience_in_the_small_suite_is_as_its_page_says() -> None:
    rows = read(Path(__file__).parent.parent / "results" / "reclaim-small.jsonl")[0]

    def mean(cell: str, method: str) -> float:
        return 100 * fmean(row["last"] for row in rows if (row["cell"], row["method"]) == (cell, method))

    cells = {row["cell"] for row in rows}
    assert min(mean("digits-symmetric-80", each) for each in ("patient", "growing")) > mean(
        "digits-symmetric-80", "reclaim"
    )
    for cell in {each for each in cells if not each.endswith("-untold")} - {"digits-symmetric-80"}:
        found = [mean(cell, each) for each in ("reclaim", "growing", "patient")]
        assert max(found) - min(found) < 1


def test_the_suite_has_an_entry_for_every_part_and_the_published_figures() -> None:
    suite = SUITES["reclaim"]
    facts, untold = MethodFacts(0.4, 10, 115), MethodFacts(None, 10, 115)
    made = [entry for entry in suite.methods if entry.procedure is None]
    told_apart = {
        repr(
            (
                [entry.recipe_or_procedure(each) for each in (facts, untold)],
                entry.early_stop,
                sorted(entry.changes.items()),
            )
        )
        for entry in made
    }
    assert len(told_apart) == len(made)
    assert suite.published["cifar10n-worse", "co-teaching"].value == 83.83
    recipe = next(entry for entry in suite.methods if entry.name == "reclaim").recipe_or_procedure(facts)
    assert recipe.each_epoch.epochs == 15
    assert recipe.average == over(1)
    share = schedules_of(growing(facts))[0]
    assert [share(epoch, 115) for epoch in (15, 115)] == pytest.approx([0.2, 0.9])


def test_of_two_networks_each_selects_and_labels_for_the_other() -> None:
    facts = MethodFacts(0.4, 10, 20)
    alone, pair = (reclaim(facts, trusted=agreeing, peers=peers) for peers in (1, 2))
    taught = Recipe(peers=2, each_epoch=from_peer(alone.each_epoch), relabel=labels_of_peer(alone.relabel))
    assert (pair.peers, pair.each_epoch, pair.relabel) == (taught.peers, taught.each_epoch, taught.relabel)
