"""A teacher in `fit`: who is asked, what it sees, what VID learns from it, and what is refused."""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from reference import distil as slow
from some_evidence import some_evidence
from test_views import NoWaiting
from tiny import assert_same_run, examples, net, real_examples, streamed
from torch import Tensor, nn

from thresher import Examples, Recipe, ThresherError, fit, signals
from thresher.core.evidence import Evidence
from thresher.core.rule import Rule
from thresher.engine.step.teacher import TEACHER_OUTPUT, from_probabilities
from thresher.methods import pairs_between
from thresher.objectives import Distillation, LayerPair, NearUniform, Objective, Variational
from thresher.rules import Debias, Fidelity, KeepSmallest, every, once, product
from thresher.slots.mix import Mixup

TRAIN, KNOWN = examples(44), replace(examples(30, seed=5, corrupt=0.0), ids=torch.arange(500, 530))
TAUGHT = TRAIN.with_columns(from_teacher=torch.arange(44) % 4 > 0)
WIDER = nn.Sequential(nn.Flatten(), nn.Linear(16, 12), nn.ReLU(), nn.Linear(12, 3))
PAIRS = (LayerPair("1", "1", 8, 12), LayerPair("4", "3", 3, 3))  # hidden layers and outputs of net() and WIDER


def said(examples: Examples, network: nn.Module = WIDER) -> Examples:
    assert isinstance(examples.inputs, Tensor)
    return examples.with_columns(**{TEACHER_OUTPUT: network(examples.inputs).detach()})


def run(recipe: Recipe, train: Examples = TAUGHT, **changes: Any) -> Any:
    settings = {"epochs": 3, "batch": 8, "device": "cpu", "validation": KNOWN, **changes}
    return fit(recipe, lambda: net(seed=1), train, **settings)


@pytest.mark.parametrize("rule", [Debias(), once(Debias(signals.entropy)), product(Fidelity(), every(2, Debias()))])
def test_a_network_and_its_column_weigh_alike(rule: Rule) -> None:
    by_network = run(Recipe(each_epoch=rule), teacher=WIDER)
    by_column = run(Recipe(each_epoch=rule), said(TAUGHT), validation=said(KNOWN))
    assert_same_run(by_network, by_column)
    assert by_network.history[0]["effective"] < 1
    labelled = by_network.ledger.to_pandas().query("id % 12 == 1")  # every fourth has a label of its own
    assert (labelled.weight == 1).all()


def test_the_rule_sees_the_student_of_the_moment_unless_it_is_asked_once() -> None:
    anew, kept = (run(Recipe(each_epoch=rule), teacher=WIDER).ledger.to_pandas() for rule in (Debias(), once(Debias())))
    assert kept.groupby("id").student_confidence.nunique().max() == 1
    assert anew.groupby("id").student_confidence.nunique().max() == 3
    assert anew.groupby("id").teacher_confidence.nunique().max() == 1


def test_the_teacher_given_is_left_as_it_was() -> None:
    teacher = net(dropout=0.5, batch_norm=True, seed=3)
    before = {name: value.clone() for name, value in teacher.state_dict().items()}
    run(Recipe(each_epoch=Debias(), objective=Variational((LayerPair("1", "1", 8, 8),))), teacher=teacher)
    assert teacher.training
    assert all(parameter.requires_grad for parameter in teacher.parameters())
    assert all(torch.equal(value, before[name]) for name, value in teacher.state_dict().items())


class Asking(Objective):
    """Cross entropy that notes what the teacher was seen to say."""

    needs = frozenset({"teacher"})
    seen: list[tuple[Tensor, Tensor, Tensor]] = []  # noqa: RUF012  # shared with the copies that fit makes

    def forward(self, evidence: Evidence) -> Tensor:
        if evidence.inputs is not None:
            self.seen.append((evidence.inputs, evidence.other("teacher").outputs, evidence.targets))
        return nn.functional.cross_entropy(evidence.outputs, evidence.targets, reduction="none")


@pytest.mark.parametrize("mix", [None, Mixup(1.0)], ids=["plain", "mixed"])
@pytest.mark.parametrize("views", [(), (lambda x, g: x * 2,), (lambda x, g: x * 2, lambda x, g: x - 1)])  # noqa: ARG005
def test_a_network_sees_what_the_student_sees(mix: Any, views: tuple[Any, ...]) -> None:
    Asking.seen.clear()
    run(Recipe(objective=Asking(), views=views, mix=mix), teacher=WIDER, epochs=1)
    assert len(Asking.seen) >= 5 * max(len(views), 1)
    for inputs, outputs, _ in Asking.seen:
        torch.testing.assert_close(outputs, WIDER(inputs).detach())


def test_a_column_says_the_same_of_every_view_and_a_mixture_of_mixed_examples() -> None:
    hot = TAUGHT.with_columns(**{TEACHER_OUTPUT: from_probabilities(torch.eye(3)[TRAIN.targets])})
    Asking.seen.clear()
    run(Recipe(objective=Asking(), mix=Mixup(1.0)), hot, epochs=1)
    mixed = [(outputs.softmax(1), targets) for _, outputs, targets in Asking.seen if targets.ndim == 2]
    assert len(mixed) == 5
    for chances, targets in mixed:
        torch.testing.assert_close(chances, targets)


class Following(Objective):
    """½ squared distance from the teacher, noting what it was seen to say and the targets."""

    needs = frozenset({"teacher"})
    seen: list[tuple[Tensor, Tensor]] = []  # noqa: RUF012  # shared with the copies that fit makes

    def forward(self, evidence: Evidence) -> Tensor:
        said = evidence.other("teacher").outputs
        self.seen.append((said, evidence.targets))
        return (evidence.outputs - said).square().sum(1) / 2


def test_a_column_of_real_outputs_is_blended_as_the_targets_are() -> None:
    train = real_examples()
    train = train.with_columns(**{TEACHER_OUTPUT: 10 * train.targets})
    Following.seen.clear()
    fit(Recipe(objective=Following(), mix=Mixup(1.0)), net(2), train, steps=3, batch=8, device="cpu")
    blended = Following.seen[:6:2]  # each step asks twice: the ledger's loss is by the given targets
    assert len(blended) == 3
    for said, targets in blended:
        torch.testing.assert_close(said, 10 * targets)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 4.0])
@pytest.mark.parametrize("task", ["classes", "soft"])
def test_distillation_is_the_slow_one_and_has_its_gradient(temperature: float, task: str) -> None:
    evidence, objective = some_evidence(9, task), Distillation(temperature)
    taught = evidence.targets if task == "soft" else torch.eye(4)[evidence.targets]
    expected = [
        slow.distillation(outputs, labels, temperature)
        for outputs, labels in zip(evidence.outputs.tolist(), taught.tolist(), strict=True)
    ]
    torch.testing.assert_close(objective(evidence), torch.tensor(expected), rtol=1e-4, atol=1e-5)
    closed = objective.output_gradient(evidence)
    torch.testing.assert_close(closed, Objective.output_gradient(objective, evidence), rtol=1e-4, atol=1e-5)
    hard = evidence.replace(targets=torch.eye(4)[evidence.read(signals.given)])
    ids = evidence.replace(targets=evidence.read(signals.given))
    torch.testing.assert_close(objective(hard), objective(ids))


@pytest.mark.parametrize(
    ("own", "theirs"),
    [
        ((6, 3), (6, 5)),
        ((6, 3, 4, 4), (6, 5, 4, 4)),
        ((6, 3, 2, 2), (6, 5, 8, 8)),
        ((6, 3), (6, 5, 2, 2)),
        ((6, 7, 3), (6, 7, 5)),  # tokens
        ((6, 3), (6, 7, 5)),
    ],
)
def test_vid_is_the_slow_one_for_any_pair_of_layers(own: tuple[int, ...], theirs: tuple[int, ...]) -> None:
    layer, other = torch.randn(own), torch.randn(theirs)
    evidence = some_evidence(6, layers={"a": layer})
    evidence = evidence.replace(others={"teacher": some_evidence(6, layers={"b": other})})
    objective = Variational((LayerPair("a", "b", 3, 5),), strength=0.7)
    nn.init.normal_(objective.variances[0])
    if layer.ndim == 4:
        other = nn.functional.adaptive_avg_pool2d(other, layer.shape[2:])
    if layer.ndim == 2 and other.ndim == 4:
        other = other.mean((2, 3))
    if layer.ndim == 2 and other.ndim == 3:
        other = other.mean(1)
    variances = nn.functional.softplus(objective.variances[0]) + 1e-5
    plain = Distillation()(evidence)
    for place in range(6):
        channels = layer[place].flatten(1).T if layer.ndim == 4 else layer[place].reshape(-1, 3)
        means = objective.heads[0](channels).flatten().tolist()
        targets = (other[place].flatten(1).T if other.ndim == 4 else other[place]).flatten().tolist()
        repeated = variances.tolist() * (len(means) // 5)
        expected = plain[place].item() + 0.7 * slow.variational(means, targets, repeated)
        assert objective(evidence)[place].item() == pytest.approx(expected, rel=1e-4)


def test_vid_trains_its_heads_and_tells_the_layers_better_and_better() -> None:
    recipe = Recipe(objective=Variational(PAIRS), each_epoch=once(Debias()))
    quick = partial(torch.optim.Adam, lr=0.02)
    found = run(recipe, teacher=WIDER, epochs=30, optimizer=quick)
    assert found.history[-1]["loss"] < found.history[0]["loss"] - 0.5
    again = run(recipe, teacher=WIDER, epochs=30, optimizer=quick)
    assert_same_run(found, again)
    assert pairs_between(net(), WIDER, {"1": "1", "4": "3"}, torch.zeros(1, 1, 4, 4)) == PAIRS


def test_a_term_beside_an_objective_declares_what_that_one_reads() -> None:
    inner = Variational(PAIRS)
    term = NearUniform(0.0, inner)
    for name in ("needs", "columns", "layers", "teacher_layers"):
        assert getattr(term, name) == getattr(inner, name)
    ours, theirs = (run(Recipe(objective=each), teacher=WIDER, epochs=1).history[-1]["loss"] for each in (term, inner))
    assert ours == theirs


def test_whoever_no_step_visited_is_swept_with_the_teacher_beside() -> None:
    found = run(Recipe(objective=Variational(PAIRS)), teacher=WIDER, epochs=1)  # 4 of 44 remain
    rows = found.ledger.to_pandas()
    assert (~rows.visited).sum() == 4
    assert rows.loss.notna().all()


def test_a_streamed_set_has_a_teacher_too() -> None:
    train = replace(streamed(TAUGHT), columns=said(TAUGHT).columns)
    found = run(Recipe(each_epoch=Debias()), train, validation=said(KNOWN), epochs=2)
    assert_same_run(found, run(Recipe(each_epoch=Debias()), said(TAUGHT), validation=said(KNOWN), epochs=2))


def test_another_teacher_makes_another_run(tmp_path: Any) -> None:
    settings: dict[str, Any] = {"out": tmp_path / "a", "validation": said(KNOWN)}
    run(Recipe(each_epoch=Debias()), said(TAUGHT), **settings)
    run(Recipe(each_epoch=Debias()), said(TAUGHT), **settings)
    with pytest.raises(ThresherError, match="its train set differs"):
        run(Recipe(each_epoch=Debias()), said(TAUGHT, net(seed=9)), **settings)


@pytest.mark.parametrize(
    ("recipe", "changes", "what"),
    [
        (Recipe(each_epoch=Debias()), {"teacher": None}, "teacher_output"),
        (Recipe(each_epoch=Debias()), {"validation": None}, "validation=Examples"),
        (Recipe(each_epoch=Debias()), {"train": TRAIN}, "from_teacher"),
        (Recipe(each_epoch=Debias()), {"train": said(TAUGHT), "teacher": None}, "validation set lacks its teacher"),
        (Recipe(each_batch=Debias()), {}, "each_epoch"),
        (Recipe(objective=Variational(PAIRS)), {"train": said(TAUGHT), "teacher": None}, "pass the network itself"),
        (Recipe(objective=Variational((LayerPair("1", "9", 8, 3),))), {}, "teacher's layer '9'"),
        (Recipe(objective=Variational((LayerPair("9", "1", 8, 3),))), {}, "the layer '9'"),
        (
            Recipe(objective=Variational(PAIRS), each_batch=KeepSmallest(by=signals.gradient_norm, fraction=0.5)),
            {},
            "through outputs alone",
        ),
    ],
)
def test_what_a_teacher_cannot_say_is_refused_at_the_start(recipe: Recipe, changes: dict[str, Any], what: str) -> None:
    with pytest.raises(ThresherError, match=what):
        run(recipe, **({"teacher": WIDER} | changes))


def test_a_column_of_the_wrong_shape_is_refused() -> None:
    narrow = said(TAUGHT).with_columns(**{TEACHER_OUTPUT: torch.zeros(44, 2)})
    with pytest.raises(ThresherError, match=r"make it \[44, 3\]"):
        run(Recipe(each_epoch=Debias()), narrow, validation=said(KNOWN))
    for wrong in (lambda: Variational(()), lambda: Variational(PAIRS, strength=-1.0)):
        with pytest.raises(ThresherError, match="at least one pair"):
            wrong()
    with pytest.raises(ThresherError, match="no layer 'x' in Sequential: choose one of 0, 1, 2"):
        pairs_between(net(), WIDER, {"x": "1"}, torch.zeros(1, 1, 4, 4))
    odd = nn.Sequential(nn.Flatten(), nn.Unflatten(1, (2, 2, 2, 2)), nn.Flatten(), nn.Linear(16, 3))
    with pytest.raises(ThresherError, match="Layer '1' of Sequential gives no vector"):
        pairs_between(odd, WIDER, {"1": "1"}, torch.zeros(1, 1, 4, 4))


def test_nothing_waits_for_the_device_while_a_teacher_is_asked() -> None:
    evidence = some_evidence(6, "soft", layers={"a": torch.randn(6, 3, 2, 2)})
    evidence = evidence.replace(others={"teacher": some_evidence(6, layers={"b": torch.randn(6, 5, 4, 4)})})
    objective = Variational((LayerPair("a", "b", 3, 5),), temperature=2.0)
    with NoWaiting():
        objective(evidence)
        Distillation(0.5)(evidence)
