"""What the estimators take beside X and y: clean rows, weights, early stopping, recipes, noise rates and units."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_digits
from sklearn.metrics import recall_score
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from thresher import Recipe, ThresherError
from thresher.app import ThresherClassifier, ThresherRegressor
from thresher.rules import KeepSmallest, MetaGradient


def flipped(rate: float = 0.4) -> dict[str, np.ndarray]:
    """Digits as letters, some of them wrong."""
    inputs, numbers = load_digits(return_X_y=True)
    names, draws = np.array(list("abcdefghij")), np.random.default_rng(0)
    X, test_X, y, test_y = train_test_split(inputs / 16, numbers, random_state=0)  # noqa: N806
    given = np.where(draws.random(len(y)) < rate, (y + draws.integers(1, 10, len(y))) % 10, y)
    return {"X": X, "y": names[given], "truth": names[y], "test_X": test_X, "test_y": names[test_y]}


def test_clean_rows_pass_through_a_pipeline_as_all_rows_do() -> None:
    """A pair beside X once went around the scaler, silently."""
    data, stretch = flipped(0.6), np.geomspace(1, 1000, 64)
    X, tests, clean = data["X"] * stretch, data["test_X"] * stretch, np.arange(len(data["y"])) < 100  # noqa: N806
    y = np.where(clean, data["truth"], data["y"])
    robust = ThresherClassifier("l2rw", model="mlp:32", epochs=15, learning_rate=3e-3)
    piped = make_pipeline(StandardScaler(), robust).fit(X, y, thresherclassifier__clean=clean)
    scaler = StandardScaler().fit(X)
    by_hand = clone(robust).fit(scaler.transform(X), y, clean=clean)
    np.testing.assert_array_equal(piped.predict_proba(tests), by_hand.predict_proba(scaler.transform(tests)))
    assert piped.score(tests, data["test_y"]) > 0.8
    assert piped[-1].trust_.shape == y.shape
    with pytest.raises(ThresherError, match=r"mask over the rows of X.* pipeline: add those rows to X and y"):
        piped.fit(X, y, thresherclassifier__clean=(data["X"][:50], data["truth"][:50]))


def test_a_search_splits_the_mask_as_it_splits_the_rows() -> None:
    data = flipped(0.6)
    search = GridSearchCV(ThresherClassifier("l2rw", model="mlp:16", epochs=2), {"batch": [32]}, cv=2)
    search.fit(data["X"], data["y"], clean=np.arange(len(data["y"])) < 700)
    assert search.best_estimator_.trust_.shape == data["y"].shape


@pytest.mark.parametrize(
    ("changes", "told", "said"),
    [
        ({"method": "l2rw"}, {}, r"l2rw learns from rows that can be trusted: give fit\(X, y, clean=mask\)"),
        ({"method": Recipe(each_batch=MetaGradient())}, {}, r"This recipe learns from rows .* clean=mask"),
        ({"method": "weighted-oracle"}, {}, "weighted-oracle must be told which of y are wrong"),
        ({}, {"clean": np.zeros(40, bool)}, "clean is False for every row"),
        ({}, {"clean": np.arange(3)}, "clean holds int64 of the shape .3,., and X has 40 rows"),
        ({}, {"sample_weight": np.full(40, -1.0)}, "sample_weight has negative values"),
        ({}, {"sample_weight": np.ones(3)}, "and X has 40 rows"),
        ({"early_stopping": True, "validation_fraction": 1.5}, {}, "validation_fraction=1.5"),
    ],
)
def test_what_cannot_be_trained_is_refused_in_words_of_scikit_learn(changes, told, said) -> None:
    X, y = np.random.default_rng(0).normal(size=(40, 2)), np.arange(40) % 2  # noqa: N806
    with pytest.raises((ThresherError, ValueError), match=said) as refused:
        ThresherClassifier(**({"model": "mlp:4", "epochs": 4} | changes)).fit(X, y, **told)
    assert "Examples" not in str(refused.value)


def test_clean_rows_alone_can_be_what_is_learnt() -> None:
    draws = np.random.default_rng(0)
    X = draws.normal(size=(260, 2))  # noqa: N806
    clean = np.arange(260) >= 200
    y = np.where(clean, X[:, 0] > 0, draws.integers(0, 2, 260)).astype(int)
    found = ThresherClassifier("clean-only", model="mlp:32", epochs=20, batch=32, learning_rate=1e-2)
    assert found.fit(X, y, clean=clean).score(X[clean], y[clean]) > 0.9
    assert found.trust_.shape == (260,)


def test_rows_count_as_far_as_their_weights_say() -> None:
    """Rows of weight 0 might as well hold anything; weights of classes are weights of their rows."""
    draws = np.random.default_rng(0)
    X, wrong = draws.normal(size=(300, 2)), np.arange(300) % 3 > 0  # noqa: N806
    truth = (X[:, 0] > 0).astype(int)
    y = np.where(wrong, 1 - truth, truth)
    told = {"method": "standard", "model": "mlp:16", "epochs": 20, "learning_rate": 1e-2}
    found = ThresherClassifier(**told).fit(X, y, sample_weight=(~wrong).astype(float))
    assert found.score(X, truth) > 0.95
    np.testing.assert_array_equal(np.isnan(found.trust_), wrong)
    scaled = ThresherClassifier(**told).fit(X, y, sample_weight=7.0 * ~wrong)
    np.testing.assert_allclose(scaled.predict_proba(X), found.predict_proba(X), atol=1e-5)
    by_class = ThresherClassifier(**told, class_weight={0: 3.0, 1: 1.0}).fit(X, y)
    by_row = ThresherClassifier(**told).fit(X, y, sample_weight=np.where(y == 0, 3.0, 1.0))
    np.testing.assert_array_equal(by_class.predict_proba(X), by_row.predict_proba(X))
    for several in ("crust-central", "incv"):  # an epoch rule, and a procedure of several trainings
        robust = ThresherClassifier(**(told | {"method": several, "epochs": 8, "batch": 8})).fit(X, y, ~wrong * 1.0)
        assert robust.score(X, truth) > 0.9


def test_balanced_classes_find_the_rare_one() -> None:
    draws = np.random.default_rng(0)
    y = (np.arange(1000) % 20 == 0).astype(int)
    X = draws.normal(size=(1000, 2)) + 1.2 * y[:, None]  # noqa: N806
    told = {"method": "standard", "model": "mlp:8", "epochs": 15, "learning_rate": 1e-2}
    plain, balanced = (ThresherClassifier(**told, class_weight=each).fit(X, y) for each in (None, "balanced"))
    assert recall_score(y, balanced.predict(X)) > 0.6 > 0.3 > recall_score(y, plain.predict(X))


def test_early_stopping_keeps_the_best_epoch() -> None:
    data = flipped()
    told = {"method": "standard", "model": "mlp:128", "learning_rate": 3e-3}
    found = ThresherClassifier(**told, epochs=40, early_stopping=True, n_iter_no_change=4).fit(data["X"], data["y"])
    watched = [record["validation"] for record in found.history_]
    assert found.n_iter_ == int(np.argmax(watched)) + 5 < 40
    assert np.isnan(found.trust_).mean() == pytest.approx(0.1, abs=0.01)  # those that were held out
    longer = ThresherClassifier(**told, epochs=40).fit(data["X"], data["y"])
    assert found.score(data["test_X"], data["test_y"]) > longer.score(data["test_X"], data["test_y"])


def test_weight_decay_makes_parameters_smaller() -> None:
    data = flipped()
    plain, small = (
        ThresherClassifier("standard", model="mlp:16", epochs=4, weight_decay=decay).fit(data["X"], data["y"])
        for decay in (0.0, 0.1)
    )
    sizes = [
        sum(float(each.detach().square().sum()) for each in found.models_[0].parameters()) for found in (plain, small)
    ]
    assert sizes[1] < sizes[0]


def test_the_noise_rate_and_its_reason_are_told() -> None:
    data = flipped()
    small = {"model": "mlp:32", "epochs": 5, "learning_rate": 1e-2}
    found = {
        rate: ThresherClassifier("prl-l", noise_rate=rate, **small).fit(data["X"], data["y"])
        for rate in (0.3, "auto", "folds")
    }
    assert (found[0.3].noise_rate_, found[0.3].noise_rate_why_) == (0.3, "given")
    for rate in ("auto", "folds"):
        assert found[rate].noise_rate_ == pytest.approx(0.4, abs=0.15)
        assert "%" in found[rate].noise_rate_why_
        assert found[rate].history_[-1]["kept"] == pytest.approx(1 - found[rate].noise_rate_, abs=0.03)
    assert found["auto"].noise_rate_why_ != found["folds"].noise_rate_why_
    own = ThresherClassifier(Recipe(each_batch=KeepSmallest(by="loss", fraction=0.5)), **small)
    assert clone(own).fit(data["X"], data["y"]).history_[-1]["kept"] == 0.5
    assert own.fit(data["X"], data["y"]).noise_rate_ is None
    assert own.noise_rate_why_ == "the method asks for none"
    assert own.chosen_ is None


def test_auto_chooses_a_method_by_the_rows_and_says_why() -> None:
    data = flipped()
    found = ThresherClassifier("auto", model="mlp:32", epochs=3).fit(data["X"], data["y"])
    assert found.chosen_.startswith("auto chose ")
    assert "10 classes" in found.chosen_
    chosen = found.chosen_.split()[2].strip(":,")
    named = ThresherClassifier(chosen, model="mlp:32", epochs=3).fit(data["X"], data["y"])
    np.testing.assert_array_equal(found.predict_proba(data["test_X"]), named.predict_proba(data["test_X"]))


def test_the_unit_of_targets_does_not_matter() -> None:
    """Diabetes in thousandths of its unit once had an R² of -2.7."""
    inputs, targets = load_diabetes(return_X_y=True)
    X = StandardScaler().fit_transform(inputs)  # noqa: N806
    small = {"method": "standard", "model": "mlp:32", "epochs": 30}
    plain = ThresherRegressor(**small).fit(X, targets)
    scaled = ThresherRegressor(**small).fit(X, 1000 * targets + 5e6)
    assert plain.score(X, targets) > 0.4
    np.testing.assert_allclose(scaled.predict(X), 1000 * plain.predict(X) + 5e6, rtol=1e-4)
