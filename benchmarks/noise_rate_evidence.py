"""What an estimate of the noise rate is made from, for each cell of benchmarks/noise_rate.py."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor
from sklearn.linear_model import HuberRegressor, LogisticRegression
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from thresher import Examples, Recipe, fit
from thresher.corruption import corrupt
from thresher.methods import METHODS
from thresher.models import build
from thresher.noise import out_of_fold
from thresher.noise.folds import TRIMMED
from thresher.noise.noise_rate import NoiseRate, estimated

Array = np.ndarray[Any, Any]

FOLDS, EPOCHS, BATCH, NEIGHBOURS = 5, 15, 64, 10
ONE_SIDED = 6.0  # deviations of the targets that a one-sided outlier lies above its true value, at the most


@dataclass(frozen=True)
class Cell:
    """One question: a set, a model that judges it, how its labels are made wrong, and a seed."""

    set: str
    model: str
    corruption: str | None  # "given": the labels that people gave
    seed: int

    def file(self) -> str:
        return "_".join(str(part) for part in asdict(self).values()).replace(":", "-") + ".npz"


def evidence(cell: Cell, sets: Path, kept: Path | None) -> dict[str, Any]:
    """Out-of-sample probabilities or residuals, neighbours' votes, given and true labels, and what a run itself found.

    What was computed before is read from the folder `kept`.
    """
    path = None if kept is None else kept / cell.file()
    if path is not None and path.exists():
        with np.load(path, allow_pickle=False) as stored:
            return dict(stored)
    found = _evidence(cell, sets)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(path, **found)
    return found


def _evidence(cell: Cell, sets: Path) -> dict[str, Any]:
    with np.load(sets / f"{cell.set}.npz") as stored:
        data = dict(stored)
    if "probabilities" in data:
        return {
            "probabilities": data["probabilities"].astype(np.float32),
            "given": data["given"],
            "true": data["labels"],
        }
    true = data["labels"] if data["labels"].ndim > 1 else data["labels"].astype(np.int64)
    train = _examples(data["inputs"], true)
    given = data["given"].astype(np.int64) if cell.corruption == "given" else _corrupted(train, cell)
    train = _examples(data["inputs"], given, train.classes)
    judge = _by_sklearn if cell.model in SKLEARN else _by_network
    found = {"given": given, "true": true, **judge(cell, train, given)}
    if not train.is_regression:
        found["votes"] = _votes(train.inputs.flatten(1).numpy(), given, train.classes)  # type: ignore[union-attr,arg-type]
    return found


def _examples(inputs: Array, targets: Array, classes: int | None = None) -> Examples:
    if inputs.dtype == np.uint8:
        inputs = np.moveaxis(inputs, 3, 1).astype(np.float32)
        inputs = (inputs - inputs.mean()) / inputs.std()
    if targets.ndim > 1:
        return Examples(torch.from_numpy(inputs), torch.from_numpy(targets.astype(np.float32)))
    classes = int(targets.max()) + 1 if classes is None else classes
    return Examples(torch.from_numpy(inputs), torch.from_numpy(targets), classes=classes)


def _corrupted(train: Examples, cell: Cell) -> Array:
    if cell.corruption is None:
        return train.targets.numpy()
    name, _, rate = cell.corruption.partition(":")
    if name != "onesided":
        return corrupt(train, cell.corruption, seed=cell.seed).targets.numpy()
    draws, values = np.random.default_rng(cell.seed), train.targets.numpy().copy()
    wrong = draws.permutation(len(values))[: round(float(rate) * len(values))]
    values[wrong] += draws.uniform(2, ONE_SIDED, (len(wrong), 1)).astype(np.float32) * values.std(0)
    return values


SKLEARN: dict[str, tuple[BaseEstimator, BaseEstimator]] = {  # for classes, for real targets
    "linear": (
        make_pipeline(StandardScaler(), LogisticRegression(C=0.01, max_iter=100)),
        make_pipeline(StandardScaler(), HuberRegressor(max_iter=300)),
    ),
    "loose-linear": (make_pipeline(StandardScaler(), LogisticRegression(C=10.0, max_iter=200)), HuberRegressor()),
    "trees": (
        ExtraTreesClassifier(100, min_samples_leaf=2, random_state=0),
        ExtraTreesRegressor(100, min_samples_leaf=5, criterion="squared_error", random_state=0),
    ),
}


def _by_sklearn(cell: Cell, train: Examples, given: Array) -> dict[str, Array]:
    inputs = train.inputs.flatten(1).numpy()  # type: ignore[union-attr]
    folds = KFold(FOLDS, shuffle=True, random_state=cell.seed)
    if train.is_regression:
        predicted = cross_val_predict(SKLEARN[cell.model][1], inputs, given[:, 0], cv=folds)
        return {"residuals": given - predicted[:, None]}
    judged = cross_val_predict(SKLEARN[cell.model][0], inputs, given, cv=folds, method="predict_proba")
    probabilities = np.zeros((len(given), train.outputs))
    probabilities[:, np.unique(given)] = judged
    return {"probabilities": probabilities.astype(np.float32)}


def _by_network(cell: Cell, train: Examples, given: Array) -> dict[str, Array]:
    make = partial(build, cell.model, input_shape=train.input_shape, outputs=train.outputs)
    settings: dict[str, Any] = {"batch": BATCH, "seed": cell.seed, "device": "cpu"}
    epochs = estimated().after + 1
    recipe = METHODS["prl-l"].recipe(noise_rate="auto", classes=train.classes, epochs=epochs)
    watched: list[dict[str, Array]] = []

    class Watching(NoiseRate):
        def observe(self, epoch: int, networks: Sequence[Mapping[str, Array]]) -> None:
            watched.append(dict(networks[0]))
            super().observe(epoch, networks)

    with patch.object(estimated, "observer", Watching):
        found = fit(recipe, make, train, epochs=epochs, **settings).history[-1]["noise_rate"]
    rate = np.nan if found["rate"] is None else found["rate"]
    auto: dict[str, Any] = {"auto": np.asarray([rate, found["low"], found["high"]])}
    if not train.is_regression:  # what the estimate was made from, for another estimate
        for column in ("prediction", "confidence"):
            auto[f"run_{column}"] = np.stack([each[column] for each in watched[: estimated().after]])
    outputs = out_of_fold(
        TRIMMED if train.is_regression else Recipe(), make, train, folds=FOLDS, epochs=EPOCHS, **settings
    )
    if train.is_regression:
        return auto | {"residuals": given - outputs.numpy()}
    return auto | {"probabilities": outputs.softmax(1).numpy()}


def _votes(inputs: Array, given: Array, classes: int) -> Array:
    """The share of each class [n, classes] among the labels of each example's nearest others."""
    near = NearestNeighbors(n_neighbors=NEIGHBOURS).fit(inputs).kneighbors(return_distance=False)
    return np.eye(classes, dtype=np.float32)[given[near]].mean(1)
