"""The target column of a table: classes or real targets, by what is told or by how its values look."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from thresher.core.errors import ThresherError, unknown
from thresher.data.column_encoders import is_text, numbers_in, plain_column
from thresher.data.table_options import CLASSES, REGRESSION, TableOptions

Scale = tuple[Tensor, Tensor]  # mean and deviation of real targets, each [d]
EXACT = 2**53  # up to which decimals hold whole numbers
SURELY_CLASSES = 20  # different whole numbers
OF_EACH = 5  # examples that each of more classes has at least


@dataclass(frozen=True, eq=False)
class Targets:
    """Class ids [n] and the names of the classes, or real targets [n, d] and no names; and how that was decided."""

    values: Tensor
    names: list[str] | None
    notes: tuple[str, ...] = ()


def targets_of(rows: Any, target: str, name: str, options: TableOptions) -> Targets:
    """The targets that the column `target` holds; `a,b` names several columns of real targets."""
    wanted = target.split(",")
    for column in wanted:
        refuse_without(rows, column, name)
    if len(set(wanted)) < len(wanted):
        raise ThresherError(f"The targets {target} name a column twice: name each once.")
    given = [plain_column(rows, column) for column in wanted]
    if len(given) > 1:
        return Targets(real_targets(given, wanted), None)
    return one_target(given[0], target, CLASSES if target in options.categorical else options.task)


def refuse_without(rows: Any, target: str, name: str) -> None:
    if target not in rows.column_names:
        raise unknown(f"column in {name}", target, rows.column_names)
    if rows.column(target).null_count == len(rows):
        raise ThresherError(f"Column {target} of {name} is empty: label a few rows of each class first.")


def one_target(column: Any, name: str, task: str | None = None) -> Targets:
    """One column of targets, of the task that is told or else guessed."""
    guessed, why = _guessed(column)
    other = CLASSES if guessed == REGRESSION else REGRESSION
    notes = (f"Column {name} has {why}: --task {other} changes that.",) if why and task is None else ()
    if (task or guessed) == REGRESSION:
        return Targets(real_targets([column], [name]), None, notes)
    refuse_missing(column, name)
    values, labels = np.unique(as_labels(column).to_numpy(zero_copy_only=False).astype(object), return_inverse=True)
    if len(values) < 2:
        raise ThresherError(f"Column {name} has only the class '{values[0]}': give examples of at least two.")
    return Targets(torch.as_tensor(labels), [str(value) for value in values], notes)


def _guessed(column: Any) -> tuple[str, str]:
    """What a column of targets looks like, and why, where it may be something else.

    Decimals are real targets unless they are all 0 or 1. More than twenty different whole numbers are real targets too,
    unless they count from 0 or 1 without a gap and each is there some times, as the numbers of classes do.
    """
    kind = column.type
    if pa.types.is_floating(kind):
        different = column.drop_null().unique().to_pylist()
        if set(different) <= {0.0, 1.0}:
            return CLASSES, "only 0 and 1, which are taken for classes"
        return REGRESSION, ""
    if not pa.types.is_integer(kind):
        return CLASSES, ""
    values, counts = np.unique(column.drop_null().to_numpy(), return_counts=True)
    if len(values) <= SURELY_CLASSES:
        return CLASSES, ""
    no_gap = values[0] in (0, 1) and values[-1] - values[0] + 1 == len(values)
    if no_gap and counts.min() >= OF_EACH:
        return CLASSES, f"{len(values)} different whole numbers without a gap, which are taken for classes"
    return REGRESSION, f"{len(values)} different whole numbers, which are taken for real targets"


def as_labels(column: Any) -> Any:
    """A column of classes: decimals that are whole numbers are these."""
    if pa.types.is_floating(column.type) and all(
        value.is_integer() and abs(value) <= EXACT for value in column.drop_null().to_pylist()
    ):
        return column.cast(pa.int64())
    return column


def real_targets(columns: Sequence[Any], names: Sequence[str]) -> Tensor:
    """Real targets [n, d] of these columns."""
    for column, name in zip(columns, names, strict=True):
        refuse_missing(column, name)
        if is_text(column):
            raise ThresherError(f"Column {name} holds text: real targets must be numbers.")
    return torch.stack(
        [torch.as_tensor(numbers_in(column, name)) for column, name in zip(columns, names, strict=True)], 1
    )


def scale_of(training: Tensor, names: str) -> Scale:
    """The mean and the deviation, each [d], of the real targets [m, d] of the training rows."""
    for name, values in zip(names.split(","), training.T, strict=True):
        if (values == values[0]).all():
            raise ThresherError(
                f"Column {name} is {values[0]:g} in all training rows: leave it out, or add other rows."
            )
    return training.mean(0), training.std(0, correction=0)


def standardised(targets: Tensor, scale: Scale) -> Tensor:
    """Real targets [n, d] with this mean and deviation taken out."""
    return ((targets - scale[0]) / scale[1]).float()


def ids_of(given: Sequence[str], names: Sequence[str]) -> Tensor:
    """The ids of these classes.

    >>> ids_of(["dog", "dog", "cat"], ["cat", "dog", "emu"]).tolist()
    [1, 1, 0]
    """
    places = {name: place for place, name in enumerate(names)}
    for name in given:
        if name not in places:
            raise unknown("class among the training examples", name, names)
    return torch.tensor([places[name] for name in given])


def refuse_missing(column: Any, name: str) -> None:
    if column.null_count:
        raise ThresherError(
            f"Column {name} has {column.null_count} rows without a target: fill or remove those rows, "
            "or train with --pool to ask about them."
        )
