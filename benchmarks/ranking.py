"""Rank the methods by the stored results, for `--method auto`: writes src/thresher/methods/ranking.json.

    python benchmarks/ranking.py

A situation is what auto can see of a data set. In each of its cells (a set, a corruption, a network) a method's gain is
the mean of its last scores over the seeds less that of plain training, of the seeds that both have; a method's place is
its mean gain over the cells in which it was measured, of which there must be at least `FEWEST`. Against wrong labels
only cells count in which every method was run, so that none has easier ones. On imbalanced tables scores are balanced
accuracies, and ways that need no method are ranked beside the methods, as simpler.
"""

import json
from collections import defaultdict
from pathlib import Path
from statistics import fmean
from typing import Any

from thresher.bench.run.results import read
from thresher.bench.suites.every_method import RANKED
from thresher.methods import METHODS

FILES = ("prl-small", "crust-small", "l2rw-small", "l2rw-paper")
WRONG_LABELS = ("classes", "mostly wrong")
FEWEST = 3  # cells
MOSTLY_WRONG = 0.6  # the rate from which labels count as mostly wrong
TABLES = "imbalanced tables"
MODEL, PLAIN = "mlp", "standard, mlp"  # of benchmarks/imbalanced_tables.py: the default model of tables, plain training
LINEAR = "--model linear --learning-rate 0.01 --method"  # how its ways with a linear model are asked for
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
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for (seen, _), methods in scores(folder).items():
        plain = methods.get("standard", {})
        if seen in WRONG_LABELS and not set(RANKED) <= methods.keys():
            continue
        for name, own in methods.items():
            if both := own.keys() & plain.keys():
                found[seen][name].append(fmean(own[seed] - plain[seed] for seed in both))
    return found


def scores(folder: Path) -> dict[tuple[str, str], dict[str, dict[int, float]]]:
    """(Situation, cell) -> method -> seed -> its last score; what two suites ask alike is one cell."""
    found: dict[tuple[str, str], dict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    for file in FILES:
        for result in read(folder / f"{file}.jsonl")[0]:
            name = result["method"]
            seen = situation(result) if result["status"] == "ok" and result["last"] is not None else None
            if seen is not None and name in METHODS and "column is_corrupt" not in METHODS[name].needs:
                cell = f"{result['cell']} {result['settings'].get('corruption')}"
                found[seen, cell][name][result["seed"]] = result["last"]
    return found


def table_gains(folder: Path) -> dict[str, list[float]]:
    """Way -> its gain in balanced accuracy over plain training on each imbalanced table."""
    scores: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for line in (folder / "imbalanced-tables.jsonl").read_text(encoding="utf-8").splitlines():
        result = json.loads(line)
        for way, score in result["balanced accuracy"].items():
            scores[result["set"]][way].append(score)
    found: dict[str, list[float]] = defaultdict(list)
    for ways in scores.values():
        for way, values in ways.items():
            found[way].append(fmean(values) - fmean(ways[PLAIN]))
    return found


def ranked(found: dict[str, list[float]], key: str = "method") -> list[dict[str, Any]]:
    """The best first: name, mean gain, and in how many cells."""
    rows = [
        {key: name, "gain": round(fmean(each), 4), "cells": len(each)}
        for name, each in found.items()
        if len(each) >= FEWEST
    ]
    return sorted(rows, key=lambda row: (-row["gain"], row[key]))


def ranking(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Situation -> its methods."""
    found = {seen: ranked(methods) for seen, methods in sorted(gains(folder).items())}
    ways = {way.partition(", ")[0]: each for way, each in table_gains(folder).items() if way.endswith(f", {MODEL}")}
    return {**found, TABLES: ranked(ways)}


def simpler(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Situation -> scikit-learn's models, and methods with a linear model, and on how many sets each is ahead.

    Ahead of the best method, of those that need no clean examples.
    """
    found, ways = {}, table_gains(folder)
    best = next(row["method"] for row in ranking(folder)[TABLES] if not METHODS[row["method"]].needs)
    for way, each in ways.items():
        method, _, model = way.partition(", ")
        if model != MODEL:
            found[f"{LINEAR} {method}" if model else f"scikit-learn's {way}"] = each
    rows = ranked(found, "way")
    for row in rows:
        both = zip(found[row["way"]], ways[f"{best}, {MODEL}"], strict=True)
        row["ahead"] = sum(own > other for own, other in both)
    return {TABLES: rows}


def main() -> None:
    folder = Path("results")
    made = {"made by": "benchmarks/ranking.py from results/", "files": [*FILES, "imbalanced-tables"],
            "ranking": ranking(folder), "simpler": simpler(folder)}  # fmt: skip
    DEST.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    for seen, rows in made["ranking"].items():
        print(seen, [f"{row['method']} {row['gain']:+.3f} ({row['cells']})" for row in rows[:6]])


if __name__ == "__main__":
    main()
