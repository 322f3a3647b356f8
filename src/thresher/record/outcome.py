"""What a finished run writes: trust in every example, and previews of the least trusted."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import torch

from thresher.core.examples import Examples
from thresher.core.files import damaged, read_arrays, reading, write_whole
from thresher.core.signals import margins
from thresher.core.tasks import CLASSES, REAL
from thresher.data.cells import plain_value
from thresher.data.image_files import files_of
from thresher.record import run_folder
from thresher.record.ledger import Ledger
from thresher.record.previews import save_previews, write_arrays

LONGEST = 300  # characters of a cell of a table that are kept
PREVIEW_COUNT = 2000


def write_outcome(folder: Path, train: Examples, ledger: Ledger, validation: Examples | None = None) -> None:
    """Write examples.parquet (id, trust, target; file, truth, teacher where known) and previews.npz (least trusted).

    Where a validation set has teacher outputs, teacher.parquet says which of them are right, and how sure they are.
    """
    ids, trust = ledger.trust()
    place = torch.argsort(train.ids.cpu())
    trusted = torch.empty(len(train))
    trusted[place] = trust[torch.argsort(ids)]
    keep_worst(folder, train, _worst(folder, train, trusted))
    if validation is not None and "teacher_output" in validation.columns:
        _write(folder / run_folder.TEACHER, _judged(validation))
    _write(folder / run_folder.EXAMPLES, _facts(train, trusted))


def write_trust(folder: Path, ledger: Ledger) -> None:
    """Write examples.parquet (id, trust, target) from a ledger alone, where nothing else of the data is known."""
    ids, trust = ledger.trust()
    columns = {"id": ids.numpy(), "trust": trust.numpy()}
    known = ledger.table(where=pc.field("epoch") == 1).column_names
    for name in (each for each in known if each == "target" or each.startswith("target_")):
        given = ledger.table(["id", name]).group_by("id").aggregate([(name, "max")]).sort_by("id")
        columns[name] = given[f"{name}_max"].to_numpy()
    _write(folder / run_folder.EXAMPLES, pa.table(columns))


def keep_worst(folder: Path, examples: Examples, ids: Iterable[int]) -> None:
    """Write previews.npz: the first of these examples by id, the worst first."""
    place = {id_: at for at, id_ in enumerate(examples.ids.tolist())}
    picked = torch.tensor([place[id_] for id_ in ids if id_ in place])
    save_previews(folder / run_folder.PREVIEWS, examples.subset(picked[:PREVIEW_COUNT]))


def _worst(folder: Path, train: Examples, trust: torch.Tensor) -> list[int]:
    """Ids, the worst first: as the audit in this folder has them, if there is one, otherwise by trust."""
    if not (folder / run_folder.ISSUES).is_file():
        ids: list[int] = train.ids.cpu()[torch.argsort(trust, stable=True)].tolist()
        return ids
    with reading(folder / run_folder.ISSUES, "run the audit again"):
        audited: list[int] = pq.read_table(folder / run_folder.ISSUES, columns=["id"])["id"].to_pylist()
    return audited


def keep_rows(folder: Path, table: pa.Table, ids: torch.Tensor) -> None:
    """Store the least trusted rows of a table beside the inputs that the model saw.

    `ids` are those of the examples that are rows of the table, and are their row numbers; others have empty rows.
    """
    path, fix = folder / run_folder.PREVIEWS, "delete it and examples.parquet, and run the same command again"
    arrays = read_arrays(path, fix, {"ids": "iu"})
    if "row" not in arrays:
        if "ids" not in arrays:
            raise damaged(path, "it lacks 'ids'", fix)
        is_row = np.isin(arrays["ids"], ids.cpu().numpy())
        rows = iter(table.take(arrays["ids"][is_row]).to_pylist())
        empty = dict.fromkeys(table.column_names)
        arrays["row"] = np.array([_as_json(next(rows) if known else empty) for known in is_row])
        write_arrays(folder / run_folder.PREVIEWS, arrays)


def _as_json(row: dict[str, Any]) -> str:
    """A row of a table; long texts and lists are cut."""
    plain = {name: plain_value(value) for name, value in row.items()}
    return json.dumps({name: _cut(value) if isinstance(value, str) else value for name, value in plain.items()})


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


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
