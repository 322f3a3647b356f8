"""What a run predicts of new data, as a table."""

import sys
from csv import Error as CsvError
from csv import reader
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

from thresher.core.errors import ThresherError
from thresher.core.files import write_whole
from thresher.data.image_files import files_of
from thresher.data.preparation import RowPreparation
from thresher.data.table_files import TABLE_SUFFIXES
from thresher.engine.run import Run
from thresher.record.issues import for_spreadsheets


def predictions(run: Run, data: Path, all_classes: bool = False) -> Any:
    """One row for each input: its file or row, then the class and its probability, or the predicted targets.

    With all classes, the probabilities of all of them follow, each in a column of its own.
    """
    examples = run.prepare(_read(data, run.about["preparation"].get("kind")))
    files = files_of(examples.inputs)
    place: dict[str, Any] = (
        {"file": [str(file) for file in files]} if files else {"row": np.arange(len(examples), dtype=np.int64)}
    )
    if run.about["classes"] is None:
        if all_classes:
            raise ThresherError("This run has real targets and so no probabilities: leave out --all-classes.")
        values = run.predict(examples)
        return pa.table(place | {f"prediction_{at}": column for at, column in enumerate(values.T)})
    chances = run.predict_proba(examples)
    names = run.labels()
    found = place | {"class": names[chances.argmax(1)], "probability": chances.max(1)}
    if all_classes:
        found |= {f"probability_{name}": column for name, column in zip(names, chances.T, strict=True)}
    return pa.table(found)


def refuse_to_write(out: Path | None, data: Path) -> None:
    """Refuse a file of a kind that predictions are not written as, and the data themselves; None is the terminal."""
    if out is not None and out.exists() and data.exists() and out.samefile(data):
        raise ThresherError(f"{out} is what is to be predicted, and would be replaced: choose another file as --out.")
    if out is not None and out.suffix not in (".csv", ".parquet"):
        raise ThresherError(f"{out} is neither .csv nor .parquet: choose one of them.")
    if out is not None and out.is_file() and out.stat().st_size and not _holds_predictions(out):
        raise ThresherError(f"{out} holds something else than predictions, and would be replaced: choose another file.")


def _holds_predictions(path: Path) -> bool:
    """Whether the columns of a file begin as those that `predictions` makes."""
    try:
        if path.suffix == ".parquet":
            names = pq.read_schema(path).names
        else:
            with path.open(encoding="utf-8", newline="") as file:
                names = next(reader(file), [])
    except (OSError, ValueError, CsvError):
        return False
    return names[:1] in (["file"], ["row"]) and names[1:2] in (["class"], ["prediction_0"])


def write_predictions(table: Any, out: Path | None) -> None:
    """Write the table, whole or not at all; without a file, as CSV to the terminal."""
    if out is None and sys.stdout is None:
        raise ThresherError("The standard output is closed: give --out, a file to write.")
    if out is None:
        csv.write_csv(for_spreadsheets(table), sys.stdout.buffer)
    elif out.suffix == ".parquet":
        write_whole(out, lambda path: pq.write_table(table, path))
    else:
        write_whole(out, lambda path: csv.write_csv(for_spreadsheets(table), path))


def _read(data: Path, kind: str) -> Path:
    """What `Run.predict` takes, of a run whose inputs are of this kind: the path, unless it cannot be of that kind."""
    if not data.exists():
        raise ThresherError(f"There is no file or folder {data}: check the path.")
    if kind == RowPreparation.kind and not data.name.endswith(TABLE_SUFFIXES):
        raise ThresherError(f"{data} is no table: give a table, which ends in {', '.join(TABLE_SUFFIXES)}.")
    return data
