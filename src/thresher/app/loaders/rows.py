"""Predict by the exported model, without Thresher: python load.py ROWS.csv, or import predict from here."""

import csv
import json
import math
import sys
import warnings
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import torch

warnings.filterwarnings("ignore", message="The given buffer is not writable")  # of torch's about its own reading
about = cache(lambda: json.loads(Path(__file__).with_name("export.json").read_text(encoding="utf-8")))
model = cache(lambda: torch.export.load(Path(__file__).with_name("model.pt2")).module())


def number(cell: Any, kind: str, missing: list[str], known: tuple[str, ...] = (), **_: Any) -> float:
    """A cell as the program takes it: a number, the place of a known text (-1: another), days since 1970; or NaN."""
    text = "" if cell is None or cell != cell else str(cell)
    if kind == "categories" and text in known:
        return known.index(text)
    if text.strip() in missing:
        return math.nan
    if kind == "dates":
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() / 86400
    return -1 if kind == "categories" else float({"true": 1, "false": 0}.get(text.lower(), text))


@torch.no_grad()
def predict(rows: Any) -> torch.Tensor:
    """The probability of each class [n, classes], in the order of export.json's class_names; or real targets [n, d]."""
    columns = about()["preprocessing"]["columns"]
    cells = [[number(row[column["column"]], **column) for column in columns] for row in rows]
    outputs: torch.Tensor = model()(torch.tensor(cells, dtype=torch.float64))
    return outputs


def rows_of(path: str) -> list[dict[str, str]]:
    """The rows of a text file, whose separator is the one that was told, or is found in the first line."""
    with open(path, encoding="utf-8-sig", newline="") as file:
        first = "\t" if path.endswith(".tsv") else file.readline()
        file.seek(0)
        found = next((mark for mark in ",;\t|" if mark in first), ",")
        return list(csv.DictReader(file, delimiter=about()["preprocessing"]["sep"] or found))


if __name__ == "__main__":
    for found in predict(rows_of(sys.argv[1])).tolist():
        print(dict(zip(about()["class_names"] or about()["preprocessing"]["targets"], found, strict=True)))
