"""A corrected copy of a table: all its columns as they were, and one more with the corrected labels."""

import csv
import gzip
import io
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
from thresher.data.table_files import read_table
from thresher.data.tables import CORRECTED
from thresher.record.issues import Issues

DROPPED = "dropped-"  # what the name of the file of rows that were left out begins with


def write_table(folder: Path, source: Source, issues: Issues, changes: Sequence[Change]) -> None:
    """Write the table with the column TARGET_corrected; rows that are left out go into a file of their own."""
    path, target = source.path, source.target
    rows = read_table(path)
    if target not in rows.column_names:
        raise ThresherError(f"There is no column {target} in {path}: give --data {path}:COLUMN.")
    if target + CORRECTED in rows.column_names:
        raise ThresherError(f"{path} has a column {target}{CORRECTED} already: rename or remove it.")
    given = plain_column(rows, target).to_pylist()
    for row, label in zip(rows_of(issues), issues.column("label").tolist(), strict=True):
        if not 0 <= row < len(given):
            raise ThresherError(f"{path} has no row {row}, which was audited: audit it again.")
        refuse_changed(path, f"row {row}", given[row], label)
    new = {int(change.place): change.new for change in changes}
    write = _write_parquet if path.suffix == ".parquet" else _write_csv
    write(folder, path, target, given, new)


def undo_table(folder: Path) -> int:
    """Take the corrected column away again, and put rows that were left out back where they were."""
    changes, about = read_changes(folder)
    path, column = folder / Path(about["file"]).name, str(about["column"])
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
        head, *rows = _cells(path)
        at = head.index(column) if column in head else None
        head, *rows = ([cell for place, cell in enumerate(row) if place != at] for row in (head, *rows))
        if aside.exists():
            both = [*rows, *_cells(aside)[1:]]
            rows = [both[place] for place in _order(len(rows), left_out)]
        _save_cells(path, path, [head, *rows])
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


def _write_parquet(folder: Path, path: Path, target: str, given: list[Any], new: Mapping[int, Any]) -> None:
    rows = read_table(path)
    kind = plain_column(rows, target).type
    values = {str(value): value for value in given if value is not None}
    labels = [values.get(str(new[row]), new[row]) if new.get(row) is not None else old for row, old in enumerate(given)]
    rows = rows.append_column(target + CORRECTED, pa.array(labels, _wide(kind, labels)))
    dropped = [row for row, label in new.items() if label is None]
    keep = sorted(set(range(len(rows))) - set(dropped))
    if dropped:
        aside = rows.drop_columns([target + CORRECTED]).take(sorted(dropped))
        write_whole(folder / f"{DROPPED}{path.name}", lambda place: pq.write_table(aside, place))
    kept = rows.take(keep) if dropped else rows
    write_whole(folder / path.name, lambda place: pq.write_table(kept, place))


def _wide(kind: Any, labels: Sequence[Any]) -> Any:
    """The type of the new column: that of the old one, or decimals where whole numbers become such."""
    return pa.float64() if pa.types.is_integer(kind) and any(isinstance(each, float) for each in labels) else kind


def _write_csv(folder: Path, path: Path, target: str, given: list[Any], new: Mapping[int, Any]) -> None:
    head, *rows = _cells(path)
    if len(rows) != len(given):
        raise ThresherError(f"{path} has rows that cannot be counted alike twice: save it again without blank lines.")
    at = head.index(target)
    texts = {str(value): row[at] for value, row in zip(given, rows, strict=True)}  # a class as the file writes it
    kept, aside = [[*head, target + CORRECTED]], [head]
    for place, row in enumerate(rows):
        if place not in new:
            kept.append([*row, row[at]])
        elif new[place] is None:
            aside.append(row)
        else:
            kept.append([*row, texts.get(str(new[place]), in_text(new[place]))])
    _save_cells(folder / path.name, path, kept)
    if len(aside) > 1:
        _save_cells(folder / f"{DROPPED}{path.name}", path, aside)


def _cells(path: Path) -> list[list[str]]:
    """All cells of a text file, the names of columns first, as they are written there."""
    raw = _bytes(path)
    before = csv.field_size_limit(max(len(raw), 1))
    try:
        found = csv.reader(io.StringIO(raw.decode("utf-8-sig"), newline=""), delimiter=_delimiter(path))
        return [row for row in found if row]
    finally:
        csv.field_size_limit(before)


def _bytes(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


def _line_end(path: Path) -> str:
    return "\r\n" if b"\r\n" in _bytes(path).partition(b"\n")[0] + b"\n" else "\n"


def _save_cells(path: Path, like: Path, rows: Sequence[Sequence[str]]) -> None:
    text = io.StringIO()
    csv.writer(text, delimiter=_delimiter(like), lineterminator=_line_end(like)).writerows(rows)
    packed: Callable[[bytes], bytes] = gzip.compress if like.suffix == ".gz" else bytes
    write_whole(path, lambda place: place.write_bytes(packed(text.getvalue().encode())))


def _delimiter(path: Path) -> str:
    return "\t" if ".tsv" in path.suffixes else ","
