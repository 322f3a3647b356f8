"""Small audited data: what is wrong is known, and issues are written as an audit writes them."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from PIL import Image

from thresher.record.issues import Issues

CLASSES = ["cat", "dog"]
COUNT = 24
WRONG = {0: "dog", 3: "dog", 13: "cat"}  # id: the true class; the first half is labelled cat, the others dog


def given(id_: int) -> str:
    return CLASSES[id_ >= COUNT // 2]


def write_issues(run: Path, data: str | None, places: dict[str, Sequence[Any]], labels: Sequence[Any]) -> Issues:
    """Issues whose wrong labels are the first rows, with trust 0.1, 0.2 and 0.3."""
    order = [*WRONG, *(id_ for id_ in range(COUNT) if id_ not in WRONG)]
    suggested = [_other(label, labels) if id_ in WRONG else label for id_, label in enumerate(labels)]
    table = {
        "id": order,
        **{name: [values[id_] for id_ in order] for name, values in places.items()},
        "label": [labels[id_] for id_ in order],
        "suggested": [suggested[id_] for id_ in order],
        "probability": [0.9] * COUNT,
        "trust": [0.1, 0.2, 0.3, *np.linspace(0.5, 1, COUNT - 3)],
        "is_issue": [id_ in WRONG for id_ in order],
        "reason": ["disagreement" if id_ in WRONG else "" for id_ in order],
        "weight": [float(id_ not in WRONG) for id_ in order],
    }
    issues = Issues(pa.table(table), {"class_names": sorted(set(labels)), "data": data})
    run.mkdir(parents=True, exist_ok=True)
    issues.write(run)
    return issues


def _other(label: str, labels: Sequence[str]) -> str:
    return next(each for each in sorted(set(labels)) if each != label)


def photos(folder: Path) -> list[str]:
    """A folder of images, in which both classes have files of the same names, one of them in a folder further down."""
    draws = np.random.default_rng(0)
    files = []
    for id_ in range(COUNT):
        true = WRONG.get(id_, given(id_))
        below = "more/" if id_ == 3 else ""
        file = folder / given(id_) / f"{below}{id_ % (COUNT // 2)}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        pixels = draws.integers(0, 60, (12, 12, 3), dtype=np.uint8)
        pixels[..., CLASSES.index(true)] += 150
        Image.fromarray(pixels).save(file)
        files.append(str(file))
    (folder / "licence.txt").write_text("free")
    return files


def rows(labels: Sequence[Any]) -> dict[str, list[Any]]:
    """The columns of a table whose `length` tells the true class."""
    true = [CLASSES.index(WRONG.get(id_, given(id_))) for id_ in range(COUNT)]
    lengths = [each + 0.01 * id_ for id_, each in enumerate(true)]
    notes = [f'a, "{id_}"' if id_ % 5 == 0 else "" for id_ in range(COUNT)]
    return {"length": lengths, "kind": list(labels), "note": notes}


def checksums(folder: Path) -> dict[str, tuple[str, int]]:
    """The content and the time of every file."""
    return {
        str(path.relative_to(folder)): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def contents(folder: Path) -> dict[str, str]:
    return {name: digest for name, (digest, _) in checksums(folder).items()}
