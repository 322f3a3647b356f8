"""Tables: CSV, TSV (also .gz) and Parquet files with one example a row."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from thresher.core.errors import ThresherError
from thresher.core.examples import Examples
from thresher.core.naming import unknown
from thresher.data.columns import encoders_of, finite, inputs_of, is_text, plain
from thresher.data.splits import Splits, hold_out

SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")


def table(path: Path, target: str = "target") -> Splits:
    """A table whose column `target` is to be predicted from all others; a fifth of the rows is held out as test set.

    Text, boolean and whole-number targets are classes, decimals are real targets; `a,b` names several of these.
    Inputs: numbers are standardised by the training rows, a missing one is their median with a 1 in an extra column;
    text becomes one column a category, a missing one is a category of its own. Real targets are standardised by the
    training rows as well. Ids are row numbers.
    """
    rows = _rows_of(path)
    targets, names = _targets(rows, target, path)
    train, test = hold_out(targets)
    inputs = inputs_of(rows, encoders_of(rows, target, train, path))
    scale = None if names is not None else _scale(targets[train], target)
    if scale is not None:
        targets = _standardised(targets, scale)
    classes = None if names is None else len(names)
    stem = path.name.partition(".")[0]
    examples = Examples(inputs, targets, classes=classes, class_names=names, target_scale=scale, name=stem)
    return Splits(examples.subset(train), examples.subset(test))


def examples_of_rows(rows: Any, target: str, name: str) -> Examples:
    """All rows of a table in memory as examples, none held out; read as `table` reads those of a file."""
    path = Path(name)
    targets, names = _targets(rows, target, path)
    everything = torch.arange(len(targets))
    inputs = inputs_of(rows, encoders_of(rows, target, everything, path))
    scale = None if names is not None else _scale(targets, target)
    if scale is not None:
        targets = _standardised(targets, scale)
    classes = None if names is None else len(names)
    return Examples(inputs, targets, classes=classes, class_names=names, target_scale=scale, name=name)


def table_with_pool(path: Path, target: str = "target") -> tuple[Splits, Tensor]:
    """The rows to learn from, labelled or not, and those to test on; and which of the former have a label.

    A row whose cell in `target` is empty has none, and so 0 for a target. Inputs are standardised by all rows but
    those to test on, so that they stay the same while labels come in.
    """
    rows = _rows_of(path)
    labels, names, labelled = _with_gaps(rows, target, path)
    learn = torch.zeros(len(labelled), dtype=torch.bool)
    learn[_learnt_from(rows, target, path)] = True
    targets = torch.zeros(len(labelled), dtype=torch.long)
    targets[labelled] = labels
    inputs = inputs_of(rows, encoders_of(rows, target, learn.nonzero().flatten(), path))
    stem = path.name.partition(".")[0]
    examples = Examples(inputs, targets, classes=len(names), class_names=names, name=stem)
    return Splits(examples.subset(learn), examples.subset(~learn)), labelled[learn]


def rows_like(path: Path, target: str, training: Path, names: Sequence[str] | None) -> tuple[Tensor, Tensor]:
    """Inputs and targets of all rows, read as the training rows of another table are: by its columns, scale, classes.

    names  those of its classes, in the order of their ids; None where its targets are real
    """
    rows, known = _rows_of(path), _rows_of(training)
    learnt = _learnt_from(known, target, training)
    encoders = encoders_of(known, target, learnt, training)
    wanted = target.split(",")
    for column in (*wanted, *encoders):
        if column not in rows.column_names:
            raise unknown(f"column in {path.name}", column, rows.column_names)
    for column in encoders:
        rows = _cast(rows, column, pa.string() if is_text(plain(known, column)) else pa.float64(), path)
    inputs, given = inputs_of(rows, encoders), [plain(rows, column) for column in wanted]
    if names is None:
        scale = _scale(_targets(known, target, training)[0][learnt], target)
        return inputs, _standardised(_real(given, wanted)[0], scale)
    _refuse_missing(given[0], target)
    return inputs, ids_of([str(value) for value in given[0].to_pylist()], names)


def _cast(rows: Any, column: str, kind: Any, path: Path) -> Any:
    """The rows with this column of this kind: few values may look like another, or be all missing."""
    try:
        return rows.set_column(rows.column_names.index(column), column, rows.column(column).cast(kind))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ThresherError(
            f"Column {column} of {path.name} does not hold what it holds in the training table ({error}): correct it."
        ) from error


def ids_of(given: Sequence[str], names: Sequence[str]) -> Tensor:
    """The ids of these classes.

    >>> ids_of(["dog", "dog", "cat"], ["cat", "dog", "emu"]).tolist()
    [1, 1, 0]
    """
    for name in given:
        if name not in names:
            raise unknown("class among the training examples", name, names)
    return torch.tensor([list(names).index(name) for name in given])


def _learnt_from(rows: Any, target: str, path: Path) -> Tensor:
    """The positions of the rows that everything is standardised by: all but those to test on."""
    if target not in rows.column_names or not rows.column(target).null_count:
        return hold_out(_targets(rows, target, path)[0])[0]
    labels, _, labelled = _with_gaps(rows, target, path)
    learn = torch.ones(len(labelled), dtype=torch.bool)
    learn[labelled.nonzero().flatten()[hold_out(labels)[1]]] = False
    return learn.nonzero().flatten()


def _targets(rows: Any, target: str, path: Path) -> tuple[Tensor, list[str] | None]:
    """What is to be predicted, and the names of its classes where it has some."""
    wanted = target.split(",")
    for column in wanted:
        _refuse_without(rows, column, path)
    given = [plain(rows, column) for column in wanted]
    return _real(given, wanted) if len(given) > 1 else _one_target(given[0], target)


def _with_gaps(rows: Any, target: str, path: Path) -> tuple[Tensor, list[str], Tensor]:
    """The labels of the rows that have one, the names of the classes, and which rows these are."""
    _refuse_without(rows, target, path)
    column = _classes_with_gaps(plain(rows, target), target, path)
    labels, names = _one_target(column.drop_null(), target)
    assert names is not None
    return labels, names, torch.as_tensor(column.is_valid().to_numpy(zero_copy_only=False))


def _refuse_without(rows: Any, target: str, path: Path) -> None:
    if target not in rows.column_names:
        raise unknown(f"column in {path.name}", target, rows.column_names)
    if rows.column(target).null_count == len(rows):
        raise ThresherError(f"Column {target} of {path.name} is empty: label a few rows of each class first.")


def _classes_with_gaps(column: Any, name: str, path: Path) -> Any:
    """A column of classes with some cells empty, refused if it is none."""
    if pa.types.is_floating(column.type) and all(value.is_integer() for value in column.drop_null().to_pylist()):
        column = column.cast(pa.int64())  # in some files whole numbers beside empty cells are decimals
    if pa.types.is_floating(column.type):
        raise ThresherError(f"Column {name} holds real targets, and only classes can be asked about: leave out --pool.")
    if column.null_count == 0:
        raise ThresherError(f"Column {name} of {path.name} has no empty cell to ask about: leave out --pool.")
    return column


def _rows_of(path: Path) -> Any:
    """All rows of a file of examples, refused if there are none or columns share a name."""
    rows = read_table(path)
    if not len(rows):
        raise ThresherError(f"{path} has no rows: give a table that has some.")
    twice = [name for name, count in Counter(rows.column_names).items() if count > 1]
    if twice:
        raise ThresherError(f"{path} has the column {twice[0]} twice: rename or remove one of them.")
    return rows


def read_table(path: Path) -> Any:
    """All rows of a file, as a pyarrow table."""
    from pyarrow import parquet

    if not path.exists():
        raise ThresherError(f"There is no file {path}: check the path.")
    try:
        return parquet.read_table(path) if path.suffix == ".parquet" else _read_csv(path)
    except UnicodeError:
        raise ThresherError(f"{path} is not UTF-8: save it in this encoding.") from None
    except (pa.ArrowInvalid, OSError) as error:
        reason = str(error).splitlines()[0]
        raise ThresherError(f"{path} cannot be read as a table ({reason}): correct or replace the file.") from error


def _read_csv(path: Path) -> Any:
    """The rows of a text file: `NA` is missing among numbers, but a text among texts, of which only "" is missing."""
    from pyarrow import compute, csv

    delimiter = "\t" if ".tsv" in path.suffixes else ","
    rows = csv.read_csv(path, parse_options=csv.ParseOptions(delimiter=delimiter))
    for place, name in enumerate(rows.column_names):  # which decodes the names
        column = rows.column(place)
        if pa.types.is_binary(column.type):  # cells that cannot be decoded
            raise UnicodeError
        if is_text(column):
            gaps = compute.if_else(compute.equal(column, ""), pa.scalar(None, column.type), column)
            rows = rows.set_column(place, name, gaps)
    return rows


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
    if len(values) < 2:
        raise ThresherError(f"Column {name} has only the class '{values[0]}': give examples of at least two.")
    return torch.as_tensor(labels), [str(value) for value in values]


def _real(columns: list[Any], names: list[str]) -> tuple[Tensor, None]:
    for column, name in zip(columns, names, strict=True):
        _refuse_missing(column, name)
        if is_text(column):
            raise ThresherError(f"Column {name} holds text: several targets must all be numbers.")
    return torch.stack(
        [torch.as_tensor(finite(column, name)) for column, name in zip(columns, names, strict=True)], 1
    ), None


def _scale(training: Tensor, names: str) -> tuple[Tensor, Tensor]:
    """The mean and the deviation, each [d], of the real targets [m, d] of the training rows."""
    for name, values in zip(names.split(","), training.T, strict=True):
        if (values == values[0]).all():
            raise ThresherError(
                f"Column {name} is {values[0]:g} in all training rows: there is nothing to learn from it."
            )
    return training.mean(0), training.std(0, correction=0)


def _standardised(targets: Tensor, scale: tuple[Tensor, Tensor]) -> Tensor:
    """Real targets [n, d] with this mean and deviation taken out."""
    return ((targets - scale[0]) / scale[1]).float()


def _refuse_missing(column: Any, name: str) -> None:
    if column.null_count:
        raise ThresherError(
            f"Column {name} has {column.null_count} rows without a target: fill or remove those rows, "
            "or train with --pool to ask about them."
        )
