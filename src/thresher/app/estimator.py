"""Methods as scikit-learn estimators: they fit arrays, predict arrays, and say how far each label was believed."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from thresher.app.estimator_sets import Array, weights_of
from thresher.app.network_estimator import KINDS, Network, NetworkEstimator, What
from thresher.core.schedules import Schedule


class ThresherClassifier(ClassifierMixin, NetworkEstimator):  # type: ignore[misc]
    """A network trained by one of Thresher's methods, with the interface of scikit-learn.

    Inputs are taken as they are: put a StandardScaler before it, as for any network.
    method  by name, a Recipe, a rule or a procedure; "auto" for the one that suits, and `chosen_` says why
    class_weight  a weight for each class by its label, or "balanced"; the weight of a row is that times its own
    After fit: `classes_`, `trust_` (how far each given label was believed, 0 to 1; NaN where a row was held out or has
    the weight 0), `noise_rate_` and `noise_rate_why_`, `history_`, `models_`.

    >>> X = np.linspace(-1, 1, 60, dtype=np.float32)[:, None]
    >>> y = np.where(X[:, 0] > 0, "large", "small")
    >>> y[5] = "large"  # a wrong label
    >>> found = ThresherClassifier("standard", model="mlp:16", epochs=60, learning_rate=1e-2).fit(X, y)
    >>> found.predict([[-0.9], [0.9]]).tolist(), int(found.trust_.argmin())
    (['small', 'large'], 5)
    """

    def __init__(
        self,
        method: What = "prl-l",
        *,
        model: Network = "mlp:256x256",
        noise_rate: float | str = "auto",
        epochs: int = 50,
        batch: int = 64,
        learning_rate: float = 1e-3,
        weight_decay: float = 0.0,
        schedule: Schedule | None = None,
        class_weight: Mapping[Any, float] | str | None = None,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int | None = 10,
        device: str | None = None,
        watch: Callable[[Any], None] | None = None,
        random_state: Any = 0,
    ):
        super().__init__(
            method, model=model, noise_rate=noise_rate, epochs=epochs, batch=batch, learning_rate=learning_rate,
            weight_decay=weight_decay, schedule=schedule, early_stopping=early_stopping,
            validation_fraction=validation_fraction, n_iter_no_change=n_iter_no_change, device=device, watch=watch,
            random_state=random_state,
        )  # fmt: skip
        self.class_weight = class_weight

    def _read(self, X: ArrayLike, y: ArrayLike) -> tuple[Array, Array]:  # noqa: N803
        inputs, labels = validate_data(self, X, y, allow_nd=True, dtype=KINDS)
        check_classification_targets(labels)
        self.classes_ = np.unique(labels)
        return inputs, labels

    def _weights(self, sample_weight: ArrayLike | None, y: Array) -> Array | None:
        weights = weights_of(sample_weight, len(y))
        counted = self.classes_ if weights is None else np.unique(y[weights > 0])
        if len(counted) < 2:
            raise ValueError(f"There is one class only, '{counted[0]}': give labels of at least two classes.")
        if self.class_weight is None:
            return weights
        by_class = compute_sample_weight(self.class_weight, y)
        if not (np.isfinite(by_class).all() and (by_class >= 0).all()):
            raise ValueError("class_weight has weights that are negative or not finite: give numbers of at least 0.")
        return np.asarray(by_class if weights is None else by_class * weights)

    def _targets(self, y: Array, weights: Array | None) -> Mapping[str, Any]:  # noqa: ARG002
        return {"targets": torch.from_numpy(np.searchsorted(self.classes_, y)), "classes": len(self.classes_)}

    def predict_proba(self, X: ArrayLike) -> Array:  # noqa: N803
        """The probability of each class [n, classes], the mean over the networks of methods that train several."""
        return self._outputs(X).softmax(2).mean(0).numpy()

    def predict(self, X: ArrayLike) -> Array:  # noqa: N803
        """The likeliest class of each example [n]."""
        likeliest = self.predict_proba(X).argmax(1)
        return np.asarray(self.classes_[likeliest])


class ThresherRegressor(RegressorMixin, NetworkEstimator):  # type: ignore[misc]
    """The same for real targets [n] or [n, d], of any scale: each is standardised for the network and back."""

    def _read(self, X: ArrayLike, y: ArrayLike) -> tuple[Array, Array]:  # noqa: N803
        inputs, targets = validate_data(self, X, y, allow_nd=True, dtype=KINDS, multi_output=True, y_numeric=True)
        self.flat_ = targets.ndim == 1
        return inputs, targets.astype(np.float64).reshape(len(targets), -1)

    def _targets(self, y: Array, weights: Array | None) -> Mapping[str, Any]:
        counted = y if weights is None else y[weights > 0]
        self.target_mean_, deviation = counted.mean(0), counted.std(0)
        self.target_scale_ = np.where(deviation > 0, deviation, 1.0)
        scale = (torch.from_numpy(self.target_mean_), torch.from_numpy(self.target_scale_))
        standard = (y - self.target_mean_) / self.target_scale_
        return {"targets": torch.from_numpy(standard.astype(np.float32)), "target_scale": scale}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def predict(self, X: ArrayLike) -> Array:  # noqa: N803
        """The predicted targets, in the shape and unit that y had."""
        found = self._outputs(X).mean(0).double().numpy() * self.target_scale_ + self.target_mean_
        return np.asarray(found[:, 0] if self.flat_ else found)
