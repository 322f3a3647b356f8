"""Signals and evidence: equal to slow references, computed once, and never attached to a graph."""

from typing import Any

import pytest
import torch
from reference import signals as reference
from some_evidence import TASKS, same_but, some_evidence
from torch import Tensor, nn
from torch.nn import functional

from thresher import signals
from thresher.core.errors import ThresherError
from thresher.core.evidence import Evidence, Signal, Swept
from thresher.core.schedules import ramp
from thresher.objectives import CrossEntropy, Objective, Plain, PositionCrossEntropy, SquaredError, as_objective

LABELLED = ("classes", "soft")


def rows(evidence: Evidence) -> list[tuple[list[float], list[float]]]:
    """(outputs, target) of each example as lists; class ids are written as one-hot rows."""
    targets = evidence.targets
    if targets.ndim == 1:
        targets = torch.stack([torch.eye(4)[label] for label in targets])
    return list(zip(evidence.outputs.double().tolist(), targets.double().tolist(), strict=True))


def loss_of(task: str) -> Any:
    return reference.squared_error if task == "real" else reference.cross_entropy


def gradient_of(task: str) -> Any:
    return reference.squared_error_gradient if task == "real" else reference.cross_entropy_gradient


def assert_close(value: Tensor, expected: list[Any]) -> None:
    torch.testing.assert_close(value.double(), torch.tensor(expected, dtype=torch.float64), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("n", [1, 2, 17])
def test_loss_and_output_gradient_equal_the_formulas(task: str, n: int) -> None:
    evidence = some_evidence(n, task)
    assert_close(evidence.read(signals.loss), [loss_of(task)(*row) for row in rows(evidence)])
    gradients = [gradient_of(task)(*row) for row in rows(evidence)]
    assert_close(evidence.read(signals.output_gradient), gradients)
    assert_close(evidence.read(signals.output_gradient_norm), [reference.length(row) for row in gradients])


@pytest.mark.parametrize("task", LABELLED)
def test_signals_of_the_predicted_probabilities_equal_the_formulas(task: str) -> None:
    evidence = some_evidence(17, task)
    outputs = [row for row, _ in rows(evidence)]
    assert_close(evidence.read(signals.confidence), [reference.confidence(row) for row in outputs])
    assert_close(evidence.read(signals.margin), [reference.margin(row) for row in outputs])
    assert_close(evidence.read(signals.entropy), [reference.entropy(row) for row in outputs])
    assert evidence.read(signals.predicted).tolist() == [reference.predicted(row) for row in outputs]
    assert evidence.read(signals.given).tolist() == [reference.given(target) for _, target in rows(evidence)]
    assert_close(evidence.read(signals.p_given), [reference.p_given(*row) for row in rows(evidence)])


def test_probabilities_are_safe_for_huge_outputs() -> None:
    evidence = some_evidence(2, raw_outputs=torch.tensor([[1e4, 0, 0, -1e4], [3e38, -3e38, 0, float("-inf")]]))
    for signal in (signals.confidence, signals.margin):
        assert evidence.read(signal).tolist() == [1.0, 1.0]
    assert evidence.read(signals.entropy).tolist() == [0.0, 0.0]


class Crooked(Objective):
    """An objective with a parameter and a batch quantity, to differ from every built-in formula."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(1.7))

    def forward(self, evidence: Evidence) -> Tensor:
        centre = evidence.outputs.detach().mean(0)
        return (self.scale * (evidence.outputs - centre)).sin().square().sum(1)


@pytest.mark.parametrize("attached", [False, True])
@pytest.mark.parametrize("enabled", [False, True])
def test_output_gradient_is_of_the_recipes_own_objective(attached: bool, enabled: bool) -> None:
    raw = some_evidence(6).outputs
    leaf = raw.clone().requires_grad_()
    expected = torch.stack(
        [torch.autograd.grad(((1.7 * (row - raw.mean(0))).sin() ** 2).sum(), leaf)[0][i] for i, row in enumerate(leaf)]
    )
    with torch.set_grad_enabled(enabled):
        outputs = leaf * 1 if attached else raw
        evidence = some_evidence(6, raw_outputs=outputs, objective=Crooked())
        found = evidence.read(signals.output_gradient)
    torch.testing.assert_close(found, expected)
    assert not found.requires_grad


def test_reading_output_gradients_leaves_the_graph_usable_before_and_after_a_backward_pass() -> None:
    model = nn.Linear(3, 4)
    inputs = torch.arange(12.0).view(4, 3)
    evidence = some_evidence(4, raw_outputs=model(inputs))
    before = evidence.read(signals.output_gradient)
    evidence.losses.sum().backward()
    after = same_but(evidence, raw_outputs=evidence.outputs, known={}).read(signals.output_gradient)
    again = evidence.replace(known=evidence.known | {}).read(signals.output_gradient_norm)
    assert torch.equal(before, after)
    torch.testing.assert_close(again, before.norm(dim=1))
    torch.testing.assert_close(model.weight.grad, before.T @ inputs)


def test_a_spent_graph_does_not_stop_a_signal_that_was_not_read_before() -> None:
    model = nn.Linear(3, 4)
    evidence = some_evidence(4, raw_outputs=model(torch.ones(4, 3)))
    torch.autograd.grad(evidence.losses.sum(), model.weight)
    expected = same_but(evidence, raw_outputs=evidence.outputs.detach()).read(signals.output_gradient)
    assert torch.equal(evidence.read(signals.output_gradient), expected)


def test_a_signal_is_computed_once_and_what_it_was_computed_from_may_not_change_under_it() -> None:
    calls = []

    def count(evidence: Evidence) -> Tensor:
        calls.append(1)
        return evidence.losses * 2

    signal = Signal("counted", count)
    evidence = some_evidence(5)
    first = evidence.read(signal)
    assert evidence.read(signal) is first
    assert evidence.replace(groups=torch.zeros(5).long(), memory={"a": torch.ones(1)}).read(signal) is first
    assert len(calls) == 1
    other = evidence.replace(targets=(evidence.targets + 1) % 4)
    assert not torch.equal(other.read(signal), first)
    assert not torch.equal(evidence.replace(raw_outputs=evidence.outputs * 3).read(signal), first)
    assert not torch.equal(evidence.replace(objective=Crooked()).read(signal), first)
    assert torch.equal(evidence.read(signal), first)


def test_signals_are_detached_but_losses_are_not() -> None:
    evidence = some_evidence(5, raw_outputs=some_evidence(5).outputs.requires_grad_())
    for signal in (signals.loss, signals.confidence, signals.margin, signals.entropy, signals.p_given):
        assert not evidence.read(signal).requires_grad
    assert evidence.losses.requires_grad


@pytest.mark.parametrize("signal", [signals.gradient_norm, signals.features])
def test_a_prepared_signal_that_nobody_declared_says_so(signal: Signal) -> None:
    with pytest.raises(ThresherError, match="declare"):
        some_evidence(3, known={}).read(signal)


def test_a_sweep_happens_once_when_first_needed_and_brings_the_declared_signals() -> None:
    swept = []
    full = some_evidence(6)

    def sweep() -> Swept:
        swept.append(1)
        return Swept(full.outputs, {signals.gradient_norm: torch.arange(6.0)})

    lazy = Evidence(full.ids, full.targets, CrossEntropy(), sweep, classes=4)
    assert not swept
    assert lazy.read(signals.gradient_norm).tolist() == [0, 1, 2, 3, 4, 5]
    assert torch.equal(lazy.read(signals.loss), full.read(signals.loss))
    assert len(swept) == 1


@pytest.mark.parametrize("task", TASKS)
def test_evidence_at_some_positions_is_the_evidence_about_those_examples(task: str) -> None:
    whole = some_evidence(9, task, columns={"place": torch.arange(9)}, layers={"a": torch.arange(18).view(9, 2)})
    whole = whole.replace(groups=torch.arange(9) % 2, inputs=torch.arange(9) * 10)
    picked = torch.tensor([7, 0, 3])
    for read_first in (False, True):
        evidence = same_but(whole)
        if read_first:
            evidence.read(signals.output_gradient)
            evidence.read(signals.loss)
        part = evidence.subset(picked)
        assert torch.equal(part.ids, whole.ids[picked])
        assert torch.equal(part.targets, whole.targets[picked])
        assert torch.equal(part.outputs, whole.outputs[picked])
        assert part.columns["place"].tolist() == [7, 0, 3]
        assert part.layer("a").tolist() == [[14, 15], [0, 1], [6, 7]]
        assert part.groups is not None
        assert part.groups.tolist() == [1, 0, 1]
        assert part.inputs is not None
        assert part.inputs.tolist() == [70, 0, 30]
        for signal in (signals.loss, signals.output_gradient, signals.gradient_norm, signals.features):
            torch.testing.assert_close(part.read(signal), whole.read(signal)[picked])


def test_a_setting_is_a_number_or_a_schedules_value_now() -> None:
    evidence = some_evidence(3, epoch=5, epochs=20.0)
    assert evidence.value(0.25) == 0.25
    value = evidence.value(ramp(1.0, 0.0, epochs=10))
    assert isinstance(value, Tensor)
    assert value == 0.5


def test_missing_evidence_names_what_to_give() -> None:
    evidence = some_evidence(3)
    for name, fix in (("peer", "peers=2"), ("average", "average=0.999"), ("clean", "clean=")):
        with pytest.raises(ThresherError, match=fix):
            evidence.other(name)
    with pytest.raises(ThresherError, match="layers"):
        evidence.layer("body")


def test_plain_functions_and_modules_become_objectives_of_ones_own() -> None:
    evidence = some_evidence(5)
    by_function = as_objective(lambda *given: functional.cross_entropy(*given, reduction="none"), "classification")
    by_module = as_objective(nn.CrossEntropyLoss(reduction="none"), "classification")
    expected = as_objective(None, "classification")(evidence)
    assert isinstance(by_function, Plain)
    assert torch.equal(by_function(evidence), expected)
    assert torch.equal(by_module(evidence), expected)
    assert isinstance(as_objective(None, "regression"), SquaredError)


@pytest.mark.parametrize("given", [Crooked(), nn.PReLU()])
def test_two_networks_never_share_the_parameters_of_an_objective(given: nn.Module) -> None:
    first, second = as_objective(given, "classification"), as_objective(given, "classification")
    with torch.no_grad():
        next(first.parameters()).fill_(9.0)
    assert next(second.parameters()).item() != 9.0
    assert next(given.parameters()).item() != 9.0


@pytest.mark.parametrize("reduced", [nn.CrossEntropyLoss(), nn.MSELoss(reduction="none")])
def test_an_objective_that_does_not_give_one_loss_for_each_example_is_refused(reduced: nn.Module) -> None:
    task = "real" if isinstance(reduced, nn.MSELoss) else "classes"
    with pytest.raises(ThresherError, match="reduction"):
        some_evidence(5, task, objective=as_objective(reduced, "classification")).read(signals.loss)


def test_replaced_evidence_forgets_what_came_of_old_outputs_and_refuses_fields_it_has_not() -> None:
    evidence = some_evidence(5)
    losses = evidence.losses
    assert evidence.replace(epoch=3).losses is losses
    assert evidence.replace(epoch=3).epoch == 3
    again = evidence.replace(raw_outputs=evidence.outputs + 1.0, known={"marked": losses})
    assert again.known.keys() == {"marked"}
    assert not evidence.replace(targets=evidence.targets.flip(0)).known
    with pytest.raises(TypeError, match="epok"):
        evidence.replace(epok=3)


class OnlyNorms(PositionCrossEntropy):
    """An objective of large outputs that would have to be asked for all gradients at once."""

    def output_gradient(self, evidence: Evidence) -> Tensor:  # noqa: ARG002
        raise AssertionError("all gradients at once")


def test_an_objective_that_finds_norms_is_not_asked_for_all_gradients_at_once() -> None:
    outputs, targets = torch.randn(3, 4, 6), torch.randint(0, 6, (3, 4))
    norms = some_evidence(3).replace(objective=OnlyNorms(), raw_outputs=outputs, targets=targets)
    asked = norms.replace(objective=PositionCrossEntropy())
    expected = torch.linalg.vector_norm(asked.read(signals.output_gradient), dim=1)
    torch.testing.assert_close(norms.read(signals.output_gradient_norm), expected)
