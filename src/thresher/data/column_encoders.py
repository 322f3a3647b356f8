"""Columns of a table as inputs: numbers are standardised, texts become categories, both by the training rows.

Not by scikit-learn's ColumnTransformer, whose fitted state can only be stored as a pickle: an encoder here is a few
numbers or texts, which a run folder holds as JSON.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from thresher.core.errors import ThresherError

MOST_CATEGORIES = 1000
NEARLY_ALL = 0.9  # of the training rows

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Numbers:
    """(x - mean) / deviation, where a missing x is the median; and, if `marks_gaps`, a second column that is 1 there.

    >>> Numbers("age", median=2.0, mean=1.0, deviation=0.5, marks_gaps=True)(pa.array([1.5, None])).tolist()
    [[1.0, 0.0], [2.0, 1.0]]
    """

    kind: ClassVar[str] = "numbers"
    type: ClassVar[Any] = pa.float64()
    column: str
    median: float
    mean: float
    deviation: float
    marks_gaps: bool

    def __call__(self, column: Any) -> Array:
        values = numbers_in(column, self.column)
        gaps = np.isnan(values)
        standard = (np.where(gaps, self.median, values) - self.mean) / self.deviation
        return np.stack([standard, gaps] if self.marks_gaps else [standard], 1)

    def as_record(self) -> dict[str, Any]:
        """The encoder as values that JSON knows."""
        return {"kind": self.kind, **asdict(self)}


@dataclass(frozen=True)
class Categories:
    """One column a known text, 1 where the text is that one; a missing text is "", an unknown one all zeros.

    >>> Categories("town", known=("", "Bonn"))(pa.array(["Bonn", None, "Rome"])).astype(int).tolist()
    [[0, 1], [1, 0], [0, 0]]
    """

    kind: ClassVar[str] = "categories"
    type: ClassVar[Any] = pa.string()
    column: str
    known: tuple[str, ...]

    def __call__(self, column: Any) -> Array:
        return np.asarray(_texts(column)[:, None] == np.array(self.known)[None, :])

    def as_record(self) -> dict[str, Any]:
        """The encoder as values that JSON knows."""
        return {"kind": self.kind, "column": self.column, "known": list(self.known)}


Encoder = Numbers | Categories


def encoder_from_record(record: Mapping[str, Any]) -> Encoder:
    """The encoder that `as_record` described.

    >>> town = Categories("town", known=("Bonn",))
    >>> encoder_from_record(town.as_record()) == town
    True
    """
    values = dict(record)
    kind = values.pop("kind")
    if kind == Categories.kind:
        return Categories(values["column"], tuple(values["known"]))
    if kind == Numbers.kind:
        return Numbers(**values)
    raise ValueError(f"there is no kind of column {kind!r}")


def encoders_of(rows: Any, targets: Sequence[str], train: Tensor, name: str) -> tuple[Encoder, ...]:
    """The encoders of all columns but the targets, fitted to the training rows."""
    wanted = [column for column in rows.column_names if column not in targets]
    if not wanted:
        raise ThresherError(f"There is no column beside {', '.join(targets)} in {name}: add some to predict from.")
    columns = {column: plain_column(rows, column) for column in wanted}
    return tuple(
        (_fit_categories if is_text(values) else _fit_numbers)(values, column, train.numpy())
        for column, values in columns.items()
    )


def inputs_of(rows: Any, encoders: Sequence[Encoder]) -> Tensor:
    """The inputs [n, k] that these columns of the rows become."""
    made = [torch.as_tensor(encoder(plain_column(rows, encoder.column))).float() for encoder in encoders]
    return torch.cat(made, 1)


def plain_column(rows: Any, name: str) -> Any:
    """One column in one piece: texts, or numbers with nulls where they are missing."""
    column = decoded(rows.column(name).combine_chunks())
    kind = column.type
    if pa.types.is_decimal(kind):
        return column.cast(pa.float64())
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind) or is_text(column):
        return column
    if pa.types.is_null(kind):
        raise ThresherError(f"Column {name} is empty: remove it.")
    raise ThresherError(f"Column {name} holds {kind} values: turn them into numbers or text, or remove the column.")


def decoded(column: Any) -> Any:
    """A column of dictionary codes, such as a categorical of pandas, or of views of texts, as plain values."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.cast(pa.string()) if str(column.type) == "string_view" else column  # which polars gives


def is_text(column: Any) -> bool:
    return bool(pa.types.is_string(column.type) or pa.types.is_large_string(column.type))


def numbers_in(column: Any, name: str) -> Array:
    """A column as float64, NaN where a value is missing."""
    values = np.array(column.cast(pa.float64()).to_numpy(zero_copy_only=False), dtype=np.float64)
    if np.isinf(values).any():
        raise ThresherError(f"Column {name} has infinite values: correct or remove those rows.")
    return values


def _fit_numbers(column: Any, name: str, train: Array) -> Numbers:
    values = numbers_in(column, name)
    missing = np.isnan(values)
    if missing[train].all():
        raise ThresherError(f"Column {name} is empty: remove it.")
    median = np.median(values[train][~missing[train]])
    filled = np.where(missing, median, values)[train]
    mean, deviation = filled.mean(), filled.std() or 1.0
    return Numbers(name, float(median), float(mean), float(deviation), marks_gaps=bool(missing.any()))


def _fit_categories(column: Any, name: str, train: Array) -> Categories:
    known = np.unique(_texts(column)[train])
    if len(known) > MOST_CATEGORIES:
        raise ThresherError(f"Column {name} has {len(known)} different texts: remove it, or group them to fewer.")
    if len(known) > NEARLY_ALL * len(train):
        warnings.warn(
            f"Column {name} has another text in nearly every row, from which nothing can be learnt: leave it out.",
            stacklevel=2,
        )
    return Categories(name, tuple(known.tolist()))


def _texts(column: Any) -> Array:
    return np.array([value or "" for value in column.to_pylist()])  # "" stands for a missing value
