"""What a finished run writes: trust in every example, and previews of the least trusted."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from thresher.core.errors import ThresherError
from thresher.core.examples import Examples
from thresher.core.files import write_whole
from thresher.core.signals import margins
from thresher.core.tasks import CLASSES, REAL
from thresher.data.image_files import files_of
from thresher.record import run_folder
from thresher.record.ledger import Ledger
from thresher.record.previews import PREVIEW_COUNT, save_previews, write_arrays

LONGEST = 300  # characters of a cell of a table that are kept


def write_outcome(folder: Path, train: Examples, ledger: Ledger, validation: Examples | None = None) -> None:
    """Write examples.parquet (id, trust, target; file, truth, teacher where known) and previews.npz (least trusted).

    Where a validation set has teacher outputs, teacher.parquet says which of them are right, and how sure they are.
    """
    ids, trust = ledger.trust()
    place = torch.argsort(train.ids.cpu())
    trusted = torch.empty(len(train))
    trusted[place] = trust[torch.argsort(ids)]
    save_previews(folder / run_folder.PREVIEWS, train.subset(_worst(folder, train, trusted)[:PREVIEW_COUNT]))
    if validation is not None and "teacher_output" in validation.columns:
        _write(folder / run_folder.TEACHER, _judged(validation))
    _write(folder / run_folder.EXAMPLES, _facts(train, trusted))


def _worst(folder: Path, train: Examples, trust: torch.Tensor) -> torch.Tensor:
    """Positions, the worst first: as the audit in this folder has them, if there is one, otherwise by trust."""
    if not (folder / run_folder.ISSUES).is_file():
        return torch.argsort(trust, stable=True)
    place = {id_: at for at, id_ in enumerate(train.ids.tolist())}
    audited = pq.read_table(folder / run_folder.ISSUES, columns=["id"])["id"].to_pylist()
    return torch.tensor([place[id_] for id_ in audited if id_ in place], dtype=torch.long)


def keep_rows(folder: Path, table: pa.Table, ids: torch.Tensor) -> None:
    """Store the least trusted rows of a table beside the inputs that the model saw.

    `ids` are those of the examples that are rows of the table, and are their row numbers; others have empty rows.
    """
    with np.load(folder / run_folder.PREVIEWS) as stored:
        arrays = dict(stored)
    if "row" not in arrays:
        is_row = np.isin(arrays["ids"], ids.cpu().numpy())
        rows = iter(table.take(arrays["ids"][is_row]).to_pylist())
        empty = dict.fromkeys(table.column_names)
        arrays["row"] = np.array([_as_json(next(rows) if known else empty) for known in is_row])
        write_arrays(folder / run_folder.PREVIEWS, arrays)


def _as_json(row: dict[str, Any]) -> str:
    """A row of a table; long texts are cut."""
    return json.dumps(
        {name: _cut(value) if isinstance(value, str) else value for name, value in row.items()}, default=str
    )


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def by_folds_in(folder: Path) -> dict[str, Any] | None:
    """The noise rate that folds found for the run in this folder: rate, low, high and why."""
    path = folder / run_folder.NOISE_RATE
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        rate = None if stored["rate"] is None else float(stored["rate"])
        return {"rate": rate, **{name: stored[name] for name in ("low", "high", "why")}}
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError) as error:
        raise ThresherError(f"{path} is damaged: delete it, and the rate is measured again.") from error


def class_names_in(folder: Path) -> list[str] | None:
    """The names of the classes of a finished run, or None where they have none."""
    stored = (pq.read_schema(folder / run_folder.EXAMPLES).metadata or {}).get(b"class_names")
    return None if stored is None else json.loads(stored)


def _write(path: Path, facts: pa.Table) -> None:
    write_whole(path, lambda place: pq.write_table(facts, place, compression="zstd"))


def _judged(validation: Examples) -> pa.Table:
    outputs = validation.columns["teacher_output"]
    right = (outputs.argmax(1) == validation.labels).cpu().numpy()
    return pa.table({"id": validation.ids.cpu().numpy(), "margin": margins(outputs).cpu().numpy(), "right": right})


def _facts(train: Examples, trust: torch.Tensor) -> pa.Table:
    columns: dict[str, Any] = {"id": train.ids.cpu().numpy(), "trust": trust.numpy()}
    if not train.in_memory and (files := files_of(train.inputs)):
        columns["file"] = [str(file) for file in files]
    for name, values in (("target", train.targets), ("true_target", train.columns.get("true_target"))):
        if values is None or train.task not in (CLASSES, REAL):
            continue
        if train.is_regression:
            given = train.as_given(values.reshape(len(train), -1))
            columns |= {f"{name}_{d}": column for d, column in enumerate(given.T.numpy())}
        else:
            labels = values if values.ndim == 1 else values.argmax(1)
            columns[name] = labels.cpu().numpy().astype(np.int32)
    if "from_teacher" in train.columns and "teacher_output" in train.columns:
        columns["from_teacher"] = train.columns["from_teacher"].cpu().numpy().astype(bool)
        columns["teacher_margin"] = margins(train.columns["teacher_output"].float()).cpu().numpy()
    if "is_corrupt" in train.columns:
        columns["is_corrupt"] = train.columns["is_corrupt"].cpu().numpy().astype(bool)
    table = pa.table(columns)
    if train.class_names is not None:
        table = table.replace_schema_metadata({"class_names": json.dumps(list(train.class_names))})
    return table
