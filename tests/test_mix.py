"""Mixing, relabelling and drawing: what they blend, whom they trust, how often they visit."""

from typing import Any

import pytest
import torch
from some_evidence import some_evidence
from test_views import NoWaiting
from tiny import examples, net
from torch import Tensor

from thresher import Recipe, fit, signals
from thresher.core.errors import ThresherError
from thresher.core.examples import Examples
from thresher.core.recipe import Pairing
from thresher.core.rule import needs_of
from thresher.core.targets import one_hot_if_ids
from thresher.objectives import Distillation, Objective, Reweighted
from thresher.rules import KeepSmallest
from thresher.slots.draw import class_balanced, shuffled
from thresher.slots.mix import Mixup, beta
from thresher.slots.relabel import AverageLabels


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("shape", [(5,), (5, 3), (5, 2, 3, 4)])
def test_a_pairing_blends_each_row_with_its_partners(shape: tuple[int, ...]) -> None:
    values, partner, share = torch.rand(shape, generator=seeded()), [3, 0, 2, 4, 1], [0.0, 1.0, 0.25, 0.5, 0.9]
    blended = Pairing(torch.tensor(partner), torch.tensor(share)).blend(values)
    for i in range(5):
        torch.testing.assert_close(blended[i], share[i] * values[i] + (1 - share[i]) * values[partner[i]])


def test_labels_are_blended_as_far_as_their_examples_count() -> None:
    """Cross entropy with the blended label and weight is the sum of both examples' weighted losses."""
    draws = seeded()
    labels, weights = torch.rand(6, 3, generator=draws).softmax(1), torch.tensor([0.0, 0.0, 1.0, 2.0, 0.5, 0.0])
    pairing = Pairing(torch.tensor([5, 2, 1, 0, 3, 4]), torch.tensor([0.3, 0.9, 0.5, 1.0, 0.25, 0.0]))
    logs = torch.randn(6, 3, generator=draws).log_softmax(1)
    totals = pairing.blend(weights) * -(pairing.blend_by_weight(labels, weights) * logs).sum(1)
    for i, (j, share) in enumerate(zip(pairing.partner.tolist(), pairing.share.tolist(), strict=True)):
        own, other = (-(labels[k] * logs[i]).sum() for k in (i, j))
        torch.testing.assert_close(totals[i], share * weights[i] * own + (1 - share) * weights[j] * other)
    torch.testing.assert_close(pairing.blend_by_weight(labels, torch.full((6,), 2.0)), pairing.blend(labels))


def test_labels_of_whom_nobody_counts_are_blended_as_they_are() -> None:
    """An objective that divides by a label's sum, or takes its logarithm, must find one there."""
    pairing = Pairing(torch.tensor([1, 0, 2]), torch.tensor([0.25, 0.5, 0.5]))
    weights = torch.tensor([0.0, 0.0, 1.0])
    with NoWaiting():
        blended = pairing.blend_by_weight(torch.eye(3), weights)
    assert blended.tolist() == [[0.25, 0.75, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]


@pytest.mark.parametrize(
    "objective", [Distillation(2.0), Reweighted(torch.eye(3) * 0.7 + 0.1)], ids=["distillation", "reweighted"]
)
def test_mixup_trains_where_a_rule_drops_both_partners(objective: Objective) -> None:
    recipe = Recipe(each_batch=KeepSmallest(by=signals.loss, fraction=0.5), objective=objective, mix=Mixup())
    model = fit(recipe, net, examples(), epochs=1, batch=8, device="cpu").model
    assert all(parameter.isfinite().all() for parameter in model.parameters())


def test_mixup_pairs_a_batch_by_a_permutation_and_one_share_from_the_runs_generator() -> None:
    evidence = some_evidence(50, generator=seeded(1))
    state = torch.get_rng_state()
    first, second = Mixup(0.4)(evidence), Mixup(0.4)(evidence)
    again = Mixup(0.4)(some_evidence(50, generator=seeded(1)))
    assert sorted(first.partner.tolist()) == list(range(50))
    assert first.share.shape == (50,)
    assert first.share.dtype == torch.float32
    assert len(first.share.unique()) == 1
    assert 0 <= float(first.share[0]) <= 1
    assert torch.equal(first.partner, again.partner)
    assert torch.equal(first.share, again.share)
    assert not torch.equal(first.partner, second.partner)
    assert not torch.equal(first.share, second.share)
    assert torch.equal(torch.get_rng_state(), state)


def test_mixup_on_one_example_changes_nothing_and_never_waits() -> None:
    with NoWaiting():
        pairing = Mixup()(some_evidence(1, generator=seeded()))
        blended = pairing.blend(torch.tensor([[2.0, 3.0]]))
    assert blended.tolist() == [[2.0, 3.0]]


@pytest.mark.parametrize("alpha", [0.01, 0.2, 1.0, 8.0])
def test_beta_draws_have_the_distributions_mean_spread_and_middle(alpha: float) -> None:
    generator = seeded()
    draws = torch.stack([beta(alpha, alpha, generator, torch.device("cpu")) for _ in range(3000)])
    theory = torch.distributions.Beta(torch.tensor(alpha).double(), torch.tensor(alpha).double())
    assert float(draws.mean()) == pytest.approx(0.5, abs=0.03)
    assert float(draws.var()) == pytest.approx(float(theory.variance), rel=0.1)
    points = torch.linspace(0.4, 0.6, 2001, dtype=torch.float64)
    middle = float(torch.trapezoid(theory.log_prob(points).exp(), points))
    assert float(((draws > 0.4) & (draws < 0.6)).double().mean()) == pytest.approx(middle, abs=0.025)


def test_beta_is_not_symmetric_in_its_two_numbers() -> None:
    generator = seeded()
    draws = torch.stack([beta(3.0, 1.0, generator, torch.device("cpu")) for _ in range(1000)])
    assert float(draws.mean()) == pytest.approx(0.75, abs=0.03)


@pytest.mark.parametrize("alpha", [0.0, -1.0, float("nan")])
def test_mixup_refuses_what_is_no_beta_distribution(alpha: float) -> None:
    with pytest.raises(ThresherError, match="alpha"):
        Mixup(alpha)


def test_class_ids_are_blended_as_one_hot_rows_and_other_targets_as_they_are() -> None:
    assert one_hot_if_ids(torch.tensor([2, 0]), 3).tolist() == [[0, 0, 1], [1, 0, 0]]
    for targets, classes in ((torch.rand(4, 3), 3), (torch.rand(4, 2), None)):
        assert one_hot_if_ids(targets, classes) is targets


def relabelled(rule: AverageLabels, task: str, outputs: Tensor, targets: Tensor) -> Tensor:
    own = some_evidence(len(targets), task, width=outputs.shape[1], targets=targets)
    average = own.replace(raw_outputs=outputs)
    return rule(own.replace(others={"average": average}))


def test_average_labels_trusts_the_given_label_where_the_average_agrees_and_sharpens_where_not() -> None:
    outputs = torch.tensor([[2.0, 0.0, 1.0], [2.0, 0.0, 1.0], [0.0, 0.5, 0.0]])
    found = relabelled(AverageLabels(trust=0.8, temperature=0.5), "classes", outputs, torch.tensor([0, 2, 1]))
    p = [row.exp() / row.exp().sum() for row in outputs]
    sharp = p[1] ** 2 / (p[1] ** 2).sum()
    torch.testing.assert_close(found[0], torch.tensor([0.8, 0.0, 0.0]) + 0.2 * p[0])
    torch.testing.assert_close(found[1], sharp)
    torch.testing.assert_close(found[2], torch.tensor([0.0, 0.8, 0.0]) + 0.2 * p[2])
    torch.testing.assert_close(found.sum(1), torch.ones(3))


def test_average_labels_takes_soft_labels_and_real_targets() -> None:
    outputs = torch.tensor([[2.0, 0.0], [0.0, 2.0]])
    soft = torch.tensor([[0.7, 0.3], [0.6, 0.4]])
    found = relabelled(AverageLabels(0.5, 1.0), "soft", outputs, soft)
    torch.testing.assert_close(found, torch.stack([(soft[0] + outputs[0].softmax(0)) / 2, outputs[1].softmax(0)]))
    real = relabelled(AverageLabels(0.75), "real", outputs, torch.ones(2, 2))
    torch.testing.assert_close(real, 0.75 * torch.ones(2, 2) + 0.25 * outputs)


def test_average_labels_with_full_trust_and_agreement_changes_nothing() -> None:
    targets = torch.tensor([1, 0, 2])
    found = relabelled(AverageLabels(trust=1.0), "classes", torch.eye(3)[targets] * 4, targets)
    assert torch.equal(found, torch.eye(3)[targets])


def test_average_labels_declares_the_average_and_says_how_to_give_it() -> None:
    assert needs_of(AverageLabels()) == {"average"}
    with pytest.raises(ThresherError, match="average"):
        AverageLabels()(some_evidence(3))


@pytest.mark.parametrize("settings", [{"trust": 1.1}, {"trust": -0.1}, {"temperature": 0.0}])
def test_average_labels_refuses_settings_that_mean_nothing(settings: dict[str, Any]) -> None:
    with pytest.raises(ThresherError):
        AverageLabels(**settings)


def test_shuffled_visits_everyone_once_in_an_order_of_the_generator() -> None:
    examples = Examples(torch.zeros(20, 1), torch.arange(20) % 3)
    positions = torch.arange(3, 17)
    first, second = shuffled(positions, examples, seeded()), shuffled(positions, examples, seeded(1))
    assert sorted(first.tolist()) == positions.tolist()
    assert torch.equal(first, shuffled(positions, examples, seeded()))
    assert not torch.equal(first, second)
    assert not torch.equal(first, positions)


@pytest.mark.parametrize("soft", [False, True])
def test_class_balanced_draws_as_often_as_there_are_examples_and_every_class_alike(soft: bool) -> None:
    labels = torch.cat([torch.zeros(900).long(), torch.full((90,), 2), torch.full((10,), 1), torch.full((5,), 3)])
    targets = torch.eye(4)[labels] if soft else labels
    examples = Examples(torch.zeros(len(labels), 1), targets, classes=4)
    positions = torch.arange(len(labels) - 5)  # nobody of class 3
    drawn = class_balanced(positions, examples, seeded())
    assert len(drawn) == 1000
    shares = torch.bincount(labels[drawn], minlength=4) / 1000
    torch.testing.assert_close(shares, torch.tensor([1 / 3, 1 / 3, 1 / 3, 0.0]), atol=0.05, rtol=0)
    assert torch.equal(drawn, class_balanced(positions, examples, seeded()))


def test_class_balanced_refuses_real_targets() -> None:
    examples = Examples(torch.zeros(4, 1), torch.rand(4))
    with pytest.raises(ThresherError, match="choose another draw"):
        class_balanced(torch.arange(4), examples, seeded())
