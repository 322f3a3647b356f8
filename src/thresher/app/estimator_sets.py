"""From rows of X to the sets of a training: their weights, those that can be trusted, and those held out."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_array

from thresher.core.errors import ThresherError
from thresher.core.examples import Examples
from thresher.core.recipe import Recipe
from thresher.core.rule import needs_of
from thresher.data import hold_out
from thresher.engine.store.checkpoint import Record
from thresher.methods import AUTO, method

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class RowSets:
    """The rows to train on, those of them that can be trusted, and those that early stopping watches."""

    train: Examples
    clean: Examples | None
    validation: Examples | None


def weights_of(sample_weight: ArrayLike | None, rows: int) -> Array | None:
    """How far each row counts [n], as numbers that are not negative and not all 0."""
    if sample_weight is None:
        return None
    if np.isscalar(sample_weight):
        return np.full(rows, float(sample_weight))  # type: ignore[arg-type]
    weights = check_array(sample_weight, ensure_2d=False, allow_nd=False, dtype=np.float64, input_name="sample_weight")
    if weights.shape != (rows,):
        raise ValueError(f"sample_weight has the shape {weights.shape}, and X has {rows} rows: give one weight a row.")
    if (weights < 0).any():
        raise ValueError("sample_weight has negative values: give weights of at least 0.")
    if not weights.any():
        raise ValueError("All weights in sample_weight are zero: leave some rows a weight.")
    return np.asarray(weights)


def clean_rows(clean: ArrayLike | None, rows: int) -> Array | None:
    """The mask of the rows that can be trusted [n]."""
    if clean is None:
        return None
    if isinstance(clean, tuple):
        raise ThresherError(
            "clean is a mask over the rows of X, as a pair of arrays would pass around the steps of a pipeline: add "
            "those rows to X and y, and give True for them."
        )
    mask = np.asarray(clean)
    if mask.dtype != bool or mask.shape != (rows,):
        raise ThresherError(
            f"clean holds {mask.dtype} of the shape {mask.shape}, and X has {rows} rows: give a True or False a row."
        )
    if not mask.any():
        raise ThresherError("clean is False for every row: give True for rows of X whose y can be trusted.")
    return mask


def refuse_without_clean(what: Any, trusted: Array | None) -> None:
    """Refuse a method or recipe that reads what scikit-learn's arrays do not have, or that `clean` would give."""
    name = what if isinstance(what, str) else "This recipe"
    needs = _needs(what)
    if "clean" in needs and trusted is None:
        raise ThresherError(
            f"{name} learns from rows that can be trusted: give fit(X, y, clean=mask), True where y has been checked."
        )
    if "column is_corrupt" in needs:
        raise ThresherError(f"{name} must be told which of y are wrong, as benchmarks can: choose another method.")


def _needs(what: Any) -> frozenset[str]:
    if what == AUTO:  # chooses by what there is
        return frozenset()
    if isinstance(what, str):
        return frozenset(method(what).needs)
    rules = (what.each_batch, what.each_epoch) if isinstance(what, Recipe) else ()
    return frozenset().union(*(needs_of(rule) for rule in rules if rule is not None))


def sets_of(rows: Examples, weights: Array | None, trusted: Array | None, held_out: float | None) -> RowSets:
    """The rows as sets: the trusted ones stay among those to train on, and none of them is held out."""
    counted = torch.ones(len(rows), dtype=torch.bool)
    if weights is not None:
        scaled = torch.from_numpy(weights / weights[weights > 0].mean())
        rows, counted = rows.with_columns(sample_weight=scaled.float()), scaled > 0
    clean = None if trusted is None else rows.subset(torch.from_numpy(trusted))
    if held_out is None:
        return RowSets(rows.subset(counted), clean, None)
    if not 0 < held_out < 1:
        raise ValueError(f"validation_fraction={held_out} is not between 0 and 1: give a share such as 0.1.")
    may_go = (counted if trusted is None else counted & torch.from_numpy(~trusted)).nonzero().flatten()
    apart = may_go[hold_out(rows.targets[may_go], held_out)[1]]
    counted[apart] = False
    return RowSets(rows.subset(counted), clean, rows.subset(apart))


def patience(epochs: int | None) -> Callable[[Record], bool] | None:
    """What stops a training once no epoch was better on the validation set for so many epochs.

    >>> stop = patience(2)
    >>> [stop({"validation": score}) for score in (0.5, 0.7, 0.6, 0.7)]
    [False, False, False, True]
    """
    if epochs is None:
        return None
    best, since = -math.inf, 0

    def until(record: Record) -> bool:
        nonlocal best, since
        since = 0 if record["validation"] > best else since + 1
        best = max(best, record["validation"])
        return since >= epochs

    return until
