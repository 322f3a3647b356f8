"""Rows of a table, from CSV, TSV (also .gz) and Parquet files, data frames, Arrow tables and lists of dicts."""

import gzip
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from thresher.core.errors import ThresherError, free_memory, refuse_beyond_memory, refuse_endless
from thresher.core.files import expanded
from thresher.data.column_encoders import is_text
from thresher.data.image_files import is_text_name

TABLE_SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")
HEAD = 4096  # bytes that tell what a file is
CHUNK, MOST_PACKED = 2**20, 1032  # bytes read at a time, and that gzip makes of one at most
POINTER = 32  # bits by which a text is found
PART = "give a part of its rows or columns"
WORKBOOKS = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")  # how .xlsx and .xls begin
NUMBER_WITH_COMMAS = r"^\s*[-+]?[0-9.]*,[0-9,]*[0-9]\s*$|^\s*[-+]?[0-9.]+\s*$|^\s*$"
UNKNOWN = "?"  # which many tables have in place of a missing number


def read_rows(source: Any, na: Sequence[str] = (), sep: str | None = None) -> tuple[Any, str]:
    """All rows of a file, data frame, Arrow table or list of dicts as an Arrow table, and what messages call it.

    >>> rows, _ = read_rows([{"age": 3}, {"town": "Bonn"}])
    >>> rows.to_pylist()
    [{'age': 3, 'town': None}, {'age': None, 'town': 'Bonn'}]
    """
    if isinstance(source, (str, Path)):
        path = expanded(source)
        rows, name = read_table(path, na, sep), path.name
    else:
        rows, name = without_markers(_converted(source), na), "the given table"
    if not len(rows):
        raise ThresherError(f"There are no rows in {name}: give a table that has some.")
    _refuse_twice(rows.column_names, name)
    return rows, name


def _refuse_twice(columns: Sequence[str], name: str) -> None:
    twice = [column for column, count in Counter(columns).items() if count > 1]
    if twice:
        raise ThresherError(f"The column {twice[0]} is twice in {name}: rename or remove one of them.")


def _converted(source: Any) -> Any:
    """Whatever holds rows, as an Arrow table."""
    try:
        if isinstance(source, (list, tuple)) and all(isinstance(row, Mapping) for row in source):
            names = dict.fromkeys(name for row in source for name in row)
            return pa.table({str(name): pa.array([row.get(name) for row in source]) for name in names})
        if type(source).__module__.partition(".")[0] == "pandas":
            return pa.Table.from_pandas(source, preserve_index=False)  # the index of a shuffled frame is no input
        return pa.table(source)  # a data frame of polars, or anything else with an Arrow interface
    except pa.ArrowException as error:
        reason = str(error).splitlines()[0]
        raise ThresherError(f"A column of the given table mixes kinds of values ({reason}): give one kind.") from error
    except (TypeError, ValueError) as error:
        raise ThresherError(
            f"A {type(source).__name__} cannot be read as a table ({error}): give a path to a table, a data frame, "
            "an Arrow table or a list of dicts."
        ) from error


def read_table(path: Path, na: Sequence[str] = (), sep: str | None = None) -> Any:
    """All rows of a file, as an Arrow table; the texts `na` are missing values, and `sep` is between cells."""
    from pyarrow import parquet

    if not path.exists():
        raise ThresherError(f"There is no file {path}: check the path.")
    refuse_endless(path)
    try:
        if path.suffix == ".parquet":
            _refuse_twice(parquet.read_schema(path).names, path.name)
            refuse_beyond_memory(_size_of_parquet(path), str(path), PART)
            rows = parquet.read_table(path)
        else:
            _refuse_other_formats(path)
            refuse_beyond_memory(_size_of_text(path), f"The text in {path}", PART)
            rows = _read_csv(path, na, sep)
    except UnicodeError:
        what = f"{path} is not UTF-8: save it in this encoding"
        told = what if is_text_name(path) else f"The name of {path} is not UTF-8: rename the file"
        raise ThresherError(f"{told}.") from None
    except (pa.ArrowInvalid, OSError, EOFError, zlib.error) as error:
        reason = str(error).splitlines()[0]
        raise ThresherError(f"{path} cannot be read as a table ({reason}): correct or replace the file.") from error
    return without_markers(rows, na)


def _read_csv(path: Path, na: Sequence[str], sep: str | None) -> Any:
    """The rows of a text file: `NA` is missing among numbers, but a text among texts, of which only "" is missing."""
    from pyarrow import compute, csv

    after_a_space = [" " + marker for marker in (UNKNOWN, *na)]
    rows = csv.read_csv(
        path,
        parse_options=csv.ParseOptions(delimiter=sep or separator_of(path)),
        convert_options=csv.ConvertOptions(null_values=[*missing_texts(na), *after_a_space]),
    )
    for place, name in enumerate(rows.column_names):  # which decodes the names
        column = rows.column(place)
        if pa.types.is_binary(column.type):  # cells that cannot be decoded
            raise UnicodeError
        if is_text(column):
            _refuse_commas(column, name, path)
            gaps = compute.if_else(compute.equal(column, ""), pa.scalar(None, column.type), column)
            rows = rows.set_column(place, name, gaps)
    return rows


def _refuse_other_formats(path: Path) -> None:
    """Refuse what spreadsheets write under the name of a text file: workbooks, and texts of two bytes a letter."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        head = file.read(HEAD)
    if head.startswith(WORKBOOKS):
        raise ThresherError(f"{path} is a workbook, whatever its name says: save the sheet as CSV in UTF-8.")
    if b"\0" in head:
        raise UnicodeError


def _size_of_text(path: Path) -> int:
    """The bytes of a text, which its table hardly undercuts; of one that is packed no more than do not fit."""
    size, free = path.stat().st_size, free_memory()
    if path.suffix != ".gz" or size * MOST_PACKED < free:
        return size
    with gzip.open(path) as file:
        size = 0
        while size <= free and (read := len(file.read(CHUNK))):
            size += read
    return size


def _size_of_parquet(path: Path) -> int:
    """The bytes that the cells of a file take at least: a few bytes may say that a cell is repeated a billion times."""
    from pyarrow import parquet

    kinds = parquet.read_schema(path).types
    widths = [kind.bit_width if pa.types.is_primitive(kind) else POINTER for kind in kinds]
    size: int = parquet.read_metadata(path).num_rows * sum(widths) // 8
    return size


def _refuse_commas(column: Any, name: str, path: Path) -> None:
    """Refuse numbers with commas, which would be taken for the names of categories."""
    from pyarrow import compute

    texts = compute.drop_null(column)
    has_comma = compute.any(compute.match_substring(texts, ",")).as_py()
    if has_comma and compute.all(compute.match_substring_regex(texts, NUMBER_WITH_COMMAS)).as_py():
        first = next(text for text in texts.to_pylist() if "," in text)
        raise ThresherError(
            f"Column {name} of {path} holds numbers with commas, such as {first}: save them with a decimal point, and "
            "with nothing between thousands."
        )


def missing_texts(na: Sequence[str] = ()) -> list[str]:
    """The cells of a text file that hold no number: empty ones, `NA`, `?` and the like, and what `na` says."""
    from pyarrow import csv

    return [*csv.ConvertOptions().null_values, UNKNOWN, *na]


def separator_of(path: Path) -> str:
    """The tab of a .tsv; of a .csv the comma, or what its first line has in place of commas."""
    if ".tsv" in path.suffixes:
        return "\t"
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        first = file.readline().decode("utf-8", errors="replace")
    return next((mark for mark in (",", ";", "\t", "|") if mark in first), ",")


def without_markers(rows: Any, na: Sequence[str]) -> Any:
    """The rows with nothing where a text is one of `na`; a column of texts that all are numbers then holds numbers."""
    from pyarrow import compute

    wanted = pa.array(list(na), pa.string())
    for place, name in enumerate(rows.column_names) if na else ():
        column = rows.column(place)
        if not is_text(column):
            continue
        missing = compute.is_in(compute.utf8_trim_whitespace(column.cast(pa.string())), value_set=wanted)
        if compute.any(missing).as_py():
            kept = compute.if_else(missing, pa.scalar(None, column.type), column)
            rows = rows.set_column(place, name, _as_numbers(kept))
    return rows


def _as_numbers(column: Any) -> Any:
    from pyarrow import compute

    try:
        return compute.utf8_trim_whitespace(column).cast(pa.float64())
    except pa.ArrowInvalid:
        return column
