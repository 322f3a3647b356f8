"""Methods behind scikit-learn's interface: its own checks, and that nothing but `fit` decides."""

import pickle
from functools import partial

import numpy as np
import pytest
import torch
from sklearn.datasets import load_diabetes, load_digits
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch import nn

from thresher import Examples, fit
from thresher.app.estimator import ThresherClassifier, ThresherRegressor
from thresher.methods import method
from thresher.models import build

SMALL = {"model": "mlp:32", "epochs": 30, "learning_rate": 1e-2}


# A row of weight 2 is not a row twice for what draws batches by chance; scikit-learn's own networks are excused too.
BY_CHANCE = {
    f"check_sample_weight_equivalence_on_{kind}_data": "batches are drawn by chance" for kind in ("dense", "sparse")
}
ROUNDED = {"check_methods_subset_invariance": "networks compute in float32, and the check is to seven digits"}


@parametrize_with_checks(
    [ThresherClassifier(**SMALL), ThresherRegressor(**{**SMALL, "epochs": 60})],
    expected_failed_checks=lambda each: BY_CHANCE | (ROUNDED if isinstance(each, ThresherRegressor) else {}),
)
def test_scikit_learn_finds_nothing_wrong(estimator, check) -> None:
    check(estimator)


def flipped(rate: float = 0.4, seed: int = 0) -> dict[str, np.ndarray]:
    """Digits as letters, some of them wrong."""
    inputs, numbers = load_digits(return_X_y=True)
    names = np.array(list("abcdefghij"))
    draws = np.random.default_rng(seed)
    X, test_X, y, test_y = train_test_split(inputs / 16, numbers, random_state=seed)  # noqa: N806
    wrong = draws.random(len(y)) < rate
    given = np.where(wrong, (y + draws.integers(1, 10, len(y))) % 10, y)
    return {"X": X, "y": names[given], "wrong": wrong, "truth": names[y], "test_X": test_X, "test_y": names[test_y]}


def test_a_robust_method_beats_the_plain_one_and_knows_the_wrong_labels() -> None:
    data = flipped()
    scores = {}
    for name in ("standard", "prl-l"):
        found = ThresherClassifier(name, noise_rate=0.4, epochs=40).fit(data["X"], data["y"])
        scores[name] = found.score(data["test_X"], data["test_y"])
        assert roc_auc_score(~data["wrong"], found.trust_) > 0.95
    assert scores["prl-l"] > scores["standard"] + 0.05
    assert scores["prl-l"] > 0.9


def test_it_trains_as_fit_does() -> None:
    data = flipped()
    classes, numbers = np.unique(data["y"], return_inverse=True)
    found = ThresherClassifier("prl-l", model="mlp:16", noise_rate=0.4, epochs=2, random_state=7)
    found.fit(data["X"], data["y"])
    train = Examples(torch.from_numpy(data["X"].astype(np.float32)), torch.from_numpy(numbers))
    run = fit(
        method("prl-l").recipe(noise_rate=0.4, classes=10, epochs=2),
        lambda: build("mlp:16", input_shape=(64,), outputs=10),
        train,
        epochs=2,
        batch=64,
        optimizer=partial(torch.optim.Adam, lr=1e-3),
        seed=int(np.random.RandomState(7).randint(2**31)),
    )
    with torch.no_grad():
        wanted = run.model.eval()(torch.from_numpy(data["test_X"].astype(np.float32))).softmax(1).numpy()
    np.testing.assert_array_equal(found.predict_proba(data["test_X"]), wanted)
    np.testing.assert_array_equal(found.classes_, classes)
    np.testing.assert_array_equal(found.trust_, run.trust()[1].numpy())


def test_it_can_be_searched_over_piped_and_pickled() -> None:
    data = flipped()
    robust = ThresherClassifier(noise_rate=0.4, model="mlp:32", epochs=8, learning_rate=3e-3)
    piped = make_pipeline(StandardScaler(), robust)
    search = GridSearchCV(piped, {"thresherclassifier__method": ["standard", "min-sgd"]}, cv=2)
    search.fit(data["X"], data["y"])
    assert search.best_params_ == {"thresherclassifier__method": "standard"}
    again = pickle.loads(pickle.dumps(search.best_estimator_))
    np.testing.assert_array_equal(
        again.predict_proba(data["test_X"]), search.best_estimator_.predict_proba(data["test_X"])
    )


def test_the_scale_of_inputs_does_not_depend_on_their_type() -> None:
    corners = np.array([[0, 0], [0, 1], [1, 0], [1, 1]] * 20, np.uint8)
    y = corners[:, 0] ^ corners[:, 1]
    small = {"model": "mlp:32", "epochs": 60, "learning_rate": 1e-2, "batch": 16}
    columns = ThresherClassifier("standard", **small).fit(corners, y)
    assert columns.score(corners, y) == 1
    np.testing.assert_array_equal(columns.predict_proba(corners), columns.predict_proba(corners.astype(float)))
    images = corners.reshape(-1, 1, 1, 2) * 255
    pixels = ThresherClassifier("standard", **small).fit(images, y)
    assert pixels.score(images, y) == 1
    with pytest.raises(ValueError, match="give bytes"):
        pixels.predict(images.astype(int))


def test_methods_of_two_networks_predict_by_their_mean() -> None:
    data = flipped()
    found = ThresherClassifier("co-teaching", noise_rate=0.4, model="mlp:16", epochs=2).fit(data["X"], data["y"])
    assert len(found.models_) == 2
    each = found._outputs(data["test_X"]).softmax(2)
    np.testing.assert_allclose(found.predict_proba(data["test_X"]), each.mean(0), rtol=1e-6)


def test_a_procedure_and_a_network_of_ones_own_on_images() -> None:
    data = flipped()
    images = (data["X"] * 255).astype(np.uint8).reshape(-1, 1, 8, 8)

    def network(shape: tuple[int, ...], outputs: int) -> nn.Module:
        assert shape == (1, 8, 8)
        return nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, outputs))

    found = ThresherClassifier("f-correction", model=network, noise_rate=0.4, epochs=4).fit(images, data["y"])
    tests = (data["test_X"] * 255).astype(np.uint8).reshape(-1, 1, 8, 8)
    assert found.score(tests, data["test_y"]) > 0.5
    with pytest.raises(ValueError, match="features"):
        found.predict(data["test_X"])


def test_real_targets_keep_their_shape_and_trust_finds_the_corrupt() -> None:
    inputs, targets = load_diabetes(return_X_y=True)
    X = StandardScaler().fit_transform(inputs)  # noqa: N806
    y = (targets - targets.mean()) / targets.std()
    wrong = np.random.default_rng(0).random(len(y)) < 0.2
    given = np.where(wrong, -3 * y, y)
    found = ThresherRegressor("prl-l", noise_rate=0.2, model="mlp:32", epochs=60).fit(X, given)
    assert found.predict(X).shape == y.shape
    assert roc_auc_score(~wrong, found.trust_) > 0.7
    assert found.score(X, y) > 0.3
    both = found.fit(X, np.stack([given, y], 1))
    assert both.predict(X).shape == (len(y), 2)
    clean = np.arange(len(y)) < 50
    told = ThresherRegressor("l2rw", model="mlp:32", epochs=5).fit(X, np.where(clean, y, given), clean=clean)
    assert told.predict(X[:3]).shape == (3,)
