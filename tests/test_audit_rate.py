"""The noise rate from arrays: that it covers the truth, says where it cannot tell, and what follows from it."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from thresher import ThresherError
from thresher.noise import audit_rate, confident_joint, corrected_accuracy, noise_matrix, residual_rate
from thresher.noise.audit_rate import beyond_chance, contradictions
from thresher.noise.estimate import Estimate
from thresher.noise.noise_matrix import agreement, cautious_matrix, scaled_to
from thresher.noise.residual_rate import inliers

Array = np.ndarray[Any, Any]


def judged(
    rate: float, accuracy: float = 0.9, n: int = 3000, classes: int = 5, pairs: bool = False, seed: int = 0
) -> tuple[Array, Array, Array]:
    """Probabilities of a model that errs where it is unsure, given labels of which a share is wrong, and true ones."""
    draws = np.random.default_rng(seed)
    true = draws.integers(0, classes, n)
    wrong = draws.permutation(n) < rate * n
    labels = np.where(wrong, (true + (1 if pairs else draws.integers(1, classes, n))) % classes, true)
    sure = draws.random(n)  # the surest is always right, the least sure one errs twice as often as they do together
    right = draws.random(n) > 2 * (1 - accuracy) * (1 - sure)
    said = np.where(right, true, (true + draws.integers(1, classes, n)) % classes)
    top = 1 / classes + 0.01 + (0.98 - 1 / classes) * sure
    probabilities = np.repeat(((1 - top) / (classes - 1))[:, None], classes, axis=1)
    probabilities[np.arange(n), said] = top
    return probabilities, labels, true


@pytest.mark.parametrize("accuracy", [0.8, 0.9, 1.0])
@pytest.mark.parametrize("rate", [0.0, 0.1, 0.3])
@pytest.mark.parametrize("pairs", [False, True])
def test_the_interval_covers_the_truth_and_is_not_the_whole_line(rate: float, accuracy: float, pairs: bool) -> None:
    found = [audit_rate(*judged(rate, accuracy, pairs=pairs, seed=seed)[:2]) for seed in range(8)]
    assert np.mean([each.low <= rate <= each.high for each in found]) >= 0.85
    assert max(each.high - each.low for each in found) < 0.41
    told = [each for each in found if each.rate is not None]
    assert len(told) == len(found) or (accuracy < 0.9 and len(told) >= len(found) / 2)
    assert all(each.low <= each.assumed <= each.high for each in found)
    better = [audit_rate(*judged(rate, 1.0, pairs=pairs, seed=seed)[:2]) for seed in range(8)]
    assert np.mean([each.high - each.low for each in better]) <= np.mean([each.high - each.low for each in found])


def test_the_rate_is_not_always_the_upper_end() -> None:
    found = audit_rate(*judged(0.2, 0.85)[:2])
    assert found.rate is not None
    assert found.low < found.rate < found.high


def test_neighbours_help_a_model_that_is_unsure() -> None:
    weak, labels, _ = judged(0.2, 0.62)
    votes, same, _ = judged(0.2, 0.98)
    assert (labels == same).all()
    alone, both = audit_rate(weak, labels), audit_rate(weak, labels, votes)
    assert both.rate is not None
    assert both.low <= 0.2 <= both.high
    assert both.high - both.low < alone.high - alone.low


def test_labels_that_are_trusted_do_not_count_as_contradicted_everywhere() -> None:
    probabilities, labels, true = judged(0.2, 0.8)
    plain, trusted = audit_rate(probabilities, labels), audit_rate(probabilities, labels, trust=labels == true)
    assert trusted.rate is not None
    assert plain.rate is not None
    assert trusted.rate < plain.rate
    assert (trusted.low, trusted.high) == (plain.low, plain.high)


@pytest.mark.parametrize("learned", [0.0, 0.35])
def test_the_interval_covers_errors_among_hard_examples_that_the_model_has_partly_learned(learned: float) -> None:
    draws = np.random.default_rng(0)
    probabilities, _, true = judged(0.0, 0.9)
    hard = np.argsort(probabilities.max(1))[:900]
    wrong = draws.permutation(hard)[:600]  # a fifth of all labels, each among the least sure
    labels = true.copy()
    labels[wrong] = (true[wrong] + 1) % 5
    follows = wrong[: int(learned * len(wrong))]
    probabilities[follows] = np.roll(np.eye(5), 1, axis=1)[true[follows]] * 0.2 + 0.16
    found = audit_rate(probabilities, labels, votes=np.eye(5)[true])
    assert found.low <= 0.2 <= found.high
    assert found.high < 0.4


def test_an_interval_from_no_wrong_label_to_a_third_tells_nothing() -> None:
    probabilities, labels, _ = judged(0.0, 0.7)
    found = audit_rate(probabilities, labels)
    assert (found.rate, found.low) == (None, 0.0)


def test_it_says_that_it_cannot_tell() -> None:
    draws = np.random.default_rng(0)
    labels = draws.integers(0, 5, 2000)
    guessed = draws.dirichlet(np.ones(5), 2000)
    assert "hardly more than by chance" in audit_rate(guessed, labels).why
    equal = np.tile([0.3, 0.2, 0.2, 0.2, 0.1], (2000, 1))
    for found in (audit_rate(guessed, labels), audit_rate(equal, labels), audit_rate(equal, labels, equal)):
        assert (found.rate, found.low, found.high, found.assumed) == (None, 0.0, 1.0, 0.0)
    apart = audit_rate(*judged(0.1, 0.55)[:2])
    assert apart.rate is None
    assert "may be errors of the labels or of the model" in apart.why
    assert audit_rate(guessed[:20], labels[:20]).rate is None
    assert audit_rate(np.ones((100, 2)), np.zeros(100, int)).rate is None, "there is one class"


@given(st.integers(50, 200), st.integers(2, 5), st.integers(0, 99))
@settings(max_examples=50, deadline=None)
def test_any_probabilities_give_an_interval(n: int, classes: int, seed: int) -> None:
    draws = np.random.default_rng(seed)
    labels = draws.integers(0, classes, n)
    probabilities = 0.5 * draws.dirichlet(np.ones(classes), n) + 0.5 * np.eye(classes)[labels] * (draws.random() < 0.5)
    found = audit_rate(probabilities, labels)
    assert 0 <= found.low <= found.assumed <= found.high <= 1
    order = draws.permutation(n)
    assert audit_rate(probabilities[order], labels[order]) == found, "ties stay together"
    matrix = noise_matrix(probabilities, labels)
    assert np.allclose(matrix.sum(1), 1)
    assert (matrix >= 0).all()


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ((np.ones((5, 2)), np.zeros(4, int)), r"4 labels and probabilities of shape \(5, 2\)"),
        ((np.ones((4, 2)), np.full(4, 2)), "go from 2 to 2, and there are probabilities of 2"),
        ((np.ones((4, 2)), np.zeros(4)), "no whole numbers"),
        ((np.full((4, 2), np.nan), np.zeros(4, int)), "not finite"),
        ((np.ones((4, 2)), np.zeros(4, int), None, np.ones(3)), r"trust of shape \(3,\)"),
    ],
)
def test_refusals(arrays: Any, message: str) -> None:
    with pytest.raises(ThresherError, match=message):
        audit_rate(*arrays)
    with pytest.raises(ThresherError, match="give \\[n, targets\\]"):
        residual_rate(np.ones(3))


def test_the_surest_are_the_share_with_the_smallest_upper_limit() -> None:
    n = 1000
    wrong = np.arange(n) >= 700
    found = contradictions(wrong, -np.arange(n, dtype=float))
    assert (found.surest, found.count, found.everywhere) == (0.0, 700, 0.3)
    assert beyond_chance(np.zeros(9, int), np.zeros(9, int)) == 0.0
    assert beyond_chance(np.arange(9), np.arange(9)) == pytest.approx(1.0)


@pytest.mark.parametrize("accuracy", [0.8, 1.0])
def test_the_matrix_is_how_labels_turn_wrong(accuracy: float) -> None:
    probabilities, labels, true = judged(0.3, accuracy, n=20_000, pairs=True)
    joint = np.zeros((5, 5))
    np.add.at(joint, (true, labels), 1)
    assert np.abs(noise_matrix(probabilities, labels) - joint / joint.sum(1, keepdims=True)).max() < 0.07


def test_the_cautious_matrix_believes_only_mistakes_that_recur() -> None:
    """Beside wrong labels of one other class it is the noise matrix; beside labels of any class it names none."""
    pairs, any_class = (judged(0.3, pairs=one)[:2] for one in (True, False))
    assert np.abs(cautious_matrix(*pairs) - noise_matrix(*pairs)).max() < 0.05
    spread = cautious_matrix(*any_class)
    off = spread[~np.eye(5, dtype=bool)]
    assert off.max() - off.min() < 0.2 * np.ptp(noise_matrix(*any_class)[~np.eye(5, dtype=bool)])
    assert np.allclose(spread.sum(1), 1)
    assert off.mean() == pytest.approx(0.3 / 4, abs=0.02)


def test_wrong_labels_of_two_classes_are_always_alike() -> None:
    assert agreement(np.array([[80, 20], [0, 100]])) == 1
    assert agreement(np.eye(3)) == 0, "there are none"
    assert agreement(np.array([[0, 10, 10], [10, 0, 10], [10, 10, 0]])) == 0


def test_a_scaled_matrix_has_the_rate_and_stays_one_of_shares() -> None:
    matrix = np.array([[0.9, 0.1, 0.0], [0.2, 0.7, 0.1], [0.0, 0.0, 1.0]])
    true = np.array([0.5, 0.3, 0.2])
    for rate in (0.0, 0.07, 0.3):
        scaled = scaled_to(matrix, rate, true @ matrix)
        assert float((true * (1 - scaled.diagonal())).sum()) == pytest.approx(rate)
        assert np.allclose(scaled.sum(1), 1)
    assert (scaled_to(matrix, 1.0, true @ matrix) >= -1e-12).all()


@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("accuracy", [0.6, 0.93])
def test_the_corrected_accuracy_is_the_true_one(accuracy: float, pairs: bool) -> None:
    probabilities, labels, true = judged(0.25, accuracy, n=20_000, pairs=pairs)
    predicted = probabilities.argmax(1)
    really, joint, confusion = float((predicted == true).mean()), np.zeros((5, 5)), np.zeros((5, 5))
    np.add.at(joint, (true, labels), 1)
    np.add.at(confusion, (predicted, labels), 1)
    matrix, score = joint / joint.sum(1, keepdims=True), float((predicted == labels).mean())
    exact = corrected_accuracy(score, matrix, confusion=confusion)
    assert exact.accuracy == pytest.approx(really, abs=0.01)
    assert exact.low < really < exact.high
    if not pairs:
        assert corrected_accuracy(score, matrix, count=20_000).accuracy == pytest.approx(really, abs=0.02)
    wider = corrected_accuracy(score, matrix, confusion=confusion, rate=Estimate(0.25, 0.2, 0.3, ""))
    assert wider.low < exact.low < exact.high <= wider.high
    assert wider.rate == pytest.approx(0.25, abs=0.005)


def test_accuracy_is_not_corrected_by_what_nobody_knows() -> None:
    found = corrected_accuracy(0.5, np.full((2, 2), 0.5), count=100)
    assert found.accuracy is None
    unknown = corrected_accuracy(0.7, np.eye(2), count=100, rate=Estimate(None, 0.0, 1.0, "cannot tell"))
    assert unknown.accuracy is None
    assert unknown.rate is None
    with pytest.raises(ThresherError, match="not square"):
        corrected_accuracy(0.5, np.ones((2, 3)))


@pytest.mark.parametrize("rate", [0.1, 0.25, 0.4])
@pytest.mark.parametrize("one_sided", [False, True])
@pytest.mark.parametrize("width", [1, 4])
def test_wrong_targets_of_any_side_are_covered(rate: float, one_sided: bool, width: int) -> None:
    draws = np.random.default_rng(1)
    residuals = draws.normal(size=(2000, width))
    away = draws.uniform(6, 20, (2000, 1)) * (1 if one_sided else draws.choice([-1, 1], (2000, 1)))
    residuals[: round(2000 * rate)] += away[: round(2000 * rate)]
    found = residual_rate(residuals - residuals.mean(0))
    assert found.low <= rate <= found.high
    assert found.rate == pytest.approx(rate, abs=0.1)


def test_clean_residuals_pass_for_clean_and_two_groups_cannot_be_told_apart() -> None:
    draws = np.random.default_rng(0)
    clean = residual_rate(draws.normal(size=(2000, 1)))
    assert (clean.rate, clean.low) == (0.0, 0.0)
    assert residual_rate(np.where(draws.random((2000, 1)) < 0.4, 3.0, 0.0) + draws.normal(size=(2000, 1))).rate is None
    few, many = (
        0.35 * draws.normal(size=(1200, 1)),
        1.5 + 0.65 * draws.normal(size=(800, 1)),
    )  # judges follow the second
    assert residual_rate(np.concatenate([few, many])).rate is None
    assert residual_rate(np.where(draws.random((200, 1)) < 0.6, 0.0, draws.normal(size=(200, 1)))).rate is None
    assert residual_rate(draws.normal(size=(20, 1))).rate is None
    assert residual_rate(np.zeros((200, 2))).rate == 0


def test_inliers_are_found_beside_a_large_group() -> None:
    draws = np.random.default_rng(0)
    values = np.concatenate([draws.normal(3, 2, 1200), draws.uniform(20, 40, 800)])[:, None]
    middle, deviation = inliers(values)
    assert middle[0] == pytest.approx(3, abs=0.2)
    assert deviation[0] == pytest.approx(2, abs=0.2)


def test_the_confident_joint_is_that_of_cleanlab() -> None:
    count = pytest.importorskip("cleanlab.count")
    probabilities, labels, _ = judged(0.3, 0.7)
    theirs = count.compute_confident_joint(labels, probabilities, calibrate=False)
    ours = confident_joint(torch.from_numpy(probabilities), torch.from_numpy(labels))
    assert ours.tolist() == theirs.tolist()
