"""A corrected copy of a table: all its columns as they were, and one more with the corrected labels."""

import csv
import gzip
import io
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from thresher.app.corrections import Change, forget_changes, in_text, read_changes, refuse_changed
from thresher.app.sources import Source, rows_of, targets_of
from thresher.core.errors import ThresherError, refuse_endless
from thresher.core.files import write_whole
from thresher.data.column_encoders import plain_column
from thresher.data.corrected_column import CORRECTED
from thresher.data.table_files import read_table, separator_of
from thresher.record.issues import DIMENSION, Issues

DROPPED = "dropped-"  # what the name of the file of rows that were left out begins with


def write_table(folder: Path, source: Source, issues: Issues, changes: Sequence[Change]) -> list[str]:
    """Write the table with a column TARGET_corrected for each target, whose names are returned.

    Rows that are left out go into a file of their own.
    """
    is_parquet = source.path.suffix == ".parquet"
    rows: Any = read_table(source.path) if is_parquet else read_cells(source.path, source.sep)
    names = rows.column_names if is_parquet else rows[0]
    several = DIMENSION in issues.table.column_names
    targets = source.target.split(",") if several else [source.target]
    for target in targets:
        if target not in names:
            raise ThresherError(f"There is no column {target} in {source.path}: give --data {source.path}:COLUMN.")
        if target + CORRECTED in names:
            raise ThresherError(f"{source.path} has a column {target}{CORRECTED} already: rename or remove it.")
    given: dict[str, list[Any]] = {
        target: plain_column(rows, target).to_pylist() if is_parquet else [row[names.index(target)] for row in rows[1:]]
        for target in targets
    }
    values = _values(source, given, issues)
    new: dict[str, dict[int, Any]] = {target: {} for target in targets}
    for change in changes:
        new[change.target][int(change.place)] = values.get(change.new, change.new)
    dropped = sorted({int(change.place) for change in changes if change.new is None})
    labels = {target: [new[target].get(row, old) for row, old in enumerate(given[target])] for target in targets}
    (_write_parquet if is_parquet else _write_csv)(folder, source, rows, labels, dropped)
    return [target + CORRECTED for target in targets]


def _values(source: Source, given: Mapping[str, Sequence[Any]], issues: Issues) -> dict[Any, Any]:
    """What stands in the table for each audited class; a table whose labels are others is refused."""
    values: dict[Any, Any] = {}
    of = targets_of(issues, source.target)
    for row, label, target in zip(rows_of(issues), issues.column("label").tolist(), of, strict=True):
        if not 0 <= row < len(given[target]):
            raise ThresherError(f"{source.path} has no row {row}, which was audited: audit it again.")
        refuse_changed(source.path, f"row {row}", given[target][row], label)
        if not isinstance(label, float):
            values.setdefault(label, given[target][row])
    return values


def undo_table(folder: Path) -> int:
    """Take the corrected column away again, and put rows that were left out back where they were."""
    changes, about = read_changes(folder)
    path, sep = folder / Path(about["file"]).name, about.get("sep")
    one, several = [str(about["column"])], str(about["column"]).split(",")
    aside = folder / f"{DROPPED}{path.name}"
    left_out = [int(change.place) for change in changes if not change.new]
    if path.suffix == ".parquet":
        table = read_table(path)
        columns = one if one[0] in table.column_names else several
        table = table.drop_columns([column for column in columns if column in table.column_names])
        if aside.exists():
            both, order = pa.concat_tables([table, read_table(aside)]), _order(len(table), left_out)
            table = both.take(order).replace_schema_metadata(table.schema.metadata)
        write_whole(path, lambda place: pq.write_table(table, place))
    else:
        head, *rows = read_cells(path, sep)
        columns = one if one[0] in head else several
        kept = [at for at, name in enumerate(head) if name not in columns]
        head, *rows = ([row[at] for at in kept] for row in (head, *rows))
        if aside.exists():
            both = [*rows, *read_cells(aside, sep)[1:]]
            rows = [both[place] for place in _order(len(rows), left_out)]
        _save_cells(path, path, [head, *rows], sep)
    forget_changes(folder, aside)
    return len(changes)


def _order(kept: int, left_out: Sequence[int]) -> list[int]:
    """How rows that were kept, followed by those left out, are ordered as they were.

    >>> _order(3, [1, 4])
    [0, 3, 1, 2, 4]
    """
    back = {row: kept + at for at, row in enumerate(sorted(left_out))}
    rest = iter(range(kept))
    return [back[row] if row in back else next(rest) for row in range(kept + len(left_out))]


def _write_parquet(
    folder: Path, source: Source, rows: Any, labels: Mapping[str, Sequence[Any]], dropped: Sequence[int]
) -> None:
    name, more = source.path.name, rows
    for target, column in labels.items():
        kind = _wide(plain_column(rows, target).type, column)
        more = more.append_column(target + CORRECTED, pa.array(column, kind))
    if dropped:
        aside = rows.take(dropped)
        write_whole(folder / f"{DROPPED}{name}", lambda place: pq.write_table(aside, place))
        more = more.take(sorted(set(range(len(rows))) - set(dropped)))
    write_whole(folder / name, lambda place: pq.write_table(more, place))


def _wide(kind: Any, labels: Sequence[Any]) -> Any:
    """The type of the new column: that of the old one, or decimals where whole numbers become such."""
    return pa.float64() if pa.types.is_integer(kind) and any(isinstance(each, float) for each in labels) else kind


def _write_csv(
    folder: Path, source: Source, rows: list[list[str]], labels: Mapping[str, Sequence[Any]], dropped: Sequence[int]
) -> None:
    kept, aside, out = [[*rows[0], *(target + CORRECTED for target in labels)]], [rows[0]], set(dropped)
    for place, row in enumerate(rows[1:]):
        if place in out:
            aside.append(row)
        else:
            kept.append([*row, *(in_text(column[place]) for column in labels.values())])
    _save_cells(folder / source.path.name, source.path, kept, source.sep)
    if dropped:
        _save_cells(folder / f"{DROPPED}{source.path.name}", source.path, aside, source.sep)


def read_cells(path: Path, sep: str | None = None) -> list[list[str]]:
    """All cells of a text file, the names of columns first, as they are written there; rows of equal length."""
    raw = _bytes(path)
    before = csv.field_size_limit(max(len(raw), 1))
    try:
        found = csv.reader(io.StringIO(raw.decode("utf-8-sig"), newline=""), delimiter=sep or separator_of(path))
        rows = [row for row in found if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise ThresherError(f"{path} cannot be read as a table ({error}): correct or replace the file.") from error
    finally:
        csv.field_size_limit(before)
    if not rows or any(len(row) != len(rows[0]) for row in rows):
        raise ThresherError(f"{path} has rows of different lengths: correct or replace the file.")
    return rows


def _bytes(path: Path) -> bytes:
    refuse_endless(path)
    try:
        return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise ThresherError(f"{path} cannot be read as a table ({error}): correct or replace the file.") from error


def _line_end(path: Path) -> str:
    return "\r\n" if b"\r\n" in _bytes(path).partition(b"\n")[0] + b"\n" else "\n"


def _save_cells(path: Path, like: Path, rows: Sequence[Sequence[str]], sep: str | None) -> None:
    text = io.StringIO()
    csv.writer(text, delimiter=sep or separator_of(like), lineterminator=_line_end(like)).writerows(rows)
    packed: Callable[[bytes], bytes] = gzip.compress if like.suffix == ".gz" else bytes
    write_whole(path, lambda place: place.write_bytes(packed(text.getvalue().encode())))
