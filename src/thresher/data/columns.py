"""Columns of a table as inputs: numbers standardised, texts as categories, both settled by the training rows."""

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from thresher.core.errors import ThresherError

MOST_CATEGORIES = 1000
NEARLY_ALL = 0.9  # of the training rows

Array = np.ndarray[Any, Any]
Encode = Callable[[Any], Array]  # a column -> the input columns [n, k] that it becomes


def encoders_of(rows: Any, target: str, train: Tensor, path: Path) -> dict[str, Encode]:
    """How each column that predicts becomes inputs, settled by the training rows."""
    names = [name for name in rows.column_names if name not in target.split(",")]
    if not names:
        raise ThresherError(f"{path} has no column beside {target}: give it some to predict from.")
    columns = {name: plain(rows, name) for name in names}
    return {
        name: (_category_encoder if is_text(column) else _number_encoder)(column, name, train.numpy())
        for name, column in columns.items()
    }


def inputs_of(rows: Any, encoders: Mapping[str, Encode]) -> Tensor:
    """The inputs [n, k] that all these columns become."""
    made = [torch.as_tensor(encode(plain(rows, name))).float() for name, encode in encoders.items()]
    return torch.cat(made, 1)


def plain(rows: Any, name: str) -> Any:
    """One column in one piece: strings, or numbers with nulls where they are missing."""
    column = rows.column(name).combine_chunks()
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
        kind = column.type
    if pa.types.is_decimal(kind):
        return column.cast(pa.float64())
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind) or is_text(column):
        return column
    if pa.types.is_null(kind):
        raise ThresherError(f"Column {name} is empty: remove it.")
    raise ThresherError(f"Column {name} holds {kind} values: turn them into numbers or text, or remove the column.")


def is_text(column: Any) -> bool:
    return bool(pa.types.is_string(column.type) or pa.types.is_large_string(column.type))


def _number_encoder(column: Any, name: str, train: Array) -> Encode:
    values = finite(column, name)
    missing = np.isnan(values)
    if missing[train].all():
        raise ThresherError(f"Column {name} is empty: remove it.")
    median = np.median(values[train][~missing[train]])
    filled = np.where(missing, median, values)[train]
    mean, deviation = filled.mean(), filled.std() or 1.0

    def encode(column: Any) -> Array:
        values = finite(column, name)
        gaps = np.isnan(values)
        standard = (np.where(gaps, median, values) - mean) / deviation
        return np.stack([standard, gaps] if missing.any() else [standard], 1)

    return encode


def finite(column: Any, name: str) -> Array:
    """A column as numbers, NaN where they are missing."""
    values = np.array(column.cast(pa.float64()).to_numpy(zero_copy_only=False), dtype=np.float64)
    if np.isinf(values).any():
        raise ThresherError(f"Column {name} has infinite values: correct or remove those rows.")
    return values


def _category_encoder(column: Any, name: str, train: Array) -> Encode:
    known = np.unique(_texts(column)[train])
    if len(known) > MOST_CATEGORIES:
        raise ThresherError(f"Column {name} has {len(known)} different texts: remove it, or group them to fewer.")
    if len(known) > NEARLY_ALL * len(train):
        warnings.warn(
            f"Column {name} has another text in nearly every row, from which nothing can be learnt: leave it out.",
            stacklevel=2,
        )
    # A category that no training row has is a row of zeros.
    return lambda column: np.asarray(_texts(column)[:, None] == known[None, :])


def _texts(column: Any) -> Array:
    return np.array([value or "" for value in column.to_pylist()])  # "" stands for a missing value
