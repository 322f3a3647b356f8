"""Questions about labels: the most doubtful examples of an audit, with what is given and what is expected."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from thresher.app.annotate.tasks import IMAGE, QUESTION, ROW, Answers, Shown
from thresher.app.corrected_tables import read_cells
from thresher.app.sources import ARRAYS, IMAGES, TABLE, Source, rows_of, targets_of
from thresher.core.errors import ThresherError
from thresher.data import load
from thresher.data.cells import plain_value
from thresher.data.image_folders import in_memory
from thresher.data.table_files import read_table
from thresher.record.issues import DIMENSION, Issues
from thresher.record.previews import encoded_images
from thresher.record.run_folder import PREVIEWS
from thresher.report.gallery import encoded_address, stored_address
from thresher.report.run_record import read_previews

MOST_NUMBERS = 24  # of an input that is a row of numbers


def answers_to(issues: Issues) -> Answers:
    """What people may answer: one of all classes, or a number, in steps that are small beside what is expected."""
    if "suggested" not in issues.table.column_names:
        width = float(np.median(issues.column("high") - issues.column("low")))
        return Answers(None, min(1.0, 10.0 ** math.floor(math.log10(max(width, 1e-6)) - 4)))
    known = {*issues.column("label").tolist(), *issues.column("suggested").tolist()}
    return Answers(list(issues.summary.get("class_names") or sorted(known)))


def most_doubtful(issues: Issues, count: int, answered: Sequence[int] = ()) -> list[int]:
    """The places in the table of the worst examples without an answer so far."""
    is_open = ~np.isin(issues.column("id"), np.array(list(answered), dtype=np.int64))
    places: list[int] = np.flatnonzero(is_open).tolist()
    if not 1 <= count <= len(places):
        raise ThresherError(
            f"{count} of {len(places)} open examples cannot be asked about: give a number from 1 to all."
        )
    return places[:count]


def shown(run: Path, source: Source, issues: Issues, places: Sequence[int]) -> list[dict[str, Any]]:
    """What is shown of the examples at these places: a picture or a row, and the question that stands above it."""
    kinds = {IMAGES: _images, TABLE: _rows, ARRAYS: _inputs}
    seen = kinds.get(source.kind, _inputs)(run, source, issues, places)
    return [
        {**each, QUESTION: _question(issues, place, source.target)} for each, place in zip(seen, places, strict=True)
    ]


def _question(issues: Issues, place: int, target: str) -> str:
    """Which labels an example has, or which value is expected, in words, and where it lies."""
    row = issues.table.slice(place, 1).to_pylist()[0]
    where = row["file"] if "file" in row else f"row {row.get('row', row['id'])}"
    if "expected" in row:
        about = "" if DIMENSION not in row else f" as {targets_of(issues, target)[place]}"
        numbers = {name: f"{row[name]:.4g}" for name in ("expected", "low", "high")}
        return (
            f"given {row['label']:.7g}{about}, expected {numbers['expected']} ({numbers['low']} to {numbers['high']}): "
            f"{where}"
        )
    if row["label"] == row["suggested"]:
        return f"labelled {row['label']} ({row['reason'] or 'low trust'}): {where}"
    return f"labelled {row['label']}, looks like {row['suggested']} ({row['probability']:.0%}): {where}"


def _images(run: Path, source: Source, issues: Issues, places: Sequence[int]) -> list[Shown]:  # noqa: ARG001
    files = issues.column("file")
    return [{IMAGE: source.path / source.inside(str(files[place]))} for place in places]


def _rows(run: Path, source: Source, issues: Issues, places: Sequence[int]) -> list[Shown]:  # noqa: ARG001
    rows = rows_of(issues)
    found = read_table(source.path).to_pylist() if source.path.suffix == ".parquet" else _texts(source)
    wanted = [rows[place] for place in places]
    targets = targets_of(issues, source.target)
    if max(wanted) >= len(found) or not set(targets) <= set(found[0]):
        raise ThresherError(f"{source.path} is not what was audited: put it back, or audit it again.")
    return [
        {ROW: {name: plain_value(value) for name, value in found[rows[place]].items() if name != targets[place]}}
        for place in places
    ]


def _texts(source: Source) -> list[dict[str, str]]:
    """The rows of a text file as they are written there."""
    head, *rows = read_cells(source.path, source.sep)
    return [dict(zip(head, row, strict=True)) for row in rows]


def _inputs(run: Path, source: Source, issues: Issues, places: Sequence[int]) -> list[Shown]:
    """Inputs as pictures, or as rows of numbers; of data that are known no more, those that the run has kept."""
    ids = [int(id_) for id_ in issues.column("id")[list(places)]]
    found = _kept(run)
    if source.name is not None and not set(ids) <= set(found):
        found = _loaded(source.name, ids)
    return [found.get(id_, {ROW: {}}) for id_ in ids]


def _kept(run: Path) -> dict[int, Shown]:
    """What the run has kept of the least trusted examples, by id."""
    if not (run / PREVIEWS).exists():
        return {}
    arrays = read_previews(run / PREVIEWS, "run the audit again")
    ids = arrays["ids"].tolist() if arrays else []
    if "inputs" in arrays:
        return dict(zip(ids, map(_row, arrays["inputs"]), strict=True))
    return {id_: {IMAGE: stored_address(arrays, place) or ""} for place, id_ in enumerate(ids)}


def _loaded(name: str, ids: Sequence[int]) -> dict[int, Shown]:
    wanted, found = set(ids), dict[int, Shown]()
    for part in reversed(load(name)):  # an id that both have is of the training set
        at = [place for place, id_ in enumerate(part.ids.tolist()) if id_ in wanted]
        if at:
            picked = in_memory(part.subset(at))
            found |= dict(zip(picked.ids.tolist(), _shown_inputs(torch.as_tensor(picked.inputs)), strict=True))
    return found


def _shown_inputs(inputs: Tensor) -> list[Shown]:
    if inputs.ndim in (3, 4):
        return [{IMAGE: encoded_address(encoded) or ""} for encoded in encoded_images(list(inputs))]
    return [_row(values) for values in inputs.numpy()]


def _row(values: Any) -> Shown:
    numbers = values.reshape(-1).tolist()
    return {ROW: {f"x{at}": plain_value(number) for at, number in enumerate(numbers[:MOST_NUMBERS])}}
