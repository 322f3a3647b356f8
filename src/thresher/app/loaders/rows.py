"""Predict by the exported model, without Thresher: python load.py ROWS.csv, or import predict from here."""

import csv
import json
import math
import sys
import warnings
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import torch

FOLDER = Path(__file__).parent


@cache
def about() -> Any:
    """What export.json says."""
    return json.loads((FOLDER / "export.json").read_text(encoding="utf-8"))


@cache
def model() -> Any:
    """The program, which takes prepared inputs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch's about its own way of reading
        return torch.export.load(FOLDER / "model.pt2").module()


def read(row: Mapping[str, Any]) -> list[float]:
    """One row as the model takes it: numbers standardised, a missing one the median; one number a known category."""
    inputs: list[float] = []
    for column in about()["preprocessing"]["columns"]:
        value = row[column["column"]]
        missing = is_missing(value, column)
        if column["kind"] == "categories":
            inputs += [float(known == ("" if missing else str(value))) for known in column["known"]]
        elif column["kind"] == "dates":
            parts = 5 + 2 * column["has_times"]
            inputs += [0.0] * parts if missing else date(str(value), column)
            inputs += [float(missing)] if column["marks_gaps"] else []
        else:
            number = column["median"] if missing else float({"true": 1, "false": 0}.get(str(value).lower(), value))
            inputs += [(number - column["mean"]) / column["deviation"]]
            inputs += [float(missing)] if column["marks_gaps"] else []
    return inputs


def is_missing(value: Any, column: Mapping[str, Any]) -> bool:
    """Whether a cell holds nothing; a text such as `NA` that is a known category is that category."""
    if value is None or value != value:
        return True
    text = str(value).strip()
    return text in about()["preprocessing"]["missing"] and text not in column.get("known", ())


def date(text: str, column: Mapping[str, Any]) -> list[float]:
    """The day, standardised; its place in the year and in the week, and that of the time in the day, on circles."""
    moment = datetime.fromisoformat(text)
    moment = moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    days = moment.timestamp() / 86400
    in_year = days - datetime(moment.year, 1, 1, tzinfo=UTC).timestamp() / 86400
    turns = [in_year / 365.2425, (math.floor(days) + 3) % 7 / 7, *([days % 1] if column["has_times"] else [])]
    circles = [wave(2 * math.pi * turn) for turn in turns for wave in (math.sin, math.cos)]
    return [(days - column["mean"]) / column["deviation"], *circles]


@torch.no_grad()
def predict(rows: Sequence[Mapping[str, Any]]) -> torch.Tensor:
    """The probability of each class [n, classes], in the order of export.json's class_names; or real targets [n, d]."""
    outputs: torch.Tensor = model()(torch.tensor([read(row) for row in rows], dtype=torch.float32))
    return outputs


def rows_of(path: str) -> list[dict[str, str]]:
    """The rows of a text file, whose separator is the one that was told, or is found in the first line."""
    with open(path, encoding="utf-8-sig", newline="") as file:
        first = file.readline()
        file.seek(0)
        marks = ("\t",) if path.endswith(".tsv") else (",", ";", "\t", "|")
        found = next((mark for mark in marks if mark in first), ",")
        return list(csv.DictReader(file, delimiter=about()["preprocessing"]["sep"] or found))


if __name__ == "__main__":
    for found in predict(rows_of(sys.argv[1])):
        classes = about()["class_names"]
        print(found.tolist() if classes is None else f"{classes[int(found.argmax())]} {float(found.max()):.3f}")
