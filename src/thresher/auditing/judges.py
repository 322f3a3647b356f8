"""Judges from scikit-learn: what they say about examples that they were not fitted on."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thresher.core.errors import ThresherError, is_whole, refuse_unless

Array = NDArray[Any]
STRENGTHS = (0.001, 0.01, 0.1, 1.0)  # of the linear head: C of LogisticRegression


def split_into_folds(labels: Array, folds: int, seed: int, groups: Array | None = None) -> list[tuple[Array, Array]]:
    """(fitted on, judged) positions of each fold; classes are spread over the folds and groups stay together."""
    from sklearn.model_selection import GroupKFold, KFold, StratifiedGroupKFold, StratifiedKFold

    refuse_unless("folds", folds, is_whole(folds, 0), "a whole number")
    if not 2 <= folds <= len(labels):
        raise ThresherError(f"folds={folds} leaves nothing to train on or to judge: give 2 to {len(labels)}.")
    are_classes = labels.dtype.kind != "f"
    if groups is not None and len(np.unique(groups)) < folds:
        raise ThresherError(f"There are {len(np.unique(groups))} groups for {folds} folds: give fewer folds.")
    rare = are_classes and np.bincount(labels).max() < folds
    options = {"n_splits": folds, "shuffle": True, "random_state": seed}
    if groups is None:
        made = KFold(**options) if not are_classes or rare else StratifiedKFold(**options)
    else:
        made = StratifiedGroupKFold(**options) if are_classes else GroupKFold(n_splits=folds)
    return _without_warnings(made, labels, groups)


def _without_warnings(made: Any, labels: Array, groups: Array | None) -> list[tuple[Array, Array]]:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # classes rarer than the folds are spread as far as they go
        return list(made.split(np.zeros(len(labels)), labels, groups))


def probabilities_of(
    estimator: Any,
    inputs: Any,
    labels: Array,
    classes: int,
    parts: Sequence[tuple[Array, Array]],
    weights: Array | None = None,
) -> Array:
    """Out-of-fold probabilities [n, classes] by copies of an estimator; a class that a copy never saw gets none."""
    from sklearn.base import clone

    found = np.zeros((len(labels), classes))
    for fitted, judged in parts:
        model = clone(estimator)
        told = {} if weights is None else {"sample_weight": weights[fitted]}
        model.fit(_rows(inputs, fitted), labels[fitted], **told)
        found[np.ix_(judged, np.asarray(model.classes_, int))] = model.predict_proba(_rows(inputs, judged))
    return found


def values_of(estimator: Any, inputs: Any, targets: Array, parts: Sequence[tuple[Array, Array]]) -> Array:
    """Out-of-fold predictions [n, d] of real targets by copies of an estimator."""
    from sklearn.base import clone

    found = np.zeros(targets.shape)
    for fitted, judged in parts:
        for column, given in enumerate(targets.T):
            model = clone(estimator).fit(_rows(inputs, fitted), given[fitted])
            found[judged, column] = model.predict(_rows(inputs, judged))
    return found


def _rows(inputs: Any, places: Array) -> Any:
    return inputs.iloc[places] if is_pandas(inputs) else inputs[places]


def is_pandas(inputs: Any) -> bool:
    """Whether these are rows of pandas."""
    return type(inputs).__module__.partition(".")[0] == "pandas"


def linear_head(strength: float) -> Any:
    """Multinomial logistic regression on standardised features."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), LogisticRegression(C=strength, max_iter=300, tol=1e-3))


def forest(seed: int) -> Any:
    """Extremely randomised trees, whose leaves hold several examples so that one wrong label cannot fill one."""
    from sklearn.ensemble import ExtraTreesClassifier

    return ExtraTreesClassifier(100, min_samples_leaf=3, random_state=seed)


def boosting(seed: int) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(max_iter=60, learning_rate=0.1, min_samples_leaf=20, random_state=seed)
