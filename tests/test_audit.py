"""The audit: a verdict on every example, by judges that did not see its target."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import thresher as th
from thresher.auditing import networks
from thresher.auditing.classes import checked_probabilities
from thresher.auditing.combine import combined, likelier, trust_of
from thresher.auditing.duplicates import digests, equal, similar
from thresher.auditing.findings import suspects
from thresher.auditing.judges import forest, probabilities_of, split_into_folds
from thresher.auditing.neighbours import feature_space, nearest, votes
from thresher.corruption import corrupt
from thresher.data import digits
from thresher.engine.settings import TrainSettings
from thresher.noise.estimate import Estimate, cannot_tell
from thresher.record.previews import stored_picture

Array = np.ndarray[Any, Any]


def blobs(count: int = 240, classes: int = 3, flipped: int = 24) -> tuple[Array, Array, Array]:
    """Inputs, given labels, and which labels are wrong."""
    draws = np.random.default_rng(0)
    true = np.arange(count) % classes
    inputs = draws.normal(size=(count, 4)) + 4 * np.eye(classes, 4)[true]
    wrong = draws.permutation(count)[:flipped]
    given = true.copy()
    given[wrong] = (given[wrong] + 1) % classes
    return inputs.astype(np.float32), given, np.isin(np.arange(count), wrong)


def ranked_wrong(issues: Any, wrong: Array) -> float:
    """The share of wrong labels among as many of the least trusted."""
    return float(wrong[issues.column("id")[: wrong.sum()]].mean())


def test_neighbours_are_those_of_the_slow_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("thresher.auditing.neighbours.PAIRS", 50 * 7)
    points = torch.randn(50, 3, generator=torch.Generator().manual_seed(0))
    found = nearest(points, 4)
    slow = torch.cdist(points.double(), points.double()).fill_diagonal_(torch.inf).sort(dim=1)
    assert np.array_equal(found.places, slow.indices[:, :4].numpy())
    assert np.allclose(found.distances, slow.values[:, :4].numpy(), atol=1e-5)
    known = nearest(points[:10], 2, points[10:])
    assert np.array_equal(known.places, torch.cdist(points[:10], points[10:]).sort(dim=1).indices[:, :2].numpy())


def test_many_features_are_projected_and_stay_apart() -> None:
    features = np.random.default_rng(0).normal(size=(40, 300))
    space = feature_space(features)
    assert space.shape == (40, 128)
    assert np.array_equal(nearest(space, 1).places, nearest(feature_space(features[:, :300]), 1).places)


def test_votes_are_probabilities_of_the_neighbours_labels() -> None:
    space = torch.tensor([[0.0], [0.1], [0.2], [9.0], [9.1], [9.2]])
    found = votes(nearest(space, 2), np.array([0, 0, 1, 1, 1, 1]), 2)
    assert np.allclose(found.sum(1), 1)
    assert (found > 0).all()
    assert found[2, 0] > 0.5
    assert found[3, 1] > 0.8


def test_a_judge_that_guesses_does_not_count() -> None:
    draws = np.random.default_rng(0)
    labels = draws.integers(0, 3, 300)
    good = np.full((300, 3), 0.1) + 0.7 * np.eye(3)[labels]
    found = combined({"good": good, "random": draws.dirichlet([0.3] * 3, 300)}, labels)
    assert found.strengths["good"] > 10 * found.strengths["random"]
    assert np.allclose(found.probabilities.sum(1), 1)


def test_training_dynamics_move_trust_by_their_rank() -> None:
    probabilities, anything = np.array([[0.9, 0.1], [0.6, 0.4], [0.5, 0.5]]), np.full((2, 2), 0.5)
    labels = np.array([0, 0, 0])
    alone = trust_of(probabilities, labels, anything)
    both = trust_of(probabilities, labels, anything, np.array([0.1, 0.2, 0.9]))
    assert np.allclose(alone, [0.9, 0.6, 0.5])
    assert np.allclose(both, 0.85 * alone + 0.15 * np.array([0.5, 0.6, 0.9]))


def test_a_class_that_is_never_mistaken_casts_less_doubt() -> None:
    """Class 0 is often labelled 2, class 1 never is."""
    matrix = np.array([[0.6, 0.0, 0.4], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    probabilities = np.array([[0.5, 0.1, 0.4], [0.1, 0.5, 0.4]])
    often, never = trust_of(probabilities, np.array([2, 2]), matrix)
    assert often == pytest.approx((0.4 / (0.4 + 0.5 * 0.4) + 0.45) / 2)
    assert often < never


def test_folds_keep_groups_together_and_judge_everyone_once() -> None:
    labels, groups = np.arange(60) % 3, np.arange(60) // 5
    parts = split_into_folds(labels, 4, 0, groups)
    assert sorted(np.concatenate([judged for _, judged in parts]).tolist()) == list(range(60))
    assert all(not set(groups[fitted]) & set(groups[judged]) for fitted, judged in parts)
    with pytest.raises(th.ThresherError, match="give fewer folds"):
        split_into_folds(labels, 5, 0, np.zeros(60))


@pytest.mark.parametrize(
    ("rate", "count"),
    [
        (Estimate(0.04, 0.0, 1.0, ""), 11),  # the middle of 4, 11 (10 of the 90 confident ones are wrong) and 16
        (Estimate(0.5, 0.0, 1.0, ""), 16),
        (Estimate(0.5, 0.0, 0.05, ""), 5),
        (cannot_tell("weak"), 20),  # all that are contradicted: of two classes, one is always likelier
    ],
)
def test_the_number_of_issues_does_not_rest_on_the_rate_alone(rate: Estimate, count: int) -> None:
    labels = np.arange(100) % 2
    probabilities = np.where(np.eye(2)[labels] > 0, 0.9, 0.1)
    probabilities[:10] = probabilities[:10, ::-1]  # contradicted, and surely of the other class
    probabilities[10:20] = np.where(np.eye(2)[labels[10:20]] > 0, 0.49, 0.51)  # contradicted, and sure of nothing
    trust = np.where(np.arange(100) < 16, 0.1 + np.arange(100) / 100, 0.9)
    flagged = suspects(trust, probabilities, labels, rate, trust)
    assert np.flatnonzero(flagged).tolist() == list(range(count))
    assert not suspects(trust[::-1].copy(), probabilities, labels, rate, trust)[50:].any()


def test_weak_judges_flag_only_what_one_other_class_explains() -> None:
    """Two in three labels are contradicted, by a class that is seldom likelier than all others together."""
    draws = np.random.default_rng(0)
    labels = draws.integers(0, 5, 1000)
    model = np.where(draws.random(1000) < 0.2, labels, draws.integers(0, 5, 1000))
    probabilities = 0.12 + 0.4 * np.eye(5)[model]
    probabilities[50:] = (probabilities[50:] + 0.2) / 2  # as sure as a weak model is
    flagged = suspects(probabilities[np.arange(1000), labels], probabilities, labels, cannot_tell("weak"), labels)
    assert (probabilities.argmax(1) != labels).mean() > 0.6
    assert 20 < flagged.sum() < 50
    assert not flagged[50:].any()
    some = suspects(probabilities[np.arange(1000), labels], probabilities, labels, cannot_tell("weak", 0.1), labels)
    assert flagged.sum() < some.sum() <= 100 + flagged.sum()


def test_judges_that_guess_name_no_issues_and_correct_none() -> None:
    draws = np.random.default_rng(0)
    labels = draws.integers(0, 5, 400)
    guesses = draws.dirichlet(np.ones(5), 400)
    issues = th.audit(draws.normal(size=(400, 3)), labels, probabilities=guesses)
    assert not issues.told
    assert "disagreement" not in issues.table["reason"].to_pylist()
    assert issues.corrected().tolist() == [str(label) for label in labels]
    assert (issues.corrected(count=100) != issues.corrected()).any()


@pytest.mark.parametrize("wrong", [0.0, 0.2])
def test_a_correction_takes_the_suggestions_that_are_likelier_right_than_wrong(wrong: float) -> None:
    draws = np.random.default_rng(1)
    true = draws.integers(0, 2, 4000)
    sure = draws.uniform(0.5, 1.0, 4000)  # of the true class, by a model that knows how often it errs
    model = np.where(draws.random(4000) < sure, true, 1 - true)
    labels = np.where(draws.random(4000) < wrong, 1 - true, true)
    foretold = (1 - wrong) * sure + wrong * (1 - sure)
    probabilities = np.where(np.eye(2)[model] > 0, foretold[:, None], 1 - foretold[:, None])
    issues = th.audit(probabilities, labels, probabilities=probabilities)
    new = issues.corrected().astype(int)
    changed = new != labels
    assert (new == true).sum() >= (labels == true).sum()
    assert changed.any() == (wrong > 0)
    if wrong:
        assert (new[changed] == true[changed]).mean() > 0.6
        assert (issues.column("is_issue").sum() - changed.sum()) > 50  # issues, but likelier right


def test_likelier_is_the_posterior_of_two_labels() -> None:
    matrix, true = np.array([[0.7, 0.2, 0.1], [0.0, 0.9, 0.1], [0.1, 0.1, 0.8]]), np.array([[0.5, 0.3, 0.2]])
    for given, suggested in ((0, 1), (1, 0), (2, 0)):
        right = true[0, suggested] * matrix[suggested, given]
        expected = right / (right + true[0, given] * matrix[given, given])
        found = likelier(true @ matrix, np.array([given]), np.array([suggested]), matrix)
        assert found[0] == pytest.approx(expected)


def test_no_class_loses_all_weight() -> None:
    draws = np.random.default_rng(0)
    labels = np.array([0] * 180 + [1] * 20)
    said = np.where(
        draws.random((200, 1)) < 0.99, [[0.97, 0.03]], [[0.5, 0.5]]
    )  # every label of class 1 is contradicted
    issues = th.audit(draws.normal(size=(200, 3)), labels, probabilities=said)
    weights = issues.weights()
    assert 1 <= (weights[labels == 1] > 0).sum() <= 4
    assert (weights[labels == 0] > 0).mean() > 0.9


def test_every_row_of_a_table_gets_a_verdict() -> None:
    inputs, given, wrong = blobs()
    issues = th.audit(inputs, given)
    assert sorted(issues.column("id").tolist()) == list(range(240))
    assert (np.diff(issues.column("trust")) >= 0).all()
    assert ranked_wrong(issues, wrong) > 0.9
    flagged = issues.column("id")[issues.column("is_issue")]
    assert wrong[flagged].mean() > 0.9
    assert set(issues.column("reason")[~issues.column("is_issue")]) == {""}
    weights = issues.weights()
    assert weights[wrong].mean() < 0.2 < 0.9 < weights[~wrong].mean()
    assert issues.summary["noise_rate"]["low"] <= 0.1 <= issues.summary["noise_rate"]["high"]
    assert issues.headline().endswith("%).")


def estimators() -> list[Any]:
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression

    return [LogisticRegression(), HistGradientBoostingClassifier(max_iter=20)]


@pytest.mark.parametrize("estimator", [*estimators(), "lightgbm"], ids=lambda each: type(each).__name__)
def test_any_estimator_judges_and_takes_the_weights(estimator: Any) -> None:
    if estimator == "lightgbm":
        estimator = pytest.importorskip("lightgbm").LGBMClassifier(n_estimators=20, verbose=-1)
    pandas = pytest.importorskip("pandas")
    inputs, given, wrong = blobs()
    frame = pandas.DataFrame(inputs, columns=list("abcd"))
    issues = th.audit(frame, given, estimator=estimator)
    assert ranked_wrong(issues, wrong) > 0.8
    assert issues.summary["method"] == "neighbours, estimator"
    right = np.arange(240) % 3
    estimator.fit(frame, given, sample_weight=issues.weights())
    assert (estimator.predict(frame) == right).mean() > 0.95


def test_given_probabilities_train_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(networks, "train_recipe", None)
    monkeypatch.setattr("thresher.auditing.judges.probabilities_of", None)
    inputs, given, wrong = blobs()
    sure = np.full((240, 3), 0.05) + 0.85 * np.eye(3)[np.arange(240) % 3]
    issues = th.audit(inputs, given, probabilities=sure)
    assert ranked_wrong(issues, wrong) == 1.0
    suggested = issues.column("suggested")[np.argsort(issues.column("id"))]
    assert (suggested.astype(int) == np.arange(240) % 3).mean() > 0.95
    with pytest.raises(th.ThresherError, match="a row for every example"):
        checked_probabilities(sure[:10], 240, 3)


def test_embeddings_of_images_need_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(networks, "train_recipe", None)
    vectors, given, wrong = blobs()
    images = np.random.default_rng(1).normal(size=(240, 1, 6, 6)).astype(np.float32)
    issues = th.audit(images, given, features=vectors)
    assert ranked_wrong(issues, wrong) > 0.9
    assert issues.summary["method"] == "neighbours, linear"


def test_doubles_with_another_label_are_found_within_and_across_sets() -> None:
    inputs, given, _ = blobs(flipped=0)
    inputs[7] = inputs[1]  # of the classes 1 and 1
    inputs[9] = inputs[4]  # of the classes 0 and 1
    inputs[12] = inputs[3] + 1e-5
    tested = np.concatenate([inputs[20:22], inputs[30:31] + 1e-5])
    issues = th.audit(inputs, given, test=(tested, given[[20, 21, 30]]))
    doubles = {tuple(each["ids"]): (each["exact"], each["across"]) for each in issues.summary["duplicates"]}
    assert doubles[1, 7] == (True, None)
    assert doubles[4, 9] == (True, "labels")
    assert doubles[3, 12] == (False, None)
    assert doubles[20,] == doubles[21,] == (True, "sets")
    assert doubles[30,] == (False, "sets")
    assert len(doubles) == 6
    reasons = dict(zip(issues.column("id"), issues.column("reason"), strict=True))
    assert reasons[9] == "near-duplicate with another label"
    assert reasons[4] == ""


def test_copies_are_no_near_doubles_of_each_other() -> None:
    examples = th.Examples(torch.tensor([[0.0], [0.0], [5.0], [9.0]]), torch.tensor([0, 1, 0, 1]))
    copies = equal(digests(examples))
    assert [group.places for group in copies] == [[0, 1]]
    assert similar(nearest(examples.inputs, 2), copies) == []  # type: ignore[arg-type]


def test_what_lies_far_from_all_is_an_outlier() -> None:
    inputs, given, _ = blobs(flipped=0)
    inputs[5] = 60.0
    issues = th.audit(inputs, given)
    reasons = dict(zip(issues.column("id"), issues.column("reason"), strict=True))
    assert reasons[5] == "outlier"
    assert list(reasons.values()).count("outlier") <= 2


def test_networks_judge_what_they_did_not_see_and_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train = corrupt(digits().train.subset(range(300)), "symmetric:0.2", seed=0)
    wrong = train.columns["is_corrupt"].numpy().astype(bool)
    stop = {"fold 2 of 3"}

    def tell(stage: str) -> None:
        if stage in stop:
            raise KeyboardInterrupt

    settings: dict[str, Any] = {"model": "mlp:64", "folds": 3, "epochs": 12, "batch": 32, "method": None}
    with pytest.raises(KeyboardInterrupt):
        th.audit(train, out=tmp_path, tell=tell, **settings)
    assert not (tmp_path / "issues.csv").exists()
    stop.clear()
    issues = th.audit(train, out=tmp_path, tell=tell, **settings)
    place = {id_: at for at, id_ in enumerate(train.ids.tolist())}
    order = np.array([place[id_] for id_ in issues.column("id").tolist()])
    assert wrong[order[: wrong.sum()]].mean() > 0.75
    assert (tmp_path / "audit" / "fold-2" / "checkpoint.pt").exists()
    monkeypatch.setattr(networks, "train_recipe", None)  # nothing is trained again
    assert th.audit(train, out=tmp_path, tell=tell, **settings).table.equals(issues.table)
    with pytest.raises(th.ThresherError, match="another audit"):
        th.audit(train, out=tmp_path, **{**settings, "folds": 4})


def test_wrong_values_get_what_was_expected() -> None:
    draws = np.random.default_rng(0)
    inputs = draws.normal(size=(300, 3))
    true = 50 + 10 * inputs[:, 0] + draws.normal(size=300)
    given = true.copy()
    wrong = np.isin(np.arange(300), draws.permutation(300)[:30])
    given[wrong] += 60
    issues = th.audit(inputs, given)
    assert ranked_wrong(issues, wrong) > 0.95
    order = np.argsort(issues.column("id"))
    assert np.abs(issues.column("expected")[order] - true)[wrong].mean() < 5
    inside = (issues.column("low")[order] <= true) & (true <= issues.column("high")[order])
    assert inside.mean() > 0.8
    flagged = issues.column("id")[issues.column("is_issue")]
    assert wrong[flagged].mean() > 0.85
    assert wrong[flagged].sum() == wrong.sum()


def test_many_wrong_values_on_one_side_do_not_hide_each_other() -> None:
    draws = np.random.default_rng(0)
    inputs = draws.normal(size=(500, 3))
    true = 10 * inputs[:, 0] + draws.normal(size=500)
    wrong = np.arange(500) % 5 < 2
    given = np.where(wrong, true + draws.uniform(15, 60, 500), true)
    issues = th.audit(inputs, given)
    assert ranked_wrong(issues, wrong) > 0.95
    found = np.zeros(500, bool)
    found[issues.column("id")[issues.column("is_issue")]] = True
    assert found[wrong].mean() > 0.8
    assert found[~wrong].mean() < 0.05
    order = np.argsort(issues.column("id"))
    assert abs(np.median(issues.column("expected")[order] - true)) < 2


def test_the_worst_images_are_kept_without_a_run(tmp_path: Path) -> None:
    train = digits().train.subset(range(60))
    issues = th.audit(train, probabilities=np.full((60, 10), 0.1), method=None, out=tmp_path)
    assert not (tmp_path / "run.toml").exists()
    with np.load(tmp_path / "previews.npz") as stored:
        assert stored["ids"].tolist() == issues.column("id").tolist()
        assert stored_picture(stored, 59).startswith(b"\x89PNG")


def test_a_run_with_all_examples_is_left_behind(tmp_path: Path) -> None:
    inputs, given, _ = blobs()
    issues = th.audit(inputs, np.array(["ant", "bee", "cow"])[given], out=tmp_path, epochs=5)
    run = th.open_run(tmp_path)
    assert run.issues().table.equals(issues.table)
    assert set(run.predict(inputs)) <= {"ant", "bee", "cow"}
    assert len(run.trust()[0]) == 240
    assert {"label", "suggested"} <= set(run.issues().table.column_names)
    assert set(issues.column("suggested")) == {"ant", "bee", "cow"}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ({"groups": [1, 2]}, "give one an example"),
        ({"features": np.zeros((3, 2))}, "The features have the shape"),
        ({"folds": 1}, "leaves nothing to train on"),
        ({"model": torch.nn.Linear(4, 3)}, "pass a function"),
    ],
)
def test_what_cannot_be_audited_is_refused(words: dict[str, Any], sentence: str) -> None:
    inputs, given, _ = blobs(60, flipped=0)
    with pytest.raises(th.ThresherError, match=sentence):
        th.audit(inputs, given, **words)


def test_no_judge_reads_the_label_that_it_judges() -> None:
    """Other labels of one fold leave every verdict on that fold as it was, to the last bit."""
    rows, y, _ = blobs(90)
    parts = split_into_folds(y, 3, seed=0)
    own = parts[0][1]
    other = y.copy()
    other[own] = (y[own] + 1) % 3
    settings = TrainSettings(epochs=4, batch=16, device="cpu")
    inputs = torch.as_tensor(rows).float()

    def by_networks(labels: Array) -> tuple[Array, ...]:
        train = th.Examples(inputs, torch.as_tensor(labels))
        seen = networks.judged_by_networks(train, lambda: torch.nn.Linear(rows.shape[1], 3), parts, settings)
        return seen.outputs, seen.votes

    def by_trees(labels: Array) -> tuple[Array, ...]:
        return (probabilities_of(forest(0), rows, labels, 3, parts),)

    for judge in (by_networks, by_trees):
        for before, after in zip(judge(y), judge(other), strict=True):
            np.testing.assert_array_equal(before[own], after[own])
            assert not np.array_equal(before, after), "the other folds learned from those labels"


def test_pixels_have_no_say_in_the_rate_of_labels_that_given_probabilities_contradict() -> None:
    """People mislabel what is hard: sure verdicts contradict few labels, others many, and inputs say nothing."""
    draws = np.random.default_rng(0)
    true, hard = draws.integers(0, 4, 1000), draws.random(1000) < 0.5
    given = np.where(hard & (draws.random(1000) < 0.3), (true + 1) % 4, true)
    sure = np.where(hard, 0.8, 0.97)[:, None]
    probabilities = np.eye(4)[true] * sure + (1 - sure) / 4
    noise = draws.normal(size=(1000, 1, 4, 4)).astype(np.float32)
    found = th.audit(noise, given, probabilities=probabilities, method=None).summary["noise_rate"]
    assert found["low"] <= (given != true).mean() <= found["high"]


def test_probabilities_of_another_shape_are_refused_before_anything_takes_time() -> None:
    told: list[str] = []
    with pytest.raises(th.ThresherError, match=r"give \[200, 2\]"):
        th.audit(np.zeros((200, 3)), np.arange(200) % 2, probabilities=np.ones((200, 3)), tell=told.append)
    assert told == []


def test_wrong_targets_on_one_side_that_judges_follow_are_ranked_and_no_rate_of_0_is_told() -> None:
    """Of little that X explains, two fifths moved up: every judge expects a value between the two groups."""
    draws = np.random.default_rng(0)
    inputs = draws.normal(size=(500, 3))
    true = 0.5 * inputs[:, 0] + draws.normal(size=500)
    wrong = draws.permutation(500)[:200]
    given = true.copy()
    given[wrong] += draws.uniform(2, 6, 200) * true.std()
    issues = th.audit(inputs, given)
    assert issues.summary["noise_rate"]["rate"] != 0.0, issues.summary["noise_rate"]
    assert np.isin(issues.column("id")[:200], wrong).mean() > 0.85
    right = np.setdiff1d(np.arange(500), wrong)
    expected = issues.column("expected")[np.argsort(issues.column("id"))]
    assert abs(np.median(expected[right] - true[right])) < 0.35
