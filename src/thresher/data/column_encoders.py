"""Columns of a table as inputs: numbers are standardised, texts become categories, dates points on circles.

Not by scikit-learn's ColumnTransformer, whose fitted state can only be stored as a pickle: an encoder here is a few
numbers or texts, which a run folder holds as JSON.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, get_type_hints

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from thresher.core.errors import ThresherError, refuse_beyond_memory
from thresher.core.files import misfit

Array = np.ndarray[Any, Any]
AT_ONCE = 2**16  # rows that are encoded together
LARGEST = 1e30  # whose squares single precision still holds, as sums of them have to be
YEAR, WEEK, DAY = 365.2425, 7.0, 1.0  # in days


@dataclass(frozen=True)
class Numbers:
    """(x - mean) / deviation, where a missing x is the median; and, if `marks_gaps`, a second column that is 1 there.

    >>> Numbers("age", median=2.0, mean=1.0, deviation=0.5, marks_gaps=True)(pa.array([1.5, None])).tolist()
    [[1.0, 0.0], [2.0, 1.0]]
    """

    kind: ClassVar[str] = "numbers"
    type: ClassVar[Any] = pa.float64()
    column: str
    median: float
    mean: float
    deviation: float
    marks_gaps: bool

    def __call__(self, column: Any) -> Array:
        values = numbers_in(column, self.column)
        gaps = np.isnan(values)
        standard = (np.where(gaps, self.median, values) - self.mean) / self.deviation
        return np.stack([standard, gaps] if self.marks_gaps else [standard], 1)

    def as_record(self) -> dict[str, Any]:
        """The encoder as values that JSON knows."""
        return {"kind": self.kind, **asdict(self)}


@dataclass(frozen=True)
class Categories:
    """One column a known text, 1 where the text is that one; a missing text is "", an unknown one all zeros.

    >>> Categories("town", known=("", "Bonn"))(pa.array(["Bonn", None, "Rome"])).astype(int).tolist()
    [[0, 1], [1, 0], [0, 0]]
    """

    kind: ClassVar[str] = "categories"
    type: ClassVar[Any] = pa.string()
    column: str
    known: tuple[str, ...]

    def __call__(self, column: Any) -> Array:
        from pyarrow import compute

        places = compute.index_in(texts_in(column), value_set=pa.array(self.known, pa.string()))
        found = places.is_valid().to_numpy(zero_copy_only=False)
        made = np.zeros((len(found), len(self.known)), bool)
        made[found.nonzero()[0], places.drop_null().to_numpy()] = True
        return made

    def as_record(self) -> dict[str, Any]:
        """The encoder as values that JSON knows."""
        return {"kind": self.kind, "column": self.column, "known": list(self.known)}


@dataclass(frozen=True)
class Dates:
    """The day, standardised; its place in the year and in the week, and that of the time in the day, on circles.

    All are 0 where the date is missing, and, if `marks_gaps`, a last column is 1 there.

    >>> import datetime
    >>> born = Dates("born", mean=0.0, deviation=1.0, has_times=False, marks_gaps=False)
    >>> born(pa.array([datetime.datetime(1970, 1, 5)])).round(2).tolist()  # a Monday
    [[4.0, 0.07, 1.0, 0.0, 1.0]]
    """

    kind: ClassVar[str] = "dates"
    type: ClassVar[Any] = pa.timestamp("us")
    column: str
    mean: float
    deviation: float
    has_times: bool
    marks_gaps: bool

    def __call__(self, column: Any) -> Array:
        days = days_in(column)
        gaps = np.isnan(days)
        known = np.where(gaps, 0.0, days)
        dates = np.floor(known).astype("datetime64[D]")  # which would cut towards 1970 itself
        in_year = known - dates.astype("datetime64[Y]").astype("datetime64[D]").astype(float)
        turns = [in_year / YEAR, (np.floor(known) + 3) % WEEK / WEEK]  # day 0 is a Thursday
        turns += [known % DAY] if self.has_times else []
        circles = [wave(2 * np.pi * turn) for turn in turns for wave in (np.sin, np.cos)]
        made = np.where(gaps, 0.0, np.stack([(known - self.mean) / self.deviation, *circles]))
        return np.concatenate([made, gaps[None]]).T if self.marks_gaps else made.T

    def as_record(self) -> dict[str, Any]:
        """The encoder as values that JSON knows."""
        return {"kind": self.kind, **asdict(self)}


Encoder = Numbers | Categories | Dates


def encoder_from_record(record: Mapping[str, Any]) -> Encoder:
    """The encoder that `as_record` described.

    >>> town = Categories("town", known=("Bonn",))
    >>> encoder_from_record(town.as_record()) == town
    True
    """
    values = dict(record)
    kind = values.pop("kind")
    if kind == Categories.kind:
        return Categories(values["column"], tuple(values["known"]))
    for made in (Numbers, Dates):
        if kind == made.kind:
            kinds = {name: hint for name, hint in get_type_hints(made).items() if name in values}
            wrong = next((told for name, hint in kinds.items() if (told := misfit(values[name], hint, name))), None)
            if wrong is not None:
                raise ThresherError(f"The record of column {values.get('column')} is damaged ({wrong}): train again.")
            return made(**values)
    raise ValueError(f"there is no kind of column {kind!r}")


def inputs_of(rows: Any, encoders: Sequence[Encoder]) -> Tensor:
    """The inputs [n, k] that these columns of the rows become: some rows at a time, in place."""
    columns = [plain_column(rows, encoder.column) for encoder in encoders]
    widths = [encoder(column[:0]).shape[1] for encoder, column in zip(encoders, columns, strict=True)]
    refuse_beyond_memory(4 * len(rows) * sum(widths), *_said(len(rows), encoders, widths))
    made = torch.empty(len(rows), sum(widths))
    parts = torch.split(made, widths, 1)
    for start in range(0, len(rows), AT_ONCE):
        for encoder, column, part in zip(encoders, columns, parts, strict=True):
            part[start : start + AT_ONCE] = torch.as_tensor(encoder(column[start : start + AT_ONCE]))
    return made


def _said(rows: int, encoders: Sequence[Encoder], widths: Sequence[int]) -> tuple[str, str]:
    """What inputs that do not fit into memory are, and what would help."""
    widest = max(range(len(widths)), key=widths.__getitem__)
    name = encoders[widest].column
    fix = f"leave out columns of many texts (--drop {name}, which becomes {widths[widest]} inputs), or give fewer rows"
    return f"{rows:,} rows of {sum(widths):,} inputs", fix


def plain_column(rows: Any, name: str) -> Any:
    """One column in one piece: texts, dates, or numbers with nulls where they are missing."""
    column = decoded(rows.column(name).combine_chunks())
    kind = column.type
    if pa.types.is_decimal(kind):
        return column.cast(pa.float64())
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind) or is_text(column):
        return column
    if pa.types.is_timestamp(kind) or pa.types.is_null(kind):
        return column
    raise ThresherError(
        f"Column {name} holds {kind} values: turn them into numbers or text, or leave it out (--drop {name})."
    )


def decoded(column: Any) -> Any:
    """A column of dictionary codes, such as a categorical of pandas, of views of texts or of dates, as plain values."""
    from pyarrow import compute

    if pa.types.is_dictionary(column.type) and not isinstance(column.type.value_type, pa.ExtensionType):
        column = column.cast(column.type.value_type)
    if pa.types.is_date(column.type) or pa.types.is_timestamp(column.type):
        return compute.cast(column, pa.timestamp("us"), safe=False)  # nanoseconds are cut
    return column.cast(pa.string()) if str(column.type) == "string_view" else column  # which polars gives


def is_text(column: Any) -> bool:
    return bool(pa.types.is_string(column.type) or pa.types.is_large_string(column.type))


def numbers_in(column: Any, name: str) -> Array:
    """A column as float64, NaN where a value is missing."""
    inexact = column.cast(pa.float64(), safe=False)  # whole numbers above 2⁵³ lose their last digits
    values = np.array(inexact.to_numpy(zero_copy_only=False), dtype=np.float64)
    if (np.abs(values) > LARGEST).any():
        raise ThresherError(f"Column {name} has infinite values, or some above {LARGEST:g}: correct those rows.")
    return values


def texts_in(column: Any) -> Any:
    """A column as texts, "" where a value is missing; whole numbers have no decimals, whatever their type."""
    return column.cast(pa.string()).fill_null("")


def days_in(column: Any) -> Array:
    """A column of dates as days since 1970 with the time as their fraction, NaN where a date is missing."""
    dates = column.to_numpy(zero_copy_only=False).astype("datetime64[us]")
    return np.where(np.isnat(dates), np.nan, dates.astype(np.int64) / 86_400e6)
