"""Rank the methods by the stored results, for `--method auto`: writes src/thresher/methods/ranking.json.

    python benchmarks/ranking.py

A situation is what auto can see of a data set. In each of its cells (a set, a corruption, a network) a method's gain is
the mean of its last scores over the seeds less that of plain training; a method's place is its mean gain over the cells
in which it was measured, of which there must be at least `FEWEST`.
"""

import json
from collections import defaultdict
from pathlib import Path
from statistics import fmean
from typing import Any

from thresher.bench.run.results import read
from thresher.methods import METHODS

FILES = ("prl-small", "prl-paper", "crust-small", "crust-paper", "reclaim-small", "reclaim-paper", "demo-small",
         "l2rw-small", "l2rw-paper")  # fmt: skip
NAMES = {"patient": "reclaim-patient"}  # of the suites that differ from the registry's
FEWEST = 3  # cells
MOSTLY_WRONG = 0.6  # the rate from which labels count as mostly wrong
DEST = Path("src/thresher/methods/ranking.json")


def situation(result: dict[str, Any]) -> str | None:
    """What auto could have seen of the data of this result."""
    settings = result["settings"]
    name, _, number = (settings.get("corruption") or "").partition(":")
    if name == "imbalance":
        return "imbalanced"
    if result["metric"] != "accuracy":
        return "regression"
    rate = settings.get("noise_rate") or (float(number.split(":")[0]) if number else None)
    if settings.get("clean"):
        return "clean examples" if rate else None
    if rate is None:
        return None
    return "mostly wrong" if rate >= MOSTLY_WRONG else "classes"


def gains(folder: Path) -> dict[str, dict[str, list[float]]]:
    """Situation -> method -> its gain over plain training in each cell."""
    scores: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for file in FILES:
        for result in read(folder / f"{file}.jsonl")[0]:
            name = NAMES.get(result["method"], result["method"])
            seen = situation(result) if result["status"] == "ok" and result["last"] is not None else None
            if seen is not None and name in METHODS and "column is_corrupt" not in METHODS[name].needs:
                scores[seen, f"{file} {result['cell']}"][name].append(result["last"])
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for (seen, _), methods in scores.items():
        if "standard" in methods:
            for name, values in methods.items():
                found[seen][name].append(fmean(values) - fmean(methods["standard"]))
    return found


def ranking(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Situation -> its methods, the best first: name, mean gain, and in how many cells."""
    ranked = {}
    for seen, methods in sorted(gains(folder).items()):
        rows = [
            {"method": name, "gain": round(fmean(each), 4), "cells": len(each)}
            for name, each in methods.items()
            if len(each) >= FEWEST
        ]
        ranked[seen] = sorted(rows, key=lambda row: (-row["gain"], row["method"]))
    return ranked


def main() -> None:
    made = {"made by": "benchmarks/ranking.py from results/", "files": list(FILES), "ranking": ranking(Path("results"))}
    DEST.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    for seen, rows in made["ranking"].items():
        print(seen, [f"{row['method']} {row['gain']:+.3f} ({row['cells']})" for row in rows[:6]])


if __name__ == "__main__":
    main()
