"""What the estimators share: how a network is trained on X and y by a method, and what is remembered of it."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn

from thresher.app.estimator_sets import Array, RowSets, clean_rows, patience, refuse_without_clean, sets_of, weights_of
from thresher.core.errors import Kind, is_number, or_none, refuse_class, refuse_other_kinds, takes, whole
from thresher.core.examples import Examples
from thresher.core.recipe import Recipe
from thresher.core.rule import Rule
from thresher.core.schedules import Schedule
from thresher.door import estimate_by_folds, fit
from thresher.engine.run import Run
from thresher.engine.settings import TrainSettings
from thresher.engine.step.learner import evaluating
from thresher.models import build
from thresher.noise import Estimate

AT_ONCE = 1024  # examples that predict sees at a time
KINDS = [np.float32, np.uint8]  # bytes stay bytes at first; everything else becomes the first
What = str | Recipe | Rule | Callable[..., Any]
Network = str | Callable[[tuple[int, ...], int], nn.Module]


SETTINGS: dict[str, Kind] = {  # of those settings that `fit` is not given as they are
    "model": (lambda each: isinstance(each, str) or takes(each, 2), "a name, or a function of shape and outputs"),
    "batch": whole(1),
    "validation_fraction": (is_number, "a share, such as 0.1"),
    "n_iter_no_change": or_none(whole(1)),
}


class NetworkEstimator(BaseEstimator):  # type: ignore[misc]
    """What classifier and regressor share.

    method      a name that `thresher methods` lists, or a Recipe, a rule or a procedure, as `thresher.fit` takes them
    model       a name that `thresher.models.build` knows, or a function (input shape, outputs) -> nn.Module
    noise_rate  the share of wrong targets to assume; "auto" lets the run find it, "folds" trainings that hold out rows
    learning_rate, weight_decay  of Adam; for other optimizers call `thresher.fit`
    early_stopping  keep the epoch that did best on `validation_fraction` of the rows, as noisy as the others; stop
                once none was better for `n_iter_no_change` epochs (None: train to the end)
    watch       told after every step and epoch, as in `fit`; for a progress bar of your own
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
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int | None = 10,
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
        self.weight_decay = weight_decay
        self.schedule = schedule
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.device = device
        self.watch = watch
        self.random_state = random_state

    @abstractmethod
    def _read(self, X: ArrayLike, y: ArrayLike) -> tuple[Array, Array]:  # noqa: N803
        """X and y, checked."""

    @abstractmethod
    def _targets(self, y: Array, weights: Array | None) -> Mapping[str, Any]:
        """The targets as `Examples` takes them."""

    def _weights(self, sample_weight: ArrayLike | None, y: Array) -> Array | None:
        return weights_of(sample_weight, len(y))

    def fit(
        self,
        X: ArrayLike,  # noqa: N803  # scikit-learn's name
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        clean: ArrayLike | None = None,
    ) -> Self:
        """Train on X and y.

        sample_weight  [n] how far each row counts, beside what the method says; 0 leaves it out
        clean          [n] of True and False: the rows of X whose y can be trusted, for methods like l2rw. Being rows of
                       X, they pass through the steps of a pipeline, and a search splits them as it splits X
        """
        refuse_class("model", self.model)
        refuse_other_kinds(SETTINGS, {name: getattr(self, name) for name in SETTINGS})
        inputs, given = self._read(X, y)
        weights = self._weights(sample_weight, given)
        self.pixels_ = inputs.dtype == np.uint8 and inputs.ndim > 2
        rows = Examples(self._inputs(inputs), **self._targets(given, weights), name="X")
        trusted = clean_rows(clean, len(rows))
        refuse_without_clean(self.method, trusted)
        sets = sets_of(rows, weights, trusted, self.validation_fraction if self.early_stopping else None)
        self._train(sets, len(rows))
        return self

    def _train(self, sets: RowSets, rows: int) -> None:
        train, stops = sets.train, sets.validation is not None
        settings = TrainSettings(
            epochs=self.epochs,
            batch=min(self.batch, len(train)),
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            schedule=self.schedule,
            keep="best_on_validation" if stops else "last",
            device=self.device,
            seed=int(check_random_state(self.random_state).randint(2**31)),
        )
        by_folds = None
        if self.noise_rate == "folds":
            by_folds = estimate_by_folds(train, lambda: self._network(train), settings)
        run = fit(
            self.method,
            lambda: self._network(train),
            train,
            noise_rate=self.noise_rate if by_folds is None else by_folds.assumed,
            clean=sets.clean,
            validation=sets.validation,
            until=patience(self.n_iter_no_change) if stops else None,
            watch=self.watch,
            settings=settings,
        )
        self._remember(run, by_folds, rows)

    def _remember(self, run: Run, by_folds: Estimate | None, rows: int) -> None:
        """The fitted attributes that all methods have."""
        self.models_, self.history_, self.n_iter_ = list(run.models), run.history, len(run.history)
        ids, trust = run.trust()
        self.trust_ = np.full(rows, np.nan, np.float32)  # rows that were left or held out stay without one
        self.trust_[ids.numpy()] = trust.numpy()
        found = next((record["noise_rate"] for record in run.history if record.get("noise_rate")), None)
        if by_folds is not None:
            found = {"rate": by_folds.rate, "why": by_folds.why}
        elif found is None:
            told = isinstance(self.noise_rate, int | float)
            found = {"rate": self.noise_rate if told else None, "why": "given" if told else "the method asks for none"}
        self.noise_rate_, self.noise_rate_why_ = found["rate"], found["why"]
        self.chosen_ = run.about.get("chosen")

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
        examples = Examples(inputs, torch.zeros(len(inputs)), name="X")
        rows, found = torch.split(torch.arange(len(examples)), AT_ONCE), []
        for model in self.models_:
            device = next(model.parameters()).device
            with evaluating(model):
                parts = [model(part.to(device)).float().cpu() for part in examples.batches(rows)]
            found.append(torch.cat(parts))
        return torch.stack(found)
