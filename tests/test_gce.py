"""The generalized cross entropy: its limits, its gradient, and what it is as a method."""

import pytest
import torch
from some_evidence import some_evidence
from tiny import examples, net
from torch import Tensor

from thresher import Recipe, ThresherError, fit, signals
from thresher.core.evidence import Evidence
from thresher.methods import method
from thresher.objectives import CrossEntropy, GeneralizedCrossEntropy
from thresher.rules import KeepAbove, warmup

TASKS = ("classes", "soft")


def about(task: str, q: float, scale: float = 3.0) -> Evidence:
    evidence = some_evidence(40, task, width=5, seed=1)
    return evidence.replace(raw_outputs=scale * evidence.outputs.double(), objective=GeneralizedCrossEntropy(q))


def share(evidence: Evidence) -> Tensor:
    """What each target gives to each class [n, classes]."""
    given = evidence.targets
    return given.double() if given.ndim == 2 else torch.eye(5, dtype=torch.float64)[given]


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("q", [0.1, 0.7, 1.0])
def test_losses_are_the_formula(task: str, q: float) -> None:
    evidence = about(task, q)
    expected = (share(evidence) * (1 - evidence.outputs.softmax(1) ** q) / q).sum(1)
    torch.testing.assert_close(evidence.losses, expected)
    assert (evidence.losses <= 1 / q + 1e-12).all()


@pytest.mark.parametrize("task", TASKS)
def test_a_small_q_is_cross_entropy(task: str) -> None:
    evidence = about(task, 1e-9)
    torch.testing.assert_close(evidence.losses, CrossEntropy()(evidence), rtol=1e-6, atol=1e-9)
    gradient = evidence.read(signals.output_gradient)
    torch.testing.assert_close(gradient, CrossEntropy().output_gradient(evidence), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("task", TASKS)
def test_q_of_one_is_one_minus_the_probability(task: str) -> None:
    evidence = about(task, 1.0)
    torch.testing.assert_close(evidence.losses, 1 - (share(evidence) * evidence.outputs.softmax(1)).sum(1))


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("q", [0.3, 0.7, 1.0])
def test_the_output_gradient_is_that_of_autograd_and_of_the_closed_form(task: str, q: float) -> None:
    evidence = about(task, q)
    leaf = evidence.outputs.clone().requires_grad_()
    p = leaf.softmax(1)
    (expected,) = torch.autograd.grad((share(evidence) * (1 - p**q) / q).sum(), leaf)
    gradient = evidence.read(signals.output_gradient)
    torch.testing.assert_close(gradient, expected)
    weighted = share(evidence) * p.detach() ** q  # p^q times that of cross entropy, class by class
    torch.testing.assert_close(gradient, p.detach() * weighted.sum(1, keepdim=True) - weighted)


@pytest.mark.parametrize("q", [1e-6, 0.7, 1.0])
def test_outputs_of_any_size_give_finite_losses_and_gradients(q: float) -> None:
    evidence = about("classes", q, scale=1e4)
    evidence = evidence.replace(raw_outputs=evidence.outputs.float())
    assert evidence.losses.isfinite().all()
    assert evidence.read(signals.output_gradient).isfinite().all()


def test_a_wrong_label_pulls_less_than_by_cross_entropy() -> None:
    targets = torch.tensor([0, 0])
    outputs = torch.tensor([[0.0, 0.0, 0.0], [-4.0, 4.0, 0.0]])  # unsure, and sure of another class
    found = {}
    for objective in (CrossEntropy(), GeneralizedCrossEntropy()):
        evidence = some_evidence(2, width=3, targets=targets, raw_outputs=outputs, objective=objective)
        found[type(objective)] = evidence.read(signals.output_gradient_norm)
    assert found[CrossEntropy][1] > found[CrossEntropy][0]
    assert found[GeneralizedCrossEntropy][1] < 0.1 * found[GeneralizedCrossEntropy][0]


@pytest.mark.parametrize("q", [0.0, -0.5, 1.1])
def test_what_is_no_q(q: float) -> None:
    with pytest.raises(ThresherError, match="give a number above 0 and at most 1"):
        GeneralizedCrossEntropy(q)
    with pytest.raises(ThresherError, match="q=nan is not a number: give a number"):
        GeneralizedCrossEntropy(float("nan"))


def test_the_method_and_its_truncated_form() -> None:
    objective = method("gce").recipe(classes=3).objective
    assert repr(objective) == "GeneralizedCrossEntropy(q=0.7)"
    truncated = Recipe(objective=objective, each_batch=warmup(1, KeepAbove(by="p_given", bound=0.5)))
    run = fit(truncated, net(seed=0), examples(), epochs=3, batch=11, device="cpu")
    table = run.ledger.table(["epoch", "kept"]).to_pydict()
    kept = [sum(k for e, k in zip(table["epoch"], table["kept"], strict=True) if e == epoch) for epoch in (1, 2, 3)]
    assert kept[0] == 44
    assert 0 < kept[1] < 44
