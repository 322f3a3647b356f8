"""The issues of a data set: what an audit found out about every example, the worst first."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyarrow import csv

from thresher.core.errors import SEED, ThresherError, refuse_unless, unknown
from thresher.core.files import read_json, reading, write_whole
from thresher.record import run_folder
from thresher.record.ledger import dataframe

# Why an example is an issue; an example that is none has an empty reason.
DISAGREEMENT = "disagreement"  # models that never saw the label give another class, or a value far from it
DUPLICATE = "near-duplicate with another label"
AMBIGUOUS = "ambiguous between two classes"
OUTLIER = "outlier"  # unlike every class
REASONS = (DISAGREEMENT, DUPLICATE, AMBIGUOUS, OUTLIER)

LIKELIER = "likelier"  # of classes: how likely the suggested label is right, if it or the given one is
DIMENSION = "dimension"  # of several real targets: which one lies furthest from what is expected, and is shown

COLUMNS = ("id", "trust", "is_issue", "reason", "weight")  # of every audit


def _is_label(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_floating(kind))


KINDS = {  # of the columns that are read again
    "id": pa.types.is_integer, "trust": pa.types.is_floating, "weight": pa.types.is_floating,
    "is_issue": pa.types.is_boolean, "reason": pa.types.is_string, "suggested": pa.types.is_string,
    "probability": pa.types.is_floating, "expected": pa.types.is_floating, "file": pa.types.is_string,
    "label": _is_label, "row": pa.types.is_integer, "low": pa.types.is_floating, "high": pa.types.is_floating,
    DIMENSION: pa.types.is_integer, LIKELIER: pa.types.is_floating,
}  # fmt: skip
OF_CLASSES = ("label", "suggested", "probability")  # names as text, and the suggested one's probability
OF_TARGETS = ("label", "expected", "low", "high")  # numbers, in the unit of the data


class Duplicates(TypedDict):
    """A group of examples that are alike."""

    ids: list[int]
    exact: bool
    across: str | None


class Summary(TypedDict, total=False):
    """What issues.json holds."""

    noise_rate: run_folder.NoiseRate | None
    class_names: list[str] | None
    noise_matrix: list[list[float]] | None
    class_noise: list[float | None] | None
    duplicates: list[Duplicates] | None
    method: str | None
    why: str | None
    data: str | None


@dataclass(frozen=True, repr=False)
class Issues:
    """One row for every example, the worst first, and what they say together.

    table    columns id, file or row, label, suggested, probability, likelier, trust, is_issue, reason, weight, and
             those that the data brought (an id or a path). `likelier`: how likely the suggested label is right, if it
             or the given one is. Real targets: label, expected, low and high instead of the classes'; of several
             targets those of the worst one, which is the number `dimension`
    summary  what is said of the whole set, as JSON has it:
             examples, issues       how many there are
             noise_rate             {rate, low, high, why}; rate is None where it cannot be told
             class_names            of the classes, None for real targets
             noise_matrix           [classes, classes]: the share of true class i that has been labelled j
             class_noise            [classes]: the share of labels of a class that look wrong
             duplicates             groups of examples that are alike: [{ids, exact, across}, ...], where `across` is
                                    "labels", "sets" or None
             method, why            how the examples were judged
             data                   where they lie, as `thresher train --data` names it; None: they came from Python
    """

    table: pa.Table
    summary: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        kind = OF_CLASSES if "suggested" in self.table.column_names else OF_TARGETS
        missing = [name for name in (*COLUMNS, *kind) if name not in self.table.column_names]
        if missing:
            raise ThresherError(f"The issues have no column {missing[0]}: run the audit again.")
        for name, fits in KINDS.items():
            if name in self.table.column_names and not fits(self.table.schema.field(name).type):
                found = self.table.schema.field(name).type
                raise ThresherError(f"The column {name} of the issues holds {found}: run the audit again.")
        for name, column in zip(self.table.column_names, self.table.columns, strict=True):
            if pa.types.is_floating(column.type) and pc.all(pc.is_finite(column)).as_py() is False:
                raise ThresherError(f"The column {name} of the issues has NaN or infinite values: run the audit again.")
        for name in (each for each in KINDS if each != "file"):  # of which the data may lack some
            if name in self.table.column_names and self.table.column(name).null_count:
                raise ThresherError(f"The column {name} of the issues has gaps: run the audit again.")
        if len(pc.unique(self.table.column("id"))) < len(self.table):
            raise ThresherError("The issues have ids that repeat: run the audit again.")
        self._check_classes()

    def _check_classes(self) -> None:
        """Refuse a summary whose tables do not fit its classes."""
        found = self.summary.get("noise_rate")
        if found is not None and (odd := run_folder.odd_rate(found)) is not None:
            raise ThresherError(f"The noise rate of the issues has {odd:g}, which is no share: run the audit again.")
        names = self.summary.get("class_names") or []
        shares, matrix = self.summary.get("class_noise"), self.summary.get("noise_matrix")
        lengths = {len(each) for each in (shares, matrix, *(matrix or [])) if each}
        if names and lengths - {len(names)}:
            raise ThresherError("The summary of the issues does not fit its classes: run the audit again.")

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __repr__(self) -> str:
        return f"Issues({self.headline()!r})"

    def headline(self) -> str:
        """The first thing to say of the data."""
        count, found = len(self), self.summary.get("noise_rate") or {}
        what = "labels" if "suggested" in self.table.column_names else "targets"
        if found.get("rate") is None:
            why = str(found.get("why", "not estimated")).removeprefix("cannot tell: ")
            return f"How many of the {count:,} {what} are wrong cannot be told: {why}."
        wrong = round(found["rate"] * count)
        return f"About {wrong:,} of {count:,} {what} look wrong ({found['low']:.0%} to {found['high']:.0%})."

    def column(self, name: str) -> NDArray[Any]:
        """One column [n], in the order of the table."""
        if name not in self.table.column_names:
            raise unknown("column of the issues", str(name), self.table.column_names)
        return np.asarray(self.table.column(name).to_numpy(zero_copy_only=False))

    def to_pandas(self) -> Any:
        """The table as a DataFrame, where pandas is installed."""
        return dataframe(self.table)

    def weights(self) -> NDArray[np.float64]:
        """How far each example should count [n], in the order of the data: `sample_weight` of any other learner."""
        order = np.argsort(self.column("id"), kind="stable")
        return self.column("weight")[order].astype(np.float64)

    def chosen(self, *, below: float | None = None, count: int | None = None) -> NDArray[np.bool_]:
        """Which examples to act on [n], in the order of the table: issues, or others by trust or number.

        Of classes the issues whose suggested label is likelier right than wrong, of real targets those that are far
        from what is expected; none where the noise rate cannot be told, or may be 0.

        below  those that are trusted less
        count  so many of the worst
        """
        if below is not None and count is not None:
            raise ThresherError("A trust and a number both say which examples are meant: give one of them.")
        refuse_unless("count", count, count is None or SEED[0](count), "a whole number")
        refuse_unless("below", below, below is None or isinstance(below, Real), "a number such as 0.1")
        if count is not None:
            if not 1 <= count <= len(self):
                raise ThresherError(f"{count} of {len(self)} examples cannot be chosen: give a number from 1 to all.")
            return np.arange(len(self)) < count
        if below is not None:
            if not 0 < below <= 1:
                raise ThresherError(f"Trust lies between 0 and 1, and {below:g} does not: give a number such as 0.1.")
            return np.asarray(self.column("trust") < below)
        issues: NDArray[np.bool_] = self.column("is_issue").astype(bool)
        found = self.summary.get("noise_rate")
        if found is not None and (not self.told or found["low"] == 0):
            return np.zeros_like(issues)
        if "suggested" not in self.table.column_names:
            issues &= self.column("reason") != OUTLIER
        elif LIKELIER in self.table.column_names:
            issues &= self.column(LIKELIER) > 0.5
        return issues

    @property
    def told(self) -> bool:
        """Whether the audit could tell how many labels are wrong."""
        return (self.summary.get("noise_rate") or {"rate": 0.0})["rate"] is not None

    def corrected(self, *, below: float | None = None, count: int | None = None) -> NDArray[Any]:
        """The label of each example [n], in the order of the data; of those `chosen` the suggested or expected one.

        >>> facts = {"id": [1, 0], "trust": [0.1, 0.9], "is_issue": [True, False], "reason": ["outlier", ""]}
        >>> names = {"label": ["cat", "cat"], "suggested": ["dog", "dog"], "probability": [0.9, 0.4]}
        >>> Issues(pa.table({**facts, **names, "weight": [0.0, 1.0]})).corrected().tolist()
        ['cat', 'dog']
        """
        if DIMENSION in self.table.column_names:
            raise ThresherError(
                "Several targets were audited, and each row shows its worst one: read dimension and expected."
            )
        better = self.column("suggested" if "suggested" in self.table.column_names else "expected")
        new = np.where(self.chosen(below=below, count=count), better, self.column("label"))
        return np.array(new[np.argsort(self.column("id"), kind="stable")].tolist())

    def write(self, folder: Path) -> None:
        """Write issues.csv, issues.parquet and issues.json into a folder."""
        write_whole(folder / run_folder.ISSUES_CSV, lambda path: csv.write_csv(for_spreadsheets(self.table), path))
        write_whole(folder / run_folder.ISSUES, lambda path: pq.write_table(self.table, path, compression="zstd"))
        text = json.dumps(dict(self.summary), indent=1, allow_nan=False)
        write_whole(folder / run_folder.ISSUES_SUMMARY, lambda path: path.write_text(text, encoding="utf-8"))

    @staticmethod
    def read(folder: Path) -> "Issues":
        """Those that an audit wrote into a folder."""
        path = folder / run_folder.ISSUES
        if not path.is_file():
            raise ThresherError(f"{folder} holds no audit: run `thresher audit DATA --out {folder}` first.")
        fix = "run the audit again"
        summary = read_json(folder / run_folder.ISSUES_SUMMARY, Summary, fix)
        with reading(path, fix):
            table = pq.read_table(path)
            table.validate(full=True)  # whose texts may be no UTF-8
        return Issues(table, summary)


def for_spreadsheets(table: pa.Table) -> pa.Table:
    """The table with an apostrophe before each text, and name of a column, that would be read as a formula."""
    for at, name in enumerate(table.column_names):
        if pa.types.is_string(table.schema.field(at).type):
            texts = [_plain(text) for text in table.column(at).to_pylist()]
            table = table.set_column(at, name, pa.array(texts, pa.string()))
    return table.rename_columns([str(_plain(name)) for name in table.column_names])


def _plain(text: str | None) -> str | None:
    return f"'{text}" if text and text[0] in "=+-@\t\r" else text
