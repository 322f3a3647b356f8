"""`run.weights()`: what a run knows about its examples, as the sample_weight of any other learner."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sklearn.datasets import load_digits
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from thresher import Run, fit, open_run
from thresher.record.issues import Issues


def light_gbm() -> Any:
    return pytest.importorskip("lightgbm").LGBMClassifier(n_estimators=30, min_child_samples=5, verbose=-1, n_jobs=1)


LEARNERS = {
    "LightGBM": light_gbm,
    "HistGradientBoosting": lambda: HistGradientBoostingClassifier(max_iter=30, min_samples_leaf=5),
    "LogisticRegression": lambda: LogisticRegression(C=10.0, max_iter=2000),
}


@pytest.fixture(scope="module")
def table() -> dict[str, np.ndarray]:
    """Four of the digits by name, of whose first 400 about 40% have another name."""
    inputs, numbers = load_digits(n_class=4, return_X_y=True)
    names, draws = np.array(["zero", "one", "two", "three"]), np.random.default_rng(0)
    given = np.where(draws.random(len(numbers)) < 0.4, (numbers + draws.integers(1, 4, len(numbers))) % 4, numbers)
    X = (inputs / 16).astype(np.float32)  # noqa: N806
    return {"X": X[:400], "y": names[given[:400]], "test_X": X[400:], "test_y": names[numbers[400:]]}


@pytest.fixture(scope="module")
def run(table: dict[str, np.ndarray]) -> Run:
    return fit("prl-l", "mlp:64", (table["X"], table["y"]), noise_rate=0.4, epochs=15, batch=32, seed=0)


@pytest.mark.parametrize("learner", LEARNERS)
def test_other_learners_do_better_with_the_weights_of_a_run(learner: str, run: Run, table: dict) -> None:
    weights = run.weights()
    assert weights.shape == (400,)
    assert weights.sum() == 240
    plain, helped = (LEARNERS[learner]().fit(table["X"], table["y"], sample_weight=each) for each in (None, weights))
    scores = [(found.predict(table["test_X"]) == table["test_y"]).mean() for found in (plain, helped)]
    assert scores[1] > scores[0] + 0.02


def test_without_a_rate_examples_count_as_far_as_they_are_trusted(table: dict) -> None:
    found = fit("standard", "mlp:8", (table["X"], table["y"]), epochs=2, batch=64)
    ids, trust = found.trust()
    np.testing.assert_allclose(found.weights()[ids.numpy()], trust.numpy())


def test_an_audit_in_the_folder_has_the_last_word(tmp_path: Path, table: dict) -> None:
    found = fit("standard", "mlp:8", (table["X"][:4], list("abab")), epochs=1, batch=4, out=tmp_path)
    said = {"id": [2, 0, 3, 1], "label": list("aabb"), "suggested": list("abab"), "probability": [0.5] * 4}
    said |= {"trust": [0.1, 0.2, 0.3, 0.4], "is_issue": [True] * 4, "reason": [""] * 4, "weight": [0.2, 0.0, 0.3, 0.1]}
    Issues(pa.table(said)).write(tmp_path)
    assert found.weights().tolist() == open_run(tmp_path).weights().tolist() == [0.0, 0.1, 0.2, 0.3]
