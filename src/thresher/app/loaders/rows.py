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
        missing = value is None or value == "" or value != value
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


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8", newline="") as file:
        for found in predict(list(csv.DictReader(file))):
            classes = about()["class_names"]
            print(found.tolist() if classes is None else f"{classes[int(found.argmax())]} {float(found.max()):.3f}")
