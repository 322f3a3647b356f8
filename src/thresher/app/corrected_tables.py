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
from thresher.app.sources import Source, rows_of
from thresher.core.errors import ThresherError
from thresher.core.files import write_whole
from thresher.data.column_encoders import plain_column
from thresher.data.corrected_column import CORRECTED
from thresher.data.table_files import read_table, separator_of
from thresher.record.issues import Issues

DROPPED = "dropped-"  # what the name of the file of rows that were left out begins with


def write_table(folder: Path, source: Source, issues: Issues, changes: Sequence[Change]) -> None:
    """Write the table with the column TARGET_corrected; rows that are left out go into a file of their own."""
    is_parquet = source.path.suffix == ".parquet"
    rows: Any = read_table(source.path) if is_parquet else read_cells(source.path, source.sep)
    names = rows.column_names if is_parquet else rows[0]
    if source.target not in names and set(source.target.split(",")) <= set(names):
        raise ThresherError(
            f"{source.path} was audited with several targets ({source.target}), and a copy gets one corrected column: "
            "audit one target at a time."
        )
    if source.target not in names:
        raise ThresherError(f"There is no column {source.target} in {source.path}: give --data {source.path}:COLUMN.")
    if source.target + CORRECTED in names:
        raise ThresherError(f"{source.path} has a column {source.target}{CORRECTED} already: rename or remove it.")
    at = names.index(source.target)
    given = plain_column(rows, source.target).to_pylist() if is_parquet else [row[at] for row in rows[1:]]
    values = _values(source.path, given, issues)
    new = {int(change.place): values.get(change.new, change.new) for change in changes}
    if is_parquet:
        _write_parquet(folder, source, rows, given, new)
    else:
        _write_csv(folder, source, rows, given, new)


def _values(path: Path, given: Sequence[Any], issues: Issues) -> dict[Any, Any]:
    """What stands in the table for each audited class; a table whose labels are others is refused."""
    values: dict[Any, Any] = {}
    for row, label in zip(rows_of(issues), issues.column("label").tolist(), strict=True):
        if not 0 <= row < len(given):
            raise ThresherError(f"{path} has no row {row}, which was audited: audit it again.")
        refuse_changed(path, f"row {row}", given[row], label)
        if not isinstance(label, float):
            values.setdefault(label, given[row])
    return values


def undo_table(folder: Path) -> int:
    """Take the corrected column away again, and put rows that were left out back where they were."""
    changes, about = read_changes(folder)
    path, column, sep = folder / Path(about["file"]).name, str(about["column"]), about.get("sep")
    aside = folder / f"{DROPPED}{path.name}"
    left_out = [int(change.place) for change in changes if not change.new]
    if path.suffix == ".parquet":
        table = read_table(path)
        if column in table.column_names:
            table = table.drop_columns([column])
        if aside.exists():
            both, order = pa.concat_tables([table, read_table(aside)]), _order(len(table), left_out)
            table = both.take(order).replace_schema_metadata(table.schema.metadata)
        write_whole(path, lambda place: pq.write_table(table, place))
    else:
        head, *rows = read_cells(path, sep)
        at = head.index(column) if column in head else None
        head, *rows = ([cell for place, cell in enumerate(row) if place != at] for row in (head, *rows))
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


def _write_parquet(folder: Path, source: Source, rows: Any, given: list[Any], new: Mapping[int, Any]) -> None:
    name, column = source.path.name, source.target + CORRECTED
    labels = [old if new.get(row) is None else new[row] for row, old in enumerate(given)]
    more = rows.append_column(column, pa.array(labels, _wide(plain_column(rows, source.target).type, labels)))
    dropped = sorted(row for row, label in new.items() if label is None)
    if dropped:
        aside = rows.take(dropped)
        write_whole(folder / f"{DROPPED}{name}", lambda place: pq.write_table(aside, place))
        more = more.take(sorted(set(range(len(rows))) - set(dropped)))
    write_whole(folder / name, lambda place: pq.write_table(more, place))


def _wide(kind: Any, labels: Sequence[Any]) -> Any:
    """The type of the new column: that of the old one, or decimals where whole numbers become such."""
    return pa.float64() if pa.types.is_integer(kind) and any(isinstance(each, float) for each in labels) else kind


def _write_csv(
    folder: Path, source: Source, rows: list[list[str]], given: Sequence[str], new: Mapping[int, Any]
) -> None:
    kept, aside = [[*rows[0], source.target + CORRECTED]], [rows[0]]
    for place, (row, old) in enumerate(zip(rows[1:], given, strict=True)):
        if place in new and new[place] is None:
            aside.append(row)
        else:
            kept.append([*row, in_text(new[place]) if place in new else old])
    _save_cells(folder / source.path.name, source.path, kept, source.sep)
    if len(aside) > 1:
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
