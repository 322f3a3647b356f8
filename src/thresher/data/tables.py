"""Tables with one example a row, as training and test sets."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import torch
from torch import Tensor

from thresher.core.errors import ThresherError, unknown
from thresher.core.examples import Examples
from thresher.data.column_encoders import inputs_of, plain_column, texts_in
from thresher.data.column_fitting import fit_columns
from thresher.data.corrected_column import column_in, targets_and_twins
from thresher.data.preparation import RowPreparation
from thresher.data.splits import Splits, hold_out
from thresher.data.table_files import read_rows
from thresher.data.table_options import CLASSES, TableOptions
from thresher.data.table_targets import (
    Scale,
    Targets,
    as_labels,
    ids_of,
    one_target,
    real_targets,
    refuse_missing,
    refuse_without,
    scale_of,
    standardised,
    targets_of,
)


def table(source: Any, target: str = "target", options: TableOptions | None = None) -> Splits:
    """A table whose column `target` is to be predicted from the others; a fifth of the rows is held out as test set.

    The source is a path, a data frame, an Arrow table or a list of dicts.
    Text, boolean and whole-number targets are classes, decimals are real targets; `a,b` names several of these.
    Inputs: numbers are standardised by the training rows, a missing one is their median with a 1 in an extra column;
    text becomes one column a category, of the commonest hundred, a missing one is a category of its own; dates become
    points in time, in the year and in the week. A column with another text in nearly every row, or of ids, is no input
    but carried along. Real targets are standardised by the training rows as well. Of `x` and `x_corrected` neither is
    an input where one is the target. Ids are row numbers.
    """
    options = TableOptions() if options is None else options
    rows, name = _read(source, target, options)
    targets = targets_of(rows, target, name, options)
    groups = _groups(rows, options)
    parts = hold_out(targets.values, groups=groups)
    return Splits(*_examples(rows, targets, target, parts[0], name, options, groups, parts))


def rows_as_examples(source: Any, target: str, options: TableOptions | None = None) -> Examples:
    """All rows of a table as examples, none held out; everything is standardised by all of them."""
    options = TableOptions() if options is None else options
    rows, name = _read(source, target, options)
    targets = targets_of(rows, target, name, options)
    every = torch.arange(len(rows))
    return _examples(rows, targets, target, every, name, options, _groups(rows, options), [every])[0]


def table_with_pool(source: Any, target: str = "target", options: TableOptions | None = None) -> tuple[Splits, Tensor]:
    """The rows to learn from, labelled or not, and those to test on; and which of the former have a label.

    A row whose cell in `target` is empty has no label, and 0 for a target. Inputs are standardised by all rows but
    those to test on, so that they stay the same while labels come in.
    """
    options = TableOptions() if options is None else options
    rows, name = _read(source, target, options)
    known, labelled = _with_gaps(rows, target, name)
    groups = _groups(rows, options)
    held = hold_out(known.values, groups=None if groups is None else groups[labelled])[1]
    learn = torch.ones(len(labelled), dtype=torch.bool)
    learn[labelled.nonzero().flatten()[held]] = False
    targets = torch.zeros(len(labelled), dtype=torch.long)
    targets[labelled] = known.values
    train = learn.nonzero().flatten()
    parts = [train, (~learn).nonzero().flatten()]
    made = _examples(rows, Targets(targets, known.names), target, train, name, options, groups, parts)
    return Splits(*made), labelled[learn]


def _examples(
    rows: Any,
    targets: Targets,
    target: str,
    train: Tensor,
    name: str,
    options: TableOptions,
    groups: Tensor | None,
    parts: Sequence[Tensor],
) -> list[Examples]:
    """The rows of each part as examples, their inputs and real targets standardised by those at positions `train`."""
    columns = tuple(target.split(","))
    fitted = fit_columns(rows, targets_and_twins(columns, rows.column_names), train, name, options)
    preparation = RowPreparation(
        fitted.encoders,
        columns,
        carried=fitted.carried,
        na=options.na,
        sep=options.sep,
        notes=(*targets.notes, *fitted.notes),
    )
    scale = None if targets.names is not None else scale_of(targets.values[train], target)
    values = targets.values if scale is None else standardised(targets.values, scale)
    kind = _label_kind(as_labels(plain_column(rows, columns[0])).type)

    def made(part: Tensor) -> Examples:
        its = rows if len(part) == len(rows) else rows.take(pa.array(part.numpy()))
        return Examples(
            inputs_of(its, fitted.encoders),
            values[part],
            ids=part,
            classes=None if targets.names is None else len(targets.names),
            columns={} if groups is None else {"group": groups[part]},
            brought={name: its.column(name).to_numpy() for name in fitted.carried},
            class_names=targets.names,
            target_scale=scale,
            label_kind=kind,
            name=name.partition(".")[0],
            preparation=preparation,
        )

    return [made(part) for part in parts]


def _label_kind(type_: Any) -> str:
    return "int" if pa.types.is_integer(type_) else "bool" if pa.types.is_boolean(type_) else "text"


def rows_like(
    source: Any,
    known: RowPreparation,
    names: Sequence[str] | None,
    scale: Scale | None,
    targets: Sequence[str] = (),
) -> Examples:
    """All rows of another table as examples, read as the training rows were: by their columns, scale and classes.

    names    those of the classes, in the order of their ids; None where targets are real and have this scale
    targets  the columns of the targets where they are said; else those of the training rows, or of the given labels
             where these were corrected and the other table was not
    """
    rows, name = read_rows(source, known.na, known.sep)
    wanted = targets or [column_in(column, rows.column_names) for column in known.targets]
    for column in wanted:
        if column not in rows.column_names:
            raise unknown(f"column in {name}", column, rows.column_names)
    inputs, given = known.inputs(rows, name), [plain_column(rows, column) for column in wanted]
    if names is None:
        assert scale is not None
        real = standardised(real_targets(given, wanted), scale)
        return Examples(inputs, real, target_scale=scale, preparation=known)
    refuse_missing(given[0], wanted[0])
    ids = ids_of([str(value) for value in as_labels(given[0]).to_pylist()], names)
    return Examples(inputs, ids, classes=len(names), class_names=names, preparation=known)


def _read(source: Any, target: str, options: TableOptions) -> tuple[Any, str]:
    rows, name = read_rows(source, options.na, options.sep)
    options.check(rows.column_names, target.split(","), name)
    return rows, name


def _groups(rows: Any, options: TableOptions) -> Tensor | None:
    """To whom each row belongs, as numbers [n], where a column says so."""
    if options.groups is None:
        return None
    column = plain_column(rows, options.groups)
    if column.null_count:
        raise ThresherError(
            f"Column {options.groups} has {column.null_count} rows without a group: fill or remove those rows."
        )
    return torch.tensor(texts_in(column).dictionary_encode().indices.to_pylist())


def _with_gaps(rows: Any, target: str, name: str) -> tuple[Targets, Tensor]:
    """The labels of the rows that have one, and which rows these are."""
    refuse_without(rows, target, name)
    column = as_labels(plain_column(rows, target))  # in some files whole numbers beside empty cells are decimals
    if pa.types.is_floating(column.type):
        raise ThresherError(f"Column {target} holds real targets, and --pool asks about classes only: leave it out.")
    if column.null_count == 0:
        raise ThresherError(f"Column {target} of {name} has no empty cell to ask about: leave out --pool.")
    known = one_target(column.drop_null(), target, CLASSES)
    return known, torch.as_tensor(column.is_valid().to_numpy(zero_copy_only=False))
