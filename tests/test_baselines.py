"""What CRUST is compared with: transitions, the determinant, dimensionality and noisy cross-validation."""

import subprocess
import sys
from typing import Any

import pytest
import torch
from reference import baselines
from some_evidence import some_evidence
from tiny import examples, net
from tiny import trainer as make_trainer
from torch import Tensor

from thresher import Recipe, ThresherError, fit
from thresher.core.evidence import Evidence
from thresher.corruption import corrupt
from thresher.data import blobs
from thresher.methods import METHODS, Trainer, incv
from thresher.methods.incv import noise_rate_from_agreement, select_examples, wrong_among_selected
from thresher.models.__init__ import MLP
from thresher.objectives import (
    CrossEntropy,
    DeterminantLoss,
    ForwardCorrection,
    NoiseLayer,
    Reweighted,
    transition_from_anchors,
)
from thresher.rules import Dimensionality, Selected, ask, local_dimensionality
from thresher.slots.relabel import PredictedLabels


def about(outputs: Tensor, targets: Tensor) -> Evidence:
    return some_evidence(len(outputs), "classes", width=outputs.shape[1], targets=targets).replace(raw_outputs=outputs)


def drawn(n: int, classes: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    draws = torch.Generator().manual_seed(seed)
    outputs = torch.randn(n, classes, generator=draws, dtype=torch.float64)
    return outputs, torch.randint(0, classes, (n,), generator=draws)


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_the_determinant_loss_has_the_mean_and_the_gradient_of_the_direct_one(classes: int) -> None:
    outputs, targets = drawn(20 * classes, classes)
    leaf, twin = outputs.clone().requires_grad_(), outputs.clone().requires_grad_()
    ours = DeterminantLoss()(about(leaf, targets)).mean()
    theirs = baselines.determinant_loss(twin, targets)
    torch.testing.assert_close(ours.double(), theirs, rtol=1e-5, atol=1e-5)
    (gradient,) = torch.autograd.grad(ours, leaf)
    (expected,) = torch.autograd.grad(theirs, twin)
    torch.testing.assert_close(gradient, expected, rtol=1e-4, atol=1e-6 * float(expected.abs().max()))
    assert expected.abs().max() > 1e-4


@pytest.mark.parametrize("n", [1, 2, 5])
def test_a_batch_without_some_class_teaches_nothing_and_breaks_nothing(n: int) -> None:
    outputs, targets = drawn(n, 10)
    leaf = outputs.clone().requires_grad_()
    losses = DeterminantLoss()(about(leaf, targets))
    assert losses.isfinite().all()
    (gradient,) = torch.autograd.grad(losses.mean(), leaf)
    assert gradient.abs().max() < 1e-6


def test_the_determinant_loss_is_blind_to_a_permutation_of_the_labels() -> None:
    outputs, targets = drawn(60, 4)
    plain, turned = (DeterminantLoss()(about(outputs, labels)).mean() for labels in (targets, (targets + 1) % 4))
    torch.testing.assert_close(plain, turned)


def test_forward_correction_through_the_identity_is_cross_entropy_and_a_noise_layer_that_does_not_move() -> None:
    outputs, targets = drawn(30, 4)
    evidence = about(outputs.float(), targets)
    torch.testing.assert_close(ForwardCorrection(torch.eye(4))(evidence), CrossEntropy()(evidence))
    transition = torch.full((4, 4), 0.1).fill_diagonal_(0.7)
    torch.testing.assert_close(ForwardCorrection(transition)(evidence), NoiseLayer(transition)(evidence))
    soft = torch.rand(30, 4).softmax(1)
    through = (outputs.float().softmax(1) @ transition).log()
    torch.testing.assert_close(ForwardCorrection(transition)(evidence.replace(targets=soft)), -(soft * through).sum(1))


@pytest.mark.parametrize("revised", [False, True])
def test_reweighted_losses_and_who_may_change_them(revised: bool) -> None:
    outputs, targets = drawn(12, 3)
    transition = torch.tensor([[0.8, 0.1, 0.1], [0.3, 0.6, 0.1], [0.0, 0.5, 0.5]])
    objective, leaf = Reweighted(transition, revised=revised), outputs.float().requires_grad_()
    losses = objective(about(leaf, targets))
    torch.testing.assert_close(losses.detach(), torch.tensor(baselines.reweighted_loss(outputs, targets, transition)))
    losses.sum().backward()
    chances = leaf.detach().softmax(1)
    onehot = torch.nn.functional.one_hot(targets, 3)
    shares = ((chances * onehot).sum(1) / ((chances @ transition) * onehot).sum(1))[:, None]
    as_weights = torch.allclose(leaf.grad, shares * (chances - onehot), atol=1e-6)  # type: ignore[arg-type]
    assert as_weights != revised
    changes = list(objective.parameters())
    assert len(changes) == int(revised)
    assert all(change.grad is not None and change.grad.abs().max() > 0 for change in changes)


def test_anchors_are_the_surest_but_for_outliers() -> None:
    probabilities = drawn(200, 5)[0].softmax(1)
    torch.testing.assert_close(
        transition_from_anchors(probabilities), torch.tensor(baselines.anchors(probabilities, 97.0)).double()
    )
    largest = probabilities[probabilities.argmax(0)]
    torch.testing.assert_close(transition_from_anchors(probabilities, 100.0), largest)


WRONG: dict[str, Any] = {
    "not square": (lambda: ForwardCorrection(torch.ones(2, 3) / 3), "A transition is \\[classes, classes\\]"),
    "no probabilities": (lambda: Reweighted(torch.eye(3) * 2), "sum to 1"),
    "too few classes": (lambda: ForwardCorrection(torch.eye(2))(some_evidence(4, "classes")), "make them equal"),
    "no percentile": (lambda: transition_from_anchors(torch.eye(3), 0.0), "at most 100"),
    "no window": (lambda: Dimensionality(window=1), "at least 2"),
    "two points": (lambda: local_dimensionality(torch.zeros(2, 2)), "at least 3"),
    "nobody says a share": (
        lambda: fit(Recipe(relabel=PredictedLabels()), net, examples(), epochs=1, batch=8),
        "such as Dimensionality",
    ),
}


@pytest.mark.parametrize(("make", "words"), WRONG.values(), ids=WRONG.keys())
def test_what_makes_no_sense_is_refused(make: Any, words: str) -> None:
    with pytest.raises(ThresherError, match=words):
        make()


def test_dimensionality_is_that_of_the_points_themselves() -> None:
    points = torch.randn(40, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    expected = torch.tensor(baselines.dimensionality(points, 7), dtype=torch.float64)
    torch.testing.assert_close(local_dimensionality(points, 7), expected)
    flat = torch.cat([points[:, :2], torch.zeros(40, 4)], 1)
    assert local_dimensionality(flat).mean() < local_dimensionality(points).mean()


def test_labels_give_way_once_the_dimensionality_has_risen() -> None:
    rule = Dimensionality(start=1, window=2, neighbours=5)
    line = torch.linspace(0, 1, 300)[:, None].expand(300, 6) ** 1.01
    cloud = torch.rand(300, 6, generator=torch.Generator().manual_seed(1))
    memory: dict[str, Tensor] = {}
    shares = []
    for epoch, points in enumerate([line, line, line, line, cloud, cloud]):
        evidence = some_evidence(300, "classes", generator=torch.Generator().manual_seed(epoch))
        evidence = evidence.replace(known={**evidence.known, rule.by: points}, epoch=epoch, epochs=10.0, memory=memory)
        decision = ask(rule, evidence)
        memory |= decision.memory
        shares.append(float(decision.columns["given_share"][0]))
        assert (decision.weights == 1).all()
    measured = memory["measured"]
    assert shares[:4] == [1.0] * 4
    for epoch in (4, 5):
        expected = torch.exp(-epoch / 10 * measured[epoch] / measured[: epoch + 1].min())
        assert shares[epoch] == pytest.approx(float(expected), rel=1e-5)
        assert shares[epoch] < 0.9


def test_labels_are_shared_with_the_prediction() -> None:
    evidence = some_evidence(3, "classes", width=2, targets=torch.tensor([0, 1, 1]))
    evidence = evidence.replace(raw_outputs=torch.tensor([[0.0, 2.0], [3.0, 0.0], [0.0, 1.0]]))
    evidence = evidence.replace(columns={"given_share": torch.tensor([1.0, 0.25, 0.5])})
    assert PredictedLabels()(evidence).tolist() == [[1.0, 0.0], [0.75, 0.25], [0.0, 1.0]]


def test_selected_ones_are_joined_by_candidates() -> None:
    evidence = some_evidence(9, "classes")
    assert ask(Selected(2), evidence.replace(epoch=1)).weights.tolist() == [1, 0, 0] * 3
    assert ask(Selected(2), evidence.replace(epoch=2)).weights.tolist() == [1, 1, 0] * 3


@pytest.mark.parametrize("rate", [0.0, 0.2, 0.5, 0.8])
def test_the_noise_rate_comes_back_from_the_agreement(rate: float) -> None:
    agreement = (1 - rate) ** 2 + rate**2 / 9
    assert noise_rate_from_agreement(agreement, 10) == pytest.approx(rate, abs=1e-9)
    assert noise_rate_from_agreement(0.0, 10) <= 0.99
    assert wrong_among_selected(rate, 10) <= rate


def trainer(**changes: Any) -> Trainer:
    train, test = blobs(400, 4, 6)
    settings = {"model": lambda: MLP((6,), 4, hidden=(32,)), "train": corrupt(train, "symmetric:0.4", seed=0)}
    return make_trainer({**settings, "test": test, "epochs": 12, "batch": 32, "device": "cpu", **changes})


def test_cross_validation_selects_what_is_clean_and_tells_the_noise_rate() -> None:
    train = trainer(epochs=32)
    found = select_examples(train, iterations=2)
    wrong = train.train.columns["is_corrupt"]
    assert not (found.selected & found.candidate).any()
    assert float(wrong[found.selected].float().mean()) < 0.2, "half of what was there before"
    assert float(found.selected.float().mean()) > 0.4
    assert found.noise_rate == pytest.approx(0.4, abs=0.12)


def test_incv_lets_candidates_in_later_and_keeps_fewer_than_it_sees() -> None:
    run = incv(trainer(epochs=15))
    table = run.ledger.to_pandas()
    early, late = table[table["epoch"] == 2], table[table["epoch"] == 12]
    assert early["visited"].sum() < late["visited"].sum()
    assert late["kept"].sum() < late["visited"].sum()
    assert run.history[-1]["clean_share"] > 0.85
    assert len(run.models) == 2


@pytest.mark.parametrize("name", ["f-correction", "t-revision", "dmi", "incv"])
def test_a_procedure_goes_on_where_it_was_and_takes_steps_too(name: str, tmp_path: Any) -> None:
    steps = {"epochs": None, "steps": 60}
    whole = METHODS[name].train(trainer(**steps))
    begun = METHODS[name].train(trainer(**steps, out=tmp_path / "run"))
    again = METHODS[name].train(trainer(**steps, out=tmp_path / "run"))
    assert whole.scores == begun.scores == again.scores


WITHOUT_PANDAS = """
import sys
from importlib.machinery import ModuleSpec


class NoPandas:
    def find_spec(self, name, path=None, target=None):
        return ModuleSpec(name, self) if name == "pandas" else None

    def create_module(self, spec):
        raise ModuleNotFoundError("No module named 'pandas'", name="pandas")

    exec_module = None


sys.meta_path.insert(0, NoPandas())  # before pyarrow looks for it
from thresher import fit
from thresher.data import blobs
from thresher.models.__init__ import MLP

train, test = blobs(120, 3, 4)
for name in sys.argv[1:]:
    fit(name, lambda: MLP((4,), 3, hidden=(8,)), train, noise_rate=0.2, epochs=4, batch=16, device="cpu")
try:
    import pandas
except ImportError:
    print("without pandas")
"""


def test_procedures_need_no_pandas() -> None:
    names = [name for name, known in METHODS.items() if known.procedure is not None and "clean" not in known.needs]
    assert {"incv", "s-model-conf"} <= set(names)
    command = [sys.executable, "-c", WITHOUT_PANDAS, *names]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == "without pandas\n"
