"""What the columns of a table become, fitted to its training rows: inputs, ids that are carried along, or nothing."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from torch import Tensor

from thresher.core.errors import ThresherError
from thresher.data.column_encoders import (
    Array,
    Categories,
    Dates,
    Encoder,
    Numbers,
    days_in,
    is_text,
    numbers_in,
    plain_column,
    texts_in,
)
from thresher.data.table_options import TableOptions

MOST_CATEGORIES = 100  # of a column: a rarer text counts as an unknown one, so that inputs stay narrow
NEARLY_ALL = 0.9  # of the rows have a text of their own: such a column names its rows
FEW = 20  # rows, of which nothing of this kind can be said
ID_NAME = re.compile(r"(?i)(.*[_\W])?(id|ids|uuid|guid|index|idx|row)$|unnamed: \d+$|(?-i:.*[a-z]I[dD]$)")


@dataclass(frozen=True)
class FittedColumns:
    """The encoders of the inputs, the columns that name a row and are carried along, and what a person should know."""

    encoders: tuple[Encoder, ...]
    carried: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def fit_columns(
    rows: Any, targets: Sequence[str], train: Tensor, name: str, options: TableOptions | None = None
) -> FittedColumns:
    """What all columns but the targets, the group and those to drop become, by the training rows."""
    options = TableOptions() if options is None else options
    apart = {*targets, *options.drop, options.groups}
    wanted = [column for column in rows.column_names if column not in apart]
    if not wanted:
        raise ThresherError(f"There is no column beside {', '.join(targets)} in {name}: add some to predict from.")
    at = train.numpy()
    encoders: list[Encoder] = []
    carried = [] if options.groups is None else [options.groups]
    notes: list[str] = []
    for column in wanted:
        values = plain_column(rows, column)
        if _is_empty(values, at):
            notes.append(f"Column {column} is empty: it is left out.")
        elif column not in options.categorical and _names_rows(values, column):
            carried.append(column)
            notes.append(f"Column {column} has another value in nearly every row: it is no input, and carried along.")
        else:
            made, note = _fitted(values, column, at, column in options.categorical)
            encoders.append(made)
            notes += note
    if not encoders:
        raise ThresherError(
            f"There is nothing to predict from in {name} ({' '.join(notes).rstrip('.')}): add columns; of texts, the "
            "numbers of an encoder in a list column."
        )
    return FittedColumns(tuple(encoders), tuple(carried), tuple(notes))


def _fitted(values: Any, name: str, train: Array, is_category: bool) -> tuple[Encoder, list[str]]:
    """The encoder of a column, and what should be known about it."""
    if is_category or is_text(values):
        return _fit_categories(values, name, train)
    fit = _fit_dates if pa.types.is_timestamp(values.type) else _fit_numbers
    return fit(values, name, train), []


def _is_empty(values: Any, train: Array) -> bool:
    """Whether no training row has a value."""
    if pa.types.is_floating(values.type):
        return bool(np.isnan(values.to_numpy(zero_copy_only=False)[train]).all())
    return bool(values.take(pa.array(train)).null_count == len(train))


def _names_rows(column: Any, name: str) -> bool:
    """Whether a column names its rows: texts that nearly all differ, or whole numbers called an id that all do."""
    present = column.drop_null()
    whole = pa.types.is_integer(column.type)
    if len(present) < FEW or not (is_text(column) or (whole and ID_NAME.match(name))):
        return False
    different = len(present.unique())
    return bool(different == len(present) if whole else different > NEARLY_ALL * len(present))


def _fit_numbers(column: Any, name: str, train: Array) -> Numbers:
    values = numbers_in(column, name)
    missing = np.isnan(values)
    median = np.median(values[train][~missing[train]])
    filled = np.where(missing, median, values)[train]
    mean, deviation = filled.mean(), filled.std() or 1.0
    return Numbers(name, float(median), float(mean), float(deviation), marks_gaps=bool(missing.any()))


def _fit_dates(column: Any, name: str, train: Array) -> Dates:
    days = days_in(column)
    missing = np.isnan(days)
    known = days[train][~missing[train]]
    has_times = bool((known % 1 != 0).any())
    return Dates(name, float(known.mean()), float(known.std() or 1.0), has_times, marks_gaps=bool(missing.any()))


def _fit_categories(column: Any, name: str, train: Array) -> tuple[Categories, list[str]]:
    """The categories, at most the commonest `MOST_CATEGORIES`, and a note where there are others."""
    found = texts_in(column).take(pa.array(train)).value_counts()
    counts = dict(zip(found.field("values").to_pylist(), found.field("counts").to_pylist(), strict=True))
    commonest = sorted(counts, key=lambda text: (-counts[text], text))[:MOST_CATEGORIES]
    made = Categories(name, tuple(sorted(commonest)))
    if len(counts) == len(commonest):
        return made, []
    covered = sum(counts[text] for text in commonest) / len(train)
    said = f"the {MOST_CATEGORIES} commonest are inputs ({covered:.0%} of the rows), the others count as unknown"
    return made, [f"Column {name} has {len(counts):,} different texts: {said}."]
