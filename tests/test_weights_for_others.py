"""`run.weights()`: what a run knows about its examples, as the sample_weight of any other learner."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from thresher import Run, fit, open_run
from thresher.record.issues import Issues


def light_gbm() -> Any:
    return pytest.importorskip("lightgbm").LGBMClassifier(n_estimators=60, min_child_samples=5, verbose=-1, n_jobs=1)


LEARNERS = {
    "LightGBM": light_gbm,
    "HistGradientBoosting": lambda: HistGradientBoostingClassifier(max_iter=60, min_samples_leaf=5),
    "LogisticRegression": lambda: LogisticRegression(max_iter=500),
}


@pytest.fixture(scope="module")
def table() -> dict[str, np.ndarray]:
    """Two classes, 40% of whose names are mostly those of the other; and clean rows."""
    draws = np.random.default_rng(0)
    X = draws.normal(size=(1600, 4)).astype(np.float32)  # noqa: N806
    truth = np.where(X[:, 0] + X[:, 1] > 0, "yes", "no")
    wrong = draws.random(800) < np.where(truth[:800] == "yes", 0.45, 0.05)
    y = np.where(wrong, np.where(truth[:800] == "yes", "no", "yes"), truth[:800])
    return {"X": X[:800], "y": y, "wrong": wrong, "test_X": X[800:], "test_y": truth[800:]}


@pytest.fixture(scope="module")
def run(table: dict[str, np.ndarray]) -> Run:
    return fit("prl-l", "mlp:32", (table["X"], table["y"]), noise_rate=0.25, epochs=12, batch=64, seed=0)


@pytest.mark.parametrize("learner", LEARNERS)
def test_other_learners_do_better_with_the_weights_of_a_run(learner: str, run: Run, table: dict) -> None:
    weights = run.weights()
    assert weights.shape == (800,)
    assert weights.sum() == 600
    plain, helped = (LEARNERS[learner]().fit(table["X"], table["y"], sample_weight=each) for each in (None, weights))
    scores = [(found.predict(table["test_X"]) == table["test_y"]).mean() for found in (plain, helped)]
    assert scores[1] > scores[0] + 0.03


def test_without_a_rate_examples_count_as_far_as_they_are_trusted(table: dict) -> None:
    found = fit("standard", "mlp:8", (table["X"], table["y"]), epochs=2, batch=64)
    ids, trust = found.trust()
    np.testing.assert_allclose(found.weights()[ids.numpy()], trust.numpy())


def test_an_audit_in_the_folder_has_the_last_word(tmp_path: Path, table: dict) -> None:
    found = fit("standard", "mlp:8", (table["X"][:4], table["y"][:4]), epochs=1, batch=4, out=tmp_path)
    said = {"id": [2, 0, 3, 1], "label": list("aabb"), "suggested": list("abab"), "probability": [0.5] * 4}
    said |= {"trust": [0.1, 0.2, 0.3, 0.4], "is_issue": [True] * 4, "reason": [""] * 4, "weight": [0.2, 0.0, 0.3, 0.1]}
    Issues(pa.table(said)).write(tmp_path)
    assert found.weights().tolist() == open_run(tmp_path).weights().tolist() == [0.0, 0.1, 0.2, 0.3]
