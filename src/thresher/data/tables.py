"""Tables: CSV, TSV (also .gz) and Parquet files with one example a row."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from thresher.data.splits import Splits, hold_out
from thresher.errors import ThresherError
from thresher.examples import Examples
from thresher.naming import unknown

SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")
MOST_CATEGORIES = 1000

Array = np.ndarray[Any, Any]


def table(path: Path, target: str = "target") -> Splits:
    """A table whose column `target` is to be predicted from all others; a fifth of the rows is held out as test set.

    Text, boolean and whole-number targets are classes, decimals are real targets; `a,b` names several of these.
    Inputs: numbers are standardised by the training rows, a missing one is their median with a 1 in an extra column;
    text becomes one column a category, a missing one is a category of its own. Ids are row numbers.
    """
    rows = read_table(path)
    wanted = target.split(",")
    for column in wanted:
        if column not in rows.column_names:
            raise unknown(f"column in {path.name}", column, rows.column_names)
    given = [_plain(rows, column) for column in wanted]
    targets, names = _real(given, wanted) if len(given) > 1 else _one_target(given[0], target)
    train, test = hold_out(targets)
    inputs = _all_inputs(rows, wanted, train, path)
    classes = None if names is None else len(names)
    stem = path.name.partition(".")[0]
    examples = Examples(inputs, targets, classes=classes, class_names=names, name=stem)
    return Splits(examples.subset(train), examples.subset(test))


def table_with_pool(path: Path, target: str = "target") -> tuple[Splits, Tensor]:
    """The rows to learn from, labelled or not, and those to test on; and which of the former have a label.

    A row whose cell in `target` is empty has none, and so 0 for a target. Inputs are standardised by all rows but
    those to test on, so that they stay the same while labels come in.
    """
    rows = read_table(path)
    if target not in rows.column_names:
        raise unknown(f"column in {path.name}", target, rows.column_names)
    if rows.column(target).null_count == len(rows):
        raise ThresherError(f"Column {target} of {path.name} is empty: label a few rows of each class first.")
    column = _classes_with_gaps(_plain(rows, target), target, path)
    labelled = torch.as_tensor(column.is_valid().to_numpy(zero_copy_only=False))
    labels, names = _one_target(column.drop_null(), target)
    assert names is not None
    _, held_out = hold_out(labels)
    learn = torch.ones(len(labelled), dtype=torch.bool)
    learn[labelled.nonzero().flatten()[held_out]] = False
    targets = torch.zeros(len(labelled), dtype=torch.long)
    targets[labelled] = labels
    inputs = _all_inputs(rows, [target], learn.nonzero().flatten(), path)
    stem = path.name.partition(".")[0]
    examples = Examples(inputs, targets, classes=len(names), class_names=names, name=stem)
    return Splits(examples.subset(learn), examples.subset(~learn)), labelled[learn]


def _classes_with_gaps(column: Any, name: str, path: Path) -> Any:
    """A column of classes with some cells empty, refused if it is none."""
    if pa.types.is_floating(column.type) and all(value.is_integer() for value in column.drop_null().to_pylist()):
        column = column.cast(pa.int64())  # in some files whole numbers beside empty cells are decimals
    if pa.types.is_floating(column.type):
        raise ThresherError(f"Column {name} holds real targets, and only classes can be asked about: leave out --pool.")
    if column.null_count == 0:
        raise ThresherError(f"Column {name} of {path.name} has no empty cell to ask about: leave out --pool.")
    return column


def _all_inputs(rows: Any, targets: list[str], train: Tensor, path: Path) -> Tensor:
    inputs = [_inputs(_plain(rows, name), name, train) for name in rows.column_names if name not in targets]
    if not inputs:
        raise ThresherError(f"{path} has no column beside {', '.join(targets)}: give it some to predict from.")
    return torch.cat(inputs, 1)


def read_table(path: Path) -> Any:
    """All rows of a file, as a pyarrow table."""
    from pyarrow import csv, parquet

    if not path.exists():
        raise ThresherError(f"There is no file {path}: check the path.")
    try:
        if path.suffix == ".parquet":
            return parquet.read_table(path)
        delimiter = "\t" if ".tsv" in path.suffixes else ","
        return csv.read_csv(
            path,
            parse_options=csv.ParseOptions(delimiter=delimiter),
            convert_options=csv.ConvertOptions(strings_can_be_null=True),
        )
    except (pa.ArrowInvalid, OSError) as error:
        reason = str(error).splitlines()[0]
        raise ThresherError(f"{path} cannot be read as a table ({reason}): correct or replace the file.") from error


def _plain(rows: Any, name: str) -> Any:
    """One column in one piece: strings, or numbers with nulls where they are missing."""
    column = rows.column(name).combine_chunks()
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
        kind = column.type
    if pa.types.is_decimal(kind):
        return column.cast(pa.float64())
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind) or _is_text(column):
        return column
    if pa.types.is_null(kind):
        raise ThresherError(f"Column {name} is empty: remove it.")
    raise ThresherError(f"Column {name} holds {kind} values: turn them into numbers or text, or remove the column.")


def _is_text(column: Any) -> bool:
    return bool(pa.types.is_string(column.type) or pa.types.is_large_string(column.type))


def _one_target(column: Any, name: str) -> tuple[Tensor, list[str] | None]:
    if pa.types.is_floating(column.type):
        return _real([column], [name])
    _refuse_missing(column, name)
    values, labels = np.unique(column.to_numpy(zero_copy_only=False).astype(object), return_inverse=True)
    if pa.types.is_integer(column.type) and len(values) > max(20, len(column) // 2):
        raise ThresherError(
            f"Column {name} has {len(values)} different whole numbers, too many for classes: "
            "write them as decimals (3.0) if they are real targets."
        )
    return torch.as_tensor(labels), [str(value) for value in values]


def _real(columns: list[Any], names: list[str]) -> tuple[Tensor, None]:
    for column, name in zip(columns, names, strict=True):
        _refuse_missing(column, name)
        if _is_text(column):
            raise ThresherError(f"Column {name} holds text: several targets must all be numbers.")
    return torch.stack([torch.as_tensor(_floats(column)).float() for column in columns], 1), None


def _refuse_missing(column: Any, name: str) -> None:
    if column.null_count:
        raise ThresherError(
            f"Column {name} has {column.null_count} rows without a target: fill or remove those rows, "
            "or train with --pool to ask about them."
        )


def _floats(column: Any) -> Array:
    return np.array(column.cast(pa.float64()).to_numpy(zero_copy_only=False), dtype=np.float64)


def _inputs(column: Any, name: str, train: Tensor) -> Tensor:
    """The input columns [n, k] that one column of the table becomes."""
    made = _categories(column, name, train) if _is_text(column) else _numbers(_floats(column), name, train.numpy())
    return torch.as_tensor(made).float()


def _numbers(values: Array, name: str, train: Array) -> Array:
    if np.isinf(values).any():
        raise ThresherError(f"Column {name} has infinite values: correct or remove those rows.")
    missing = np.isnan(values)
    if missing[train].all():
        raise ThresherError(f"Column {name} is empty: remove it.")
    filled = np.where(missing, np.median(values[train][~missing[train]]), values)
    deviation = filled[train].std()
    standard = (filled - filled[train].mean()) / (deviation if deviation > 0 else 1.0)
    return np.stack([standard, missing] if missing.any() else [standard], 1)


def _categories(column: Any, name: str, train: Tensor) -> Array:
    # "" stands for a missing value; a category that no training row has is a row of zeros.
    values = np.array([value or "" for value in column.to_pylist()])
    known = np.unique(values[train.numpy()])
    if len(known) > MOST_CATEGORIES:
        raise ThresherError(f"Column {name} has {len(known)} different texts: remove it, or group them to fewer.")
    return np.asarray(values[:, None] == known[None, :])
