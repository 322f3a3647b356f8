"""Tables with one example a row, as training and test sets."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from thresher.core.errors import ThresherError
from thresher.core.examples import Examples
from thresher.core.naming import unknown
from thresher.data.column_encoders import encoders_of, inputs_of, is_text, numbers_in, plain_column
from thresher.data.corrected_column import targets_and_twins
from thresher.data.preparation import RowPreparation
from thresher.data.splits import Splits, hold_out
from thresher.data.table_files import read_rows

Scale = tuple[Tensor, Tensor]  # mean and deviation of real targets, each [d]


def table(source: Any, target: str = "target") -> Splits:
    """A table whose column `target` is to be predicted from all others; a fifth of the rows is held out as test set.

    The source is a path, a data frame, an Arrow table or a list of dicts.
    Text, boolean and whole-number targets are classes, decimals are real targets; `a,b` names several of these.
    Inputs: numbers are standardised by the training rows, a missing one is their median with a 1 in an extra column;
    text becomes one column a category, a missing one is a category of its own. Real targets are standardised by the
    training rows as well. Of `x` and `x_corrected` neither is an input where one is the target. Ids are row numbers.
    """
    rows, name = read_rows(source)
    targets, names = _targets(rows, target, name)
    train, test = hold_out(targets)
    scale = None if names is not None else _scale(targets[train], target)
    if scale is not None:
        targets = _standardised(targets, scale)
    classes = None if names is None else len(names)
    examples = _examples(rows, targets, target, train, name, classes=classes, class_names=names, target_scale=scale)
    return Splits(examples.subset(train), examples.subset(test))


def rows_as_examples(source: Any, target: str) -> Examples:
    """All rows of a table as examples, none held out; everything is standardised by all of them."""
    rows, name = read_rows(source)
    targets, names = _targets(rows, target, name)
    everything = torch.arange(len(targets))
    if names is not None:
        return _examples(rows, targets, target, everything, name, classes=len(names), class_names=names)
    scale = _scale(targets, target)
    return _examples(rows, _standardised(targets, scale), target, everything, name, target_scale=scale)


def table_with_pool(source: Any, target: str = "target") -> tuple[Splits, Tensor]:
    """The rows to learn from, labelled or not, and those to test on; and which of the former have a label.

    A row whose cell in `target` is empty has no label, and 0 for a target. Inputs are standardised by all rows but
    those to test on, so that they stay the same while labels come in.
    """
    rows, name = read_rows(source)
    labels, names, labelled = _with_gaps(rows, target, name)
    learn = torch.ones(len(labelled), dtype=torch.bool)
    learn[labelled.nonzero().flatten()[hold_out(labels)[1]]] = False
    targets = torch.zeros(len(labelled), dtype=torch.long)
    targets[labelled] = labels
    train = learn.nonzero().flatten()
    examples = _examples(rows, targets, target, train, name, classes=len(names), class_names=names)
    return Splits(examples.subset(learn), examples.subset(~learn)), labelled[learn]


def _examples(rows: Any, targets: Tensor, target: str, train: Tensor, name: str, **facts: Any) -> Examples:
    """All rows as examples, their inputs standardised by those at positions `train`."""
    columns = tuple(target.split(","))
    hidden = targets_and_twins(columns, rows.column_names)
    preparation = RowPreparation(encoders_of(rows, hidden, train, name), columns)
    inputs = inputs_of(rows, preparation.encoders)
    facts["label_kind"] = _label_kind(plain_column(rows, columns[0]).type)
    return Examples(inputs, targets, name=name.partition(".")[0], preparation=preparation, **facts)


def _label_kind(type_: Any) -> str:
    return "int" if pa.types.is_integer(type_) else "bool" if pa.types.is_boolean(type_) else "text"


def rows_like(source: Any, known: RowPreparation, names: Sequence[str] | None, scale: Scale | None) -> Examples:
    """All rows of another table as examples, read as the training rows were: by their columns, scale and classes.

    names  those of the classes, in the order of their ids; None where targets are real and have this scale
    """
    rows, name = read_rows(source)
    for column in known.targets:
        if column not in rows.column_names:
            raise unknown(f"column in {name}", column, rows.column_names)
    inputs, given = known.inputs(rows, name), [plain_column(rows, column) for column in known.targets]
    if names is None:
        assert scale is not None
        targets = _standardised(_real(given, known.targets)[0], scale)
        return Examples(inputs, targets, target_scale=scale, preparation=known)
    _refuse_missing(given[0], known.targets[0])
    targets = ids_of([str(value) for value in given[0].to_pylist()], names)
    return Examples(inputs, targets, classes=len(names), preparation=known)


def ids_of(given: Sequence[str], names: Sequence[str]) -> Tensor:
    """The ids of these classes.

    >>> ids_of(["dog", "dog", "cat"], ["cat", "dog", "emu"]).tolist()
    [1, 1, 0]
    """
    for name in given:
        if name not in names:
            raise unknown("class among the training examples", name, names)
    return torch.tensor([list(names).index(name) for name in given])


def _targets(rows: Any, target: str, name: str) -> tuple[Tensor, list[str] | None]:
    """The targets, and the names of their classes where they are classes."""
    wanted = target.split(",")
    for column in wanted:
        _refuse_without(rows, column, name)
    given = [plain_column(rows, column) for column in wanted]
    return _real(given, wanted) if len(given) > 1 else _one_target(given[0], target)


def _with_gaps(rows: Any, target: str, name: str) -> tuple[Tensor, list[str], Tensor]:
    """The labels of the rows that have one, the names of the classes, and which rows these are."""
    _refuse_without(rows, target, name)
    column = _classes_with_gaps(plain_column(rows, target), target, name)
    labels, names = _one_target(column.drop_null(), target)
    assert names is not None
    return labels, names, torch.as_tensor(column.is_valid().to_numpy(zero_copy_only=False))


def _refuse_without(rows: Any, target: str, name: str) -> None:
    if target not in rows.column_names:
        raise unknown(f"column in {name}", target, rows.column_names)
    if rows.column(target).null_count == len(rows):
        raise ThresherError(f"Column {target} of {name} is empty: label a few rows of each class first.")


def _classes_with_gaps(column: Any, target: str, name: str) -> Any:
    """A column of classes with some cells empty; any other is refused."""
    if pa.types.is_floating(column.type) and all(value.is_integer() for value in column.drop_null().to_pylist()):
        column = column.cast(pa.int64())  # in some files whole numbers beside empty cells are decimals
    if pa.types.is_floating(column.type):
        raise ThresherError(f"Column {target} holds real targets, and --pool asks about classes only: leave it out.")
    if column.null_count == 0:
        raise ThresherError(f"Column {target} of {name} has no empty cell to ask about: leave out --pool.")
    return column


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


def _real(columns: Sequence[Any], names: Sequence[str]) -> tuple[Tensor, None]:
    for column, name in zip(columns, names, strict=True):
        _refuse_missing(column, name)
        if is_text(column):
            raise ThresherError(f"Column {name} holds text: several targets must all be numbers.")
    return torch.stack(
        [torch.as_tensor(numbers_in(column, name)) for column, name in zip(columns, names, strict=True)], 1
    ), None


def _scale(training: Tensor, names: str) -> Scale:
    """The mean and the deviation, each [d], of the real targets [m, d] of the training rows."""
    for name, values in zip(names.split(","), training.T, strict=True):
        if (values == values[0]).all():
            raise ThresherError(
                f"Column {name} is {values[0]:g} in all training rows: leave it out, or add other rows."
            )
    return training.mean(0), training.std(0, correction=0)


def _standardised(targets: Tensor, scale: Scale) -> Tensor:
    """Real targets [n, d] with this mean and deviation taken out."""
    return ((targets - scale[0]) / scale[1]).float()


def _refuse_missing(column: Any, name: str) -> None:
    if column.null_count:
        raise ThresherError(
            f"Column {name} has {column.null_count} rows without a target: fill or remove those rows, "
            "or train with --pool to ask about them."
        )
