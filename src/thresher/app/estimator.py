"""Methods as scikit-learn estimators: they fit arrays, predict arrays, and say how far each label was believed."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn

from thresher.core.errors import ThresherError
from thresher.core.examples import Examples
from thresher.core.schedules import Schedule
from thresher.door import fit
from thresher.engine.step.learner import evaluating
from thresher.models import build

Array = NDArray[Any]
AT_ONCE = 1024  # examples that predict sees at a time
KINDS = [np.float32, np.uint8]  # bytes stay bytes at first; everything else becomes the first


class _Estimator(BaseEstimator):  # type: ignore[misc]
    """What classifier and regressor share.

    method      a name that `thresher methods` lists
    model       a name that `thresher.models.build` knows, or a function (input shape, outputs) -> nn.Module
    noise_rate  the share of wrong targets to assume, or "auto" to let the run find it
    learning_rate  of Adam; for other optimizers call `thresher.fit`
    watch       told after every step and epoch, as in `fit`; for a progress bar of your own
    """

    def __init__(
        self,
        method: str = "prl-l",
        *,
        model: str | Callable[[tuple[int, ...], int], nn.Module] = "mlp:256x256",
        noise_rate: float | str = "auto",
        epochs: int = 50,
        batch: int = 64,
        learning_rate: float = 1e-3,
        schedule: Schedule | None = None,
        device: str | None = None,
        watch: Callable[[Any], None] | None = None,
        random_state: Any = 0,
    ):
        self.method = method
        self.model = model
        self.noise_rate = noise_rate
        self.epochs = epochs
        self.batch = batch
        self.learning_rate = learning_rate
        self.schedule = schedule
        self.device = device
        self.watch = watch
        self.random_state = random_state

    @abstractmethod
    def _read(self, X: ArrayLike, y: ArrayLike, first: bool) -> tuple[Array, Tensor]:  # noqa: N803
        """Inputs and targets as fit takes them: the first pair says what they are like, a clean one must be so too."""

    def fit(
        self,
        X: ArrayLike,  # noqa: N803  # scikit-learn's name
        y: ArrayLike,
        *,
        clean: tuple[ArrayLike, ArrayLike] | None = None,
    ) -> Self:
        """Train on examples and targets; `clean` is a pair like them that can be trusted, for methods like l2rw."""
        inputs, targets = self._read(X, y, first=True)
        self.pixels_ = inputs.dtype == np.uint8 and inputs.ndim > 2
        train = Examples(self._inputs(inputs), targets, classes=self._classes())
        if clean is None:
            return self._train(train, None)
        inputs, targets = self._read(*clean, first=False)
        ids = torch.arange(len(inputs)) + len(train)  # they are others than those to train on
        return self._train(train, Examples(self._inputs(inputs), targets, ids=ids, classes=train.classes))

    def _classes(self) -> int | None:
        return None

    def _train(self, train: Examples, clean: Examples | None) -> Self:
        run = fit(
            self.method,
            lambda: self._network(train),
            train,
            noise_rate=self.noise_rate,
            clean=clean,
            epochs=self.epochs,
            batch=min(self.batch, len(train)),
            learning_rate=self.learning_rate,
            schedule=self.schedule,
            device=self.device,
            watch=self.watch,
            seed=int(check_random_state(self.random_state).randint(2**31)),
        )
        ids, trust = run.trust()
        self.models_, self.history_, self.n_iter_ = list(run.models), run.history, len(run.history)
        self.trust_ = trust[torch.argsort(ids)][: len(train)].numpy()  # the clean examples have higher ids
        return self

    def _network(self, train: Examples) -> nn.Module:
        if isinstance(self.model, str):
            return build(self.model, input_shape=train.input_shape, outputs=train.outputs)
        return self.model(train.input_shape, train.outputs)

    def _inputs(self, values: Array) -> Tensor:
        """What the network gets: images of bytes are pixels, which count from 0 to 1; all else is taken as it is."""
        if self.pixels_ and values.dtype != np.uint8:
            raise ValueError("It was trained on images of bytes (uint8): give bytes here as well.")
        kept = values if self.pixels_ else values.astype(np.float32, copy=False)
        return torch.from_numpy(np.require(kept, requirements=["C", "W"]))

    @torch.no_grad()
    def _outputs(self, X: ArrayLike) -> Tensor:  # noqa: N803
        """The outputs of each network [networks, n, ...]."""
        check_is_fitted(self)
        inputs = self._inputs(validate_data(self, X, reset=False, allow_nd=True, dtype=KINDS))
        examples = Examples(inputs, torch.zeros(len(inputs)))
        rows, found = torch.split(torch.arange(len(examples)), AT_ONCE), []
        for model in self.models_:
            device = next(model.parameters()).device
            with evaluating(model):
                parts = [model(part.to(device)).float().cpu() for part in examples.batches(rows)]
            found.append(torch.cat(parts))
        return torch.stack(found)


class ThresherClassifier(ClassifierMixin, _Estimator):  # type: ignore[misc]
    """A network trained by one of Thresher's methods, with the interface of scikit-learn.

    Inputs are taken as they are: put a StandardScaler before it, as for any network.
    After fit: `classes_`, `trust_` (how far each given label was believed, 0 to 1), `history_`, `models_`.

    >>> X = np.linspace(-1, 1, 60, dtype=np.float32)[:, None]
    >>> y = np.where(X[:, 0] > 0, "large", "small")
    >>> y[5] = "large"  # a wrong label
    >>> found = ThresherClassifier("standard", model="mlp:16", epochs=60, learning_rate=1e-2).fit(X, y)
    >>> found.predict([[-0.9], [0.9]]).tolist(), int(found.trust_.argmin())
    (['small', 'large'], 5)
    """

    def _read(self, X: ArrayLike, y: ArrayLike, first: bool) -> tuple[Array, Tensor]:  # noqa: N803
        inputs, labels = validate_data(self, X, y, reset=first, allow_nd=True, dtype=KINDS)
        if first:
            check_classification_targets(labels)
            self.classes_ = np.unique(labels)
        if len(self.classes_) < 2:
            raise ValueError(f"There is one class only, '{self.classes_[0]}': give labels of at least two classes.")
        unknown = np.setdiff1d(labels, self.classes_)
        if len(unknown):
            raise ThresherError(f"The clean labels have '{unknown[0]}', which y does not: give labels of y's classes.")
        return inputs, torch.from_numpy(np.searchsorted(self.classes_, labels))

    def _classes(self) -> int:
        return len(self.classes_)

    def predict_proba(self, X: ArrayLike) -> Array:  # noqa: N803
        """The probability of each class [n, classes], the mean over the networks of methods that train several."""
        return self._outputs(X).softmax(2).mean(0).numpy()

    def predict(self, X: ArrayLike) -> Array:  # noqa: N803
        """The likeliest class of each example [n]."""
        likeliest = self.predict_proba(X).argmax(1)
        return np.asarray(self.classes_[likeliest])


class ThresherRegressor(RegressorMixin, _Estimator):  # type: ignore[misc]
    """The same for real targets [n] or [n, d]; scale them to about one, as for any network."""

    def _read(self, X: ArrayLike, y: ArrayLike, first: bool) -> tuple[Array, Tensor]:  # noqa: N803
        inputs, targets = validate_data(
            self, X, y, reset=first, allow_nd=True, dtype=KINDS, multi_output=True, y_numeric=True
        )
        if first:
            self.flat_ = targets.ndim == 1
        return inputs, torch.from_numpy(targets.astype(np.float32))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def predict(self, X: ArrayLike) -> Array:  # noqa: N803
        """The predicted targets, in the shape that y had."""
        found = self._outputs(X).mean(0)
        return (found[:, 0] if self.flat_ else found).double().numpy()
