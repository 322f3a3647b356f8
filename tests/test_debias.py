"""Debias is Algorithm 2 to the letter, ties and vanishing losses included; fidelity and the oracle do as they say."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import distil as slow
from some_evidence import some_evidence
from torch import Tensor
from torch.nn.functional import cross_entropy

from thresher import ThresherError, signals
from thresher.core.evidence import Evidence
from thresher.rules import (
    Debias,
    Fidelity,
    OnlyCorrect,
    ask,
    debias_weights,
    mean_of_nearest,
    once,
    product,
    teacher_labels,
)

SEEDS = st.integers(0, 2**31)


def drawn(seed: int, q: int, n: int, grid: int = 0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Validation confidences, who is wrong, distortions (some 0 or infinite) and queries; on a grid many coincide."""
    draws = torch.Generator().manual_seed(seed)
    known, queries = torch.rand(q, 2, generator=draws), torch.rand(n, 2, generator=draws)
    if grid:
        known, queries = (known * grid).round() / grid, (queries * grid).round() / grid
    distortions = torch.rand(q, generator=draws) * 6
    distortions[torch.rand(q, generator=draws) < 0.1] = 0.0
    distortions[torch.rand(q, generator=draws) < 0.1] = math.inf
    return known, torch.rand(q, generator=draws) < 0.5, distortions, queries


@given(SEEDS, st.sampled_from((1, 2, 3, 16, 17, 90)), st.sampled_from((0, 1, 4)))
@settings(max_examples=60, deadline=None)
def test_weights_are_those_of_the_naive_algorithm(seed: int, q: int, grid: int) -> None:
    known, wrong, distortions, queries = drawn(seed, q, 25, grid)
    ours = debias_weights(known, wrong, distortions, queries)
    theirs = slow.estimate_weights(known.tolist(), wrong.tolist(), distortions.tolist(), queries.tolist())
    torch.testing.assert_close(ours, torch.tensor(theirs), rtol=1e-6, atol=1e-7)
    assert ((ours >= 0) & (ours <= 1)).all()


@pytest.mark.parametrize(("q", "k"), [(1, 1), (4, 1), (5, 2), (16, 2), (17, 3), (500, 12), (2000, 23)])
def test_as_many_neighbours_as_the_paper_says(q: int, k: int) -> None:
    # All at one place: only the first k count, and only the last of these is wrong.
    wrong = torch.zeros(q, dtype=torch.bool)
    wrong[k - 1] = True
    found = debias_weights(torch.zeros(q, 2), wrong, torch.full((q,), 3.0), torch.ones(1, 2))
    p, d = 1 / k, 1 + 2 / k
    assert found.item() == pytest.approx(1 / (1 + p * (d - 1)))
    wrong = torch.zeros(q, dtype=torch.bool)
    wrong[k:] = True
    assert debias_weights(torch.zeros(q, 2), wrong, torch.full((q,), 3.0), torch.ones(1, 2)).item() == 1.0


def test_where_the_teacher_is_right_its_distortion_does_not_count() -> None:
    one = torch.zeros(1, 2)
    assert debias_weights(one, torch.tensor([False]), torch.tensor([1e9]), one).item() == 1.0
    assert debias_weights(one, torch.tensor([True]), torch.tensor([4.0]), one).item() == 0.25
    assert debias_weights(one, torch.tensor([True]), torch.tensor([0.1]), one).item() == 1.0  # projected
    assert debias_weights(one, torch.tensor([True]), torch.tensor([0.0]), one).item() == 1.0  # 1 / 0, projected
    assert debias_weights(one, torch.tensor([True]), torch.tensor([math.inf]), one).item() == 0.0


def test_the_consistent_form_is_one_over_the_mean_distortion() -> None:
    known, wrong, distortions, queries = drawn(3, 90, 40)
    near = chosen(known, queries, 5)
    mean = torch.where(wrong, distortions, 1.0).expand(40, 90)[near].reshape(40, 5).mean(1)
    found = debias_weights(known, wrong, distortions, queries, consistent=True)
    torch.testing.assert_close(found, (1 / mean).clamp(0, 1))
    printed, above = debias_weights(known, wrong, distortions, queries), mean > 1
    assert above.any()
    assert (found[above] <= printed[above]).all()
    assert (found[above] < printed[above] - 0.1).any()


def chosen(points: Tensor, queries: Tensor, count: int) -> Tensor:
    """Which points count for each query [n, q]."""
    return mean_of_nearest(points, torch.eye(len(points)), queries, count) * count > 0.5


@given(SEEDS, st.sampled_from((1, 2, 40, 700)), st.sampled_from((0, 1, 3, 30)), st.sampled_from((2, 7, 256)))
@settings(max_examples=60, deadline=None)
def test_neighbours_are_the_nearest_and_ties_go_to_the_first(seed: int, n: int, grid: int, tile: int) -> None:
    known, _, _, queries = drawn(seed, 70, n, grid)
    if seed % 3 == 0:  # crowded, as the confidences of trained networks are
        known, queries = 1 - known**9, 1 - queries**9
    squares = (queries[:, None] - known).square().sum(2)
    first = squares.argsort(dim=1, stable=True)[:, :9]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("thresher.rules.plane_neighbours.TILE", tile)
        found = chosen(known, queries, 9)
    assert torch.equal(found, torch.zeros_like(found).scatter(1, first, True))


@pytest.mark.parametrize(
    ("shapes", "what"),
    [
        (((0, 2), (0,), (0,), (3, 2)), "pairs of confidences"),
        (((4, 3), (4,), (4,), (3, 2)), "pairs of confidences"),
        (((4, 2), (4,), (4,), (3,)), "pairs of confidences"),
        (((4, 2), (3,), (4,), (3, 2)), "teacher_wrong and distortions"),
        (((4, 2), (4,), (5,), (3, 2)), "teacher_wrong and distortions"),
    ],
)
def test_wrong_shapes_are_refused(shapes: tuple[tuple[int, ...], ...], what: str) -> None:
    with pytest.raises(ThresherError, match=what):
        debias_weights(*(torch.zeros(shape) for shape in shapes))


def about(n: int = 30, q: int = 50, seed: int = 0) -> Evidence:
    """A student's evidence, its teacher's, and both about a validation set."""
    own, known = some_evidence(n, seed=seed), some_evidence(q, seed=seed + 1)
    for_own, for_known = (some_evidence(size, seed=seed + 2).outputs * 2 for size in (n, q))
    teachers = [
        evidence.replace(raw_outputs=outputs, known={}) for evidence, outputs in ((own, for_own), (known, for_known))
    ]
    return own.replace(others={"teacher": teachers[0], "validation": known.replace(others={"teacher": teachers[1]})})


@pytest.mark.parametrize("by", [signals.margin, signals.entropy], ids=lambda signal: signal.name)
@pytest.mark.parametrize(("hard", "temperature"), [(False, 1.0), (True, 1.0), (False, 3.0), (True, 0.5)])
def test_the_rule_reads_confidences_and_losses_as_the_algorithm_does(
    by: signals.Signal, hard: bool, temperature: float
) -> None:
    evidence = about()
    known = evidence.other("validation")
    teacher, truth = known.other("teacher").outputs, known.targets
    pairs, asked = [], []
    for each, into in ((known, pairs), (evidence, asked)):
        into += zip(each.other("teacher").read(by).tolist(), each.read(by).tolist(), strict=True)
    labels = teacher.argmax(1) if hard else (teacher / temperature).softmax(1)
    student = known.outputs / temperature
    ratio = cross_entropy(student, labels, reduction="none") / cross_entropy(student, truth, reduction="none")
    by_id = known.ids.argsort().tolist()
    weights = slow.estimate_weights(
        [pairs[place] for place in by_id],
        [bool(teacher[place].argmax() != truth[place]) for place in by_id],
        [ratio[place].item() for place in by_id],
        asked,
    )
    decision = ask(Debias(by, hard, temperature), evidence)
    expected = torch.where(evidence.columns["from_teacher"], torch.tensor(weights), 1.0)
    torch.testing.assert_close(decision.weights, expected, rtol=1e-5, atol=1e-6)
    assert (decision.weights < 1).any()
    assert decision.columns["student_confidence"].tolist() == evidence.read(by).tolist()


def test_a_student_that_is_certain_of_the_truth_leaves_next_to_no_weight() -> None:
    evidence = about(n=4, q=1)
    known = evidence.other("validation")
    certain = known.replace(
        raw_outputs=torch.zeros_like(known.outputs).scatter(1, known.targets[:, None], 1e4), known={}
    )
    wrong = known.other("teacher").replace(raw_outputs=-certain.outputs, known={})
    evidence = evidence.replace(
        others={**evidence.others, "validation": certain.replace(others={"teacher": wrong})},
        columns={"from_teacher": torch.ones(4, dtype=torch.bool)},
    )
    for hard in (False, True):
        weights = ask(Debias(hard=hard), evidence).weights
        assert (weights > 0).all()
        assert (weights < 1e-6).all()


def test_fidelity_is_the_exponential_of_entropy_over_its_mean() -> None:
    evidence = about()
    doubt = evidence.other("teacher").read(signals.entropy)
    expected = torch.where(evidence.columns["from_teacher"], torch.tensor(slow.fidelity(doubt.tolist())), 1.0)
    torch.testing.assert_close(ask(Fidelity(), evidence).weights, expected)
    sure = evidence.other("teacher").replace(raw_outputs=torch.eye(4)[evidence.targets] * 1e4, known={})
    assert ask(Fidelity(), evidence.replace(others={"teacher": sure})).weights.tolist() == [1.0] * 30


def test_the_composition_is_the_product_and_the_oracle_knows() -> None:
    evidence = about()
    both = ask(product(Fidelity(), once(Debias())), evidence)
    each = ask(Fidelity(), evidence).weights * ask(Debias(), evidence).weights
    assert torch.equal(both.weights, each)
    assert ask(OnlyCorrect(), evidence).weights.bool().tolist() == (~evidence.columns["is_corrupt"]).tolist()


def test_labels_of_a_teacher() -> None:
    outputs = torch.tensor([[0.0, 2.0, 1.0]])
    torch.testing.assert_close(teacher_labels(outputs, temperature=2.0), (outputs / 2).softmax(1))
    with pytest.raises(ThresherError, match="above 0"):
        Debias(temperature=0.0)
