"""Two folders of runs compared: everything that was computed has to be the same, to the last bit."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import torch

from thresher.core.files import LOCK
from thresher.record.ledger import Ledger

PAGES = (".html",)  # which say how long a run took


def differences(one: Path, other: Path) -> list[str]:
    """The files, by their path inside, that only one folder has, or that differ in more than times."""
    names = sorted({path.relative_to(folder).as_posix() for folder in (one, other) for path in _files(folder)})
    return [name for name in names if not _same(one / name, other / name)]


def _files(folder: Path) -> list[Path]:
    """The files that matter: of a ledger only the first part, for which all of them are compared."""
    found = (path for path in folder.rglob("*") if path.is_file() and path.name != LOCK)
    return [path for path in found if path.parent.name != "ledger" or path.name == "part-00000.parquet"]


def _same(one: Path, other: Path) -> bool:
    if not (one.is_file() and other.is_file()):
        return False
    if one.suffix in PAGES:
        return True
    if one.suffix == ".jsonl":
        return [_timeless(line) for line in _lines(one)] == [_timeless(line) for line in _lines(other)]
    if one.suffix == ".pt":
        states = [torch.load(path, weights_only=True) for path in (one, other)]
        for state in states:
            del state["ledger"]  # whose parts are cut where a run was saved
            for record in state["history"]:
                del record["seconds"]
        return _equal(*states)
    if one.parent.name == "ledger":
        order = [("epoch", "ascending"), ("peer", "ascending"), ("id", "ascending")]
        tables = [Ledger.read(path.parent).table().sort_by(order) for path in (one, other)]
        return bool(tables[0].equals(tables[1])) or _equal(tables[0].to_pydict(), tables[1].to_pydict())
    if one.suffix == ".parquet":
        return bool(pq.read_table(one).equals(pq.read_table(other)))
    if one.suffix == ".npz":
        with np.load(one) as first, np.load(other) as second:
            return _equal(dict(first), dict(second))
    return one.read_bytes() == other.read_bytes()


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def _timeless(line: str) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(line)
    record.pop("seconds", None)
    return record


def _equal(one: Any, other: Any) -> bool:
    """Whether two values are the same to the last bit; NaN is NaN."""
    if isinstance(one, dict):
        return isinstance(other, dict) and one.keys() == other.keys() and all(_equal(one[k], other[k]) for k in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_equal, one, other))
    if isinstance(one, torch.Tensor):
        return bool(torch.equal(one.nan_to_num(0.5), other.nan_to_num(0.5))) and one.shape == other.shape
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other, equal_nan=one.dtype.kind == "f")
    return bool(one == other) or (one != one and other != other)
