"""Predict by the exported model, without Thresher: python load.py ROWS.csv, or import predict from here."""

import csv
import json
import sys
import warnings
from collections.abc import Mapping, Sequence
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
        else:
            number = column["median"] if missing else float({"true": 1, "false": 0}.get(str(value).lower(), value))
            inputs += [(number - column["mean"]) / column["deviation"]]
            inputs += [float(missing)] if column["marks_gaps"] else []
    return inputs


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
