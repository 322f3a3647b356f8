"""The record of an active-learning loop: its finished rounds, and what they chose."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from thresher.core.examples import Examples
from thresher.core.files import read_json, write_whole
from thresher.record.previews import save_previews
from thresher.record.run_folder import LOOP, PICKS, Loop

SHOWN = 48  # of the picks of a round, so many are kept to be looked at
Record = dict[str, Any]  # what is kept of one round


def save_picks(out: Path, round_: int, picked: Examples, **facts: Tensor | np.ndarray[Any, Any]) -> None:
    """Keep a few of the examples that a round chose, and what is known of each, to be looked at."""
    if "is_corrupt" in picked.columns:
        facts["is_corrupt"] = picked.columns["is_corrupt"]
    first = slice(0, min(SHOWN, len(picked)))
    known = {name: values[first] for name, values in facts.items()}
    save_previews(out / PICKS / f"{round_}.npz", picked.subset(range(first.stop)), **known)


def write_loop(
    folder: Path, identity: Mapping[str, Any], class_names: Sequence[str] | None, rounds: Sequence[Record]
) -> None:
    """Remember a loop: what it is, the names of its classes, and its finished rounds."""
    text = json.dumps({"identity": identity, "class_names": class_names, "rounds": rounds}, ensure_ascii=False)
    write_whole(folder / LOOP, lambda path: path.write_text(text, encoding="utf-8"))


def read_loop(folder: Path) -> dict[str, Any] | None:
    """What the folder of a loop remembers, or None where there is none."""
    path, fix = folder / LOOP, "delete this file and try again"
    try:
        stored: dict[str, Any] = read_json(path, Loop, fix)
    except FileNotFoundError:
        return None
    return stored
