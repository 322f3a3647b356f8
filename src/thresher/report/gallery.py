"""The examples of a run as one compact block of columns, the worst first, from which the page shows a few at a time."""

import io
import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from thresher.record.issues import COLUMNS, OF_CLASSES, OF_TARGETS, Issues
from thresher.record.previews import stored_picture
from thresher.report.run_record import (
    CORRUPTED,
    UNKNOWN,
    Array,
    Columns,
    RunRecord,
    read_signals,
    read_traces,
    rows_of,
)

if TYPE_CHECKING:
    from PIL.Image import Image

SMALLEST = 96  # pixels on the longer side of a picture that is looked at on its own
MOST_ROWS = 100_000  # of all galleries of a page
ROOM = 9_000_000  # characters for what examples look like, of all galleries of a page
MOST_CELLS = 40  # of a row of a table
MOST_EPOCHS = 40  # points of a line of trust

Block = dict[str, Any]


def gallery(run: RunRecord, share: float = 1.0) -> Block | None:
    """What the page knows of each example, and of some how they look; `share` of the room of the page is for it."""
    most = int(share * MOST_ROWS)
    block = _of_run(run, most) if run.issues is None else _of_issues(run.issues, most)
    return None if block is None else block | _looks(run, np.array(block["id"]), int(share * ROOM))


def picture_address(picture: "Image", largest: int, kind: str) -> str:
    """A picture as a data address of this kind, png or jpeg: small ones with crisp pixels, large ones made smaller."""
    from PIL.Image import Resampling

    side = max(picture.size)
    if side < SMALLEST:
        factor = -(-SMALLEST // side)
        picture = picture.resize((picture.width * factor, picture.height * factor), Resampling.NEAREST)
    picture.thumbnail((largest, largest))
    buffer = io.BytesIO()
    picture.save(buffer, kind, optimize=True)
    return f"data:image/{kind};base64," + b64encode(buffer.getvalue()).decode()


def stored_address(stored: Columns, place: int) -> str | None:
    """A stored picture as a data address, or None where there is none."""
    return encoded_address(stored_picture(stored, place))


def encoded_address(encoded: bytes) -> str | None:
    """The bytes of a picture as a data address, or None where there are none."""
    kind = "png" if encoded.startswith(b"\x89PNG") else "webp"
    return f"data:image/{kind};base64," + b64encode(encoded).decode() if encoded else None


def _of_issues(issues: Issues, most: int) -> Block:
    table = issues.table.slice(0, most)
    columns = {name: table.column(name).to_pylist() for name in table.column_names}
    block = _shared(columns["id"], columns.get("file"), columns["trust"]) | {
        "told": "suggested",
        "total": len(issues),
        "issue": [int(value) for value in columns["is_issue"]],
        "weight": _rounded(columns["weight"]),
    }
    block["reasons"], block["reason"] = _by_number(columns["reason"])
    if "suggested" in columns:
        names = list(dict.fromkeys([*(issues.summary.get("class_names") or ()), *columns["label"]]))
        classes, numbers = _by_number([*columns["label"], *columns["suggested"]], names)
        half = len(columns["label"])
        block |= {"classes": classes, "label": numbers[:half], "suggested": numbers[half:]}
        block["probability"] = _rounded(columns["probability"])
    else:
        block |= {name: _rounded(columns[name], 6) for name in OF_TARGETS}
    own = {*COLUMNS, *OF_CLASSES, *OF_TARGETS, "file"}
    brought = {name: [_cell(value) for value in values] for name, values in columns.items() if name not in own}
    return block | {"brought": [[name, values] for name, values in brought.items() if len(str(values)) <= ROOM // 4]}


def _of_run(run: RunRecord, most: int) -> Block | None:
    if "id" not in run.examples:
        return None
    trust = run.examples.get("trust", np.full(len(run.examples["id"]), np.nan))
    order = np.argsort(trust, kind="stable")[:most]
    examples = {name: values[order] for name, values in run.examples.items()}
    block = _shared(examples["id"].tolist(), examples.get("file"), trust[order].tolist())
    block |= {"told": "predicted", "total": len(trust), "brought": []}
    signals = read_signals(run.folder, examples["id"])
    if signals is not None:
        block["signal"] = _rounded(signals.tolist(), 6)
    columns = {"label": (examples, "target"), "suggested": (_last_predictions(run, examples["id"]), "prediction")}
    if "origin" in examples:
        block["corrupt"] = [None if known == UNKNOWN else int(known == CORRUPTED) for known in examples["origin"]]
        columns["truth"] = (examples, "true_target")
    if run.is_regression:
        texts = {name: _targets(*place) for name, place in columns.items()}
        return block | {name: values for name, values in texts.items() if values}
    known = {name: source[column] for name, (source, column) in columns.items() if column in source}
    if not known:  # several labels, or positions
        return block
    highest = max((int(np.nanmax(values)) for values in known.values() if np.isfinite(values).any()), default=-1)
    block["classes"] = [run.class_name(label) for label in range(highest + 1)]
    return block | {name: _numbers(values) for name, values in known.items()}


def _shared(ids: Sequence[int], files: Sequence[str] | Array | None, trust: Sequence[float]) -> Block:
    block: Block = {"id": list(ids), "trust": _rounded(trust)}
    if files is not None:  # most paths begin with one of a few folders
        parts = [str(file).rpartition("/") for file in files]
        block["folders"], block["folder"] = _by_number([folder + slash for folder, slash, _ in parts])
        block["file"] = [name for _, _, name in parts]
    return block


def _last_predictions(run: RunRecord, ids: Array) -> dict[str, Array]:
    """The last predictions of the first peer for these examples."""
    last = run.last_epoch
    if "id" not in last:
        return {}
    first = last["peer"] == last["peer"].min() if "peer" in last else np.ones(len(last["id"]), bool)
    order = np.argsort(last["id"][first], kind="stable")
    rows, found = rows_of(last["id"][first][order], ids)
    columns = {name: values[first][order][rows] for name, values in last.items() if name.startswith("prediction")}
    return {name: np.where(found, values, np.nan) for name, values in columns.items()}


def _looks(run: RunRecord, ids: Array, room: int) -> Block:
    """Pictures or cells of the first examples that have some, as many as there is room for, and their traces."""
    stored = run.previews
    if "ids" not in stored:
        return {"shown": [], "pictures": [], "cells": [], "names": [], "hidden": 0, "traces": []}
    by_id = np.argsort(stored["ids"], kind="stable")
    rows, found = rows_of(stored["ids"][by_id], ids)
    names, hidden = _cell_names(stored)
    shown, pictures, cells = [], [], []
    for at in np.flatnonzero(found).tolist():
        place = int(by_id[rows[at]])
        pictures.append(b64encode(stored_picture(stored, place)).decode())
        cells.append(_cells(stored, place)[: len(names)])
        shown.append(at)
        room -= len(pictures[-1]) + sum(map(len, cells[-1])) + 8 * len(cells[-1])
        if room <= 0:
            break
    traces = read_traces(run.folder, ids[shown]) if shown else {}
    thinned = [_thinned(traces.get(int(ids[at]), [])) for at in shown]
    pictures = pictures if any(pictures) else []
    return {"shown": shown, "pictures": pictures, "cells": cells, "names": names, "hidden": hidden, "traces": thinned}


def _cell_names(stored: Columns) -> tuple[list[str], int]:
    """The shown columns of a table as it was given, or else of what the model saw of it, and how many are not."""
    if "row" in stored:
        names = list(json.loads(str(stored["row"][0])))
        return names[:MOST_CELLS], max(0, len(names) - MOST_CELLS)
    if "inputs" not in stored or stored["inputs"].ndim != 2:
        return [], 0
    width = int(stored.get("width", stored["inputs"].shape[1]))
    count = min(MOST_CELLS, stored["inputs"].shape[1])
    return [f"x{place}" for place in range(count)], width - count


def _cells(stored: Columns, place: int) -> list[str]:
    if "row" in stored:
        return [_cell(value) for value in json.loads(str(stored["row"][place])).values()]
    if "inputs" in stored and stored["inputs"].ndim == 2:
        return [f"{value:.4g}" for value in stored["inputs"][place].tolist()]
    return []


def _cell(value: Any) -> str:
    """A value of a table, short enough for many of them.

    >>> _cell(None), _cell("rent"), _cell(39), _cell(0.30000000000000004)
    ('', 'rent', '39', '0.3')
    """
    if isinstance(value, float):
        return f"{value:.6g}"
    return "" if value is None else str(value)


def _thinned(trace: Sequence[float | None]) -> list[int | None]:
    """At most forty points of a line, in hundredths.

    >>> _thinned([0.5, None, 0.257])
    [50, None, 26]
    """
    kept = [trace[int(at)] for at in np.linspace(0, len(trace) - 1, min(len(trace), MOST_EPOCHS)).round()]
    return [None if value is None else round(100 * value) for value in kept]


def _by_number(texts: Sequence[str | None], names: Sequence[str] = ()) -> tuple[list[str], list[int]]:
    """The distinct texts, after these names, and the number of each text among them; -1 for none.

    >>> _by_number(["b", None, "b", "a"])
    (['b', 'a'], [0, -1, 0, 1])
    """
    known = list(dict.fromkeys([*names, *(text for text in texts if text)]))
    number = {text: place for place, text in enumerate(known)}
    return known, [number[text] if text else -1 for text in texts]


def _numbers(labels: Array) -> list[int]:
    return np.where(np.isfinite(labels), labels, -1).astype(int).tolist()  # type: ignore[no-any-return]


def _rounded(values: Sequence[float | None], digits: int = 4) -> list[float | None]:
    return [None if value is None or not np.isfinite(value) else float(f"{value:.{digits}g}") for value in values]


def _targets(columns: Mapping[str, Array], name: str) -> list[Any]:
    """One real target as a number, several as text, up to three of them; nothing where they are not known."""
    parts = [columns[part] for place in range(3) if (part := f"{name}_{place}") in columns]
    if len(parts) <= 1:
        return _rounded(parts[0].tolist(), 6) if parts else []
    more = "; …" if f"{name}_3" in columns else ""
    return [
        "; ".join(_number(value) for value in values) + more
        for values in zip(*(p.tolist() for p in parts), strict=True)
    ]


def _number(value: float) -> str:
    """Six digits, and all of those before the point.

    >>> _number(6949760.04), _number(1.5), _number(1e-7)
    ('6,949,760', '1.5', '1e-07')
    """
    return f"{value:,.0f}" if 1e5 <= abs(value) < 1e15 else f"{value:.6g}"
