"""A corrected copy of arrays: the same file with corrected labels, beside which the given ones stay."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from thresher.app.corrections import Change, forget_changes, is_same, read_changes
from thresher.app.sources import ARRAYS, Source, rows_of, targets_of
from thresher.core.errors import ThresherError
from thresher.core.files import write_whole
from thresher.data.arrays import read_arrays
from thresher.record.issues import DIMENSION, Issues

Array = np.ndarray[Any, Any]
KEYS = ("train_targets", "targets", "train_labels", "labels", "label", "y")  # what labels may be called
GIVEN = "_given"
LABELS_FILE = "labels.npz"  # where the data are not known
ROWS = "rows_left_out"


def write_arrays(folder: Path, source: Source, issues: Issues, changes: Sequence[Change]) -> str:
    """Write the file, and one of the rows that are left out; the name of the array of labels is returned."""
    if source.kind == ARRAYS:
        arrays, name = read_arrays(source.path), source.path.name
        key, values = _labels_in(arrays, issues, source.path)
    else:
        order = np.argsort(issues.column("id"), kind="stable")
        arrays = {"ids": issues.column("id")[order], "labels": np.array(issues.column("label")[order].tolist())}
        name, key, values = LABELS_FILE, "labels", {}
        if DIMENSION in issues.table.column_names:
            arrays[DIMENSION] = issues.column(DIMENSION)[order]
        place = {int(id_): at for at, id_ in enumerate(arrays["ids"].tolist())}
        changes = [replace(each, place=place[each.id], target="") for each in changes]
    new = arrays[key].copy()
    if new.dtype.kind == "U":
        new = new.astype(object)
    for change in changes:
        if change.new is not None:
            new[(int(change.place), int(change.target or 0))[: new.ndim]] = values.get(change.new, change.new)
    arrays[key + GIVEN], arrays[key] = arrays[key], np.array(new.tolist()) if new.dtype.kind == "O" else new
    dropped = np.array(sorted(int(each.place) for each in changes if each.new is None), dtype=np.int64)
    if len(dropped):
        rows = _rowwise(arrays, key)
        _save(folder / f"dropped-{name}", {ROWS: dropped} | {each: arrays[each][dropped] for each in rows})
        arrays |= {each: np.delete(arrays[each], dropped, axis=0) for each in rows}
    _save(folder / name, arrays)
    return key


def undo_arrays(folder: Path) -> int:
    """Put the given labels back, and the rows that were left out."""
    changes, about = read_changes(folder)
    name, key = Path(about["file"]).name, str(about["column"])
    arrays, aside = read_arrays(folder / name), folder / f"dropped-{name}"
    if aside.exists() and key + GIVEN in arrays:
        dropped = read_arrays(aside)
        places = dropped.pop(ROWS)
        places = places - np.arange(len(places))  # numpy.insert counts in what was kept
        arrays |= {each: np.insert(arrays[each], places, rows, axis=0) for each, rows in dropped.items()}
    if key + GIVEN in arrays:
        arrays[key] = arrays.pop(key + GIVEN)
        _save(folder / name, arrays)
    forget_changes(folder, aside)
    return len(changes)


def _labels_in(arrays: Mapping[str, Array], issues: Issues, path: Path) -> tuple[str, dict[Any, Any]]:
    """The array that holds the audited labels, and the value that stands for each class in it."""
    rows, labels = rows_of(issues), issues.column("label").tolist()
    targets = [int(target or 0) for target in targets_of(issues, "")]
    for key in KEYS:
        if key in arrays and len(arrays[key]) > max(rows) and arrays[key].size > max(targets) * len(arrays[key]):
            found = arrays[key].reshape(len(arrays[key]), -1)
            if found.shape[1] > 1 and DIMENSION not in issues.table.column_names:
                continue
            values = _values(found[rows, targets].tolist(), labels)
            if values is not None:
                return key, values
    raise ThresherError(f"{path} does not hold the labels that were audited: give --data, the file that was.")


def _values(found: Sequence[Any], labels: Sequence[Any]) -> dict[Any, Any] | None:
    """The value of each class, or None where these are not the audited labels; real targets stand for themselves."""
    if isinstance(labels[0], float):
        return {} if all(map(is_same, found, labels)) else None
    values: dict[Any, Any] = {}
    for value, label in zip(found, labels, strict=True):
        if values.setdefault(label, value) != value:
            return None
    return values if len(set(values.values())) == len(values) else None


def _rowwise(arrays: Mapping[str, Array], key: str) -> list[str]:
    """The arrays that have a row for each label: of the training part, where there is one."""
    part = "train_" if key.startswith("train_") else ""
    length = len(arrays[key])
    names = [name for name in arrays if name.startswith(part) and not name.startswith("test_")]
    return [name for name in names if arrays[name].ndim and len(arrays[name]) == length]


def _save(path: Path, arrays: Mapping[str, Array]) -> None:
    def write(place: Path) -> None:
        with open(place, "wb") as file:
            np.savez_compressed(file, **arrays)  # type: ignore[arg-type]

    write_whole(path, write)
