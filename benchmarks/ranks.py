"""Mean ranks of all methods at equal budget, with critical differences: writes docs/results/ranking.md.

    python benchmarks/ranks.py

A cell is a data set with one corruption, a network and a budget, the same for all methods; in each cell they are ranked
by their mean last score over the seeds that all of them have. Two mean ranks that differ by less than the critical
difference of Nemenyi's test (Demšar 2006) are not told apart, and none is where Friedman's test finds no difference at
all. Only methods that were run in all cells are ranked.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from scipy.stats import friedmanchisquare, rankdata, studentized_range

from thresher.bench.run.results import read
from thresher.bench.suites.every_method import RANKED

ALL_METHODS = ("prl-small", "crust-small")  # all methods against wrong labels are run in the cells of both
REGRESSION, WITH_CLEAN, RECLAIM = ("prl-small",), ("l2rw-small",), ("reclaim-small",)
TO_ONE_CLASS = ("pairflip", "asymmetric", "derangement")
FEWEST = 4  # cells
LEVEL = 0.05
Result = Mapping[str, Any]
Cells = dict[str, dict[str, dict[int, float]]]  # cell -> method -> seed -> score
HEAD = """# Which method ranks where

<!-- Made from results/ by `python benchmarks/ranks.py`. -->

{found}

Mean ranks by the last ten epochs, 1 is best. All methods of a cell, which is a data set with one corruption, have the
same network, epochs and data, and the same seeds. Mean ranks that differ by less than the critical difference
(Nemenyi's test at 5%, Demšar 2006) are not told apart: bold methods are not told apart from the first. Where Friedman's
test, of all methods together, has a p of 0.05 or more, none is told apart from another. Cells of one data set are not
independent, so p and the difference are rather too small. The gain is that of the mean score over plain
training, in points of accuracy, or in R². Digits and Fashion-MNIST are small, so are the networks and the budgets:
these tables say nothing of photographs, of views and of long runs. Oracles know which labels are wrong, or how many in
each class.

Settings of dmi, f-correction and all forms of reclaim were chosen with test scores of digits in view, those of reclaim
also with those of CIFAR-10, and that of huber with those of the generated targets and of faces, so their ranks are
those of tuned methods; Fashion-MNIST has a table of its own. The budget is one of epochs: methods of two networks, of
several trainings or with sweeps take more time ([cost](../which-method.md)).
"""


def cells_of(folder: Path, files: Sequence[str], wanted: Callable[[Result], bool]) -> Cells:
    """The scores of these files; what was asked of two suites alike is one cell."""
    found: Cells = defaultdict(lambda: defaultdict(dict))
    for file in files:
        for result in read(folder / f"{file}.jsonl")[0]:
            if result["status"] == "ok" and result["last"] is not None and wanted(result):
                found[question(result)][result["method"]][result["seed"]] = result["last"]
    return found


def question(result: Result) -> str:
    """The cell of this result, by what was asked there: the name and the settings that no method changes."""
    settings = {name: result["settings"].get(name) for name in ("data", "corruption", "clean", "noise_rate")}
    return json.dumps([result["cell"], settings])


def corruption(result: Result) -> str:
    return str(result["settings"].get("corruption") or "none").partition(":")[0]


def common_seeds(cells: Cells) -> dict[str, list[int]]:
    """Cell -> the seeds that all methods have there, of the methods that every cell has; none without a seed."""
    names = set.intersection(*(set(methods) for methods in cells.values()))
    found = {cell: set.intersection(*(set(methods[name]) for name in names)) for cell, methods in cells.items()}
    return {cell: sorted(seeds) for cell, seeds in found.items() if seeds}


def scores(cells: Cells) -> dict[str, dict[str, float]]:
    """Cell -> method -> mean score over the common seeds, of the methods that every cell has."""
    names = sorted(set.intersection(*(set(methods) for methods in cells.values())))
    return {
        cell: {name: fmean(cells[cell][name][seed] for seed in seeds) for name in names}
        for cell, seeds in common_seeds(cells).items()
    }


def seeds_in_words(cells: Cells) -> str:
    """How many seeds the scores of a cell are means of."""
    counts = [len(seeds) for seeds in common_seeds(cells).values()]
    least, most = min(counts), max(counts)
    return f"{least} seeds" if least == most else f"{least} to {most} seeds"


def mean_ranks(cells: dict[str, dict[str, float]]) -> dict[str, float]:
    """Method -> mean rank, of the methods that every cell has."""
    names = sorted(set.intersection(*(set(scores) for scores in cells.values())))
    ranks = [rankdata([-scores[name] for name in names]) for scores in cells.values()]
    return dict(sorted(zip(names, map(float, sum(ranks) / len(ranks)), strict=True), key=lambda each: each[1]))


def chance_of_no_difference(cells: dict[str, dict[str, float]]) -> float:
    """The p of Friedman's test of all methods together, of which there must be three."""
    names = list(next(iter(cells.values())))
    return float(friedmanchisquare(*([scores[name] for scores in cells.values()] for name in names)).pvalue)


def level_with_the_first(cells: dict[str, dict[str, float]]) -> list[str]:
    """The first method and those that are not told apart from it."""
    ranks = mean_ranks(cells)
    bound = critical_difference(len(ranks), len(cells)) if chance_of_no_difference(cells) < LEVEL else np.inf
    return [name for name, rank in ranks.items() if rank - min(ranks.values()) < bound]


def critical_difference(methods: int, cells: int) -> float:
    """Nemenyi's, at 5%."""
    quantile = studentized_range.ppf(1 - LEVEL, methods, np.inf) / 2**0.5
    return float(quantile * (methods * (methods + 1) / (6 * cells)) ** 0.5)


def groups(folder: Path) -> dict[str, Cells]:
    """Title -> cells: without clean examples by noise and by data, with clean examples, regression, and our own."""
    every = cells_of(folder, ALL_METHODS, lambda result: result["metric"] == "accuracy")
    every = {cell: methods for cell, methods in every.items() if set(RANKED) <= methods.keys()}

    def part(*words: str) -> Cells:
        return {cell: methods for cell, methods in every.items() if any(word in cell for word in words)}

    def is_noise(result: Result) -> bool:
        return corruption(result) not in ("imbalance", "none")

    def is_plain(result: Result) -> bool:
        return not result["settings"].get("clean")

    def is_told(result: Result) -> bool:
        return result["settings"].get("noise_rate") is not None

    found = {
        "Without clean examples: all cells": every,
        "Without clean examples: digits": part('"digits"'),
        "Without clean examples: Fashion-MNIST": part('"fashion-mnist"'),
        "Without clean examples: symmetric noise": part('"symmetric:'),
        "Without clean examples: each class to one other": part(*(f'"{name}:' for name in TO_ONE_CLASS)),
        "Real targets": cells_of(folder, REGRESSION, lambda result: result["metric"] == "r2"),
        "With clean examples: flips to the background": cells_of(
            folder, WITH_CLEAN, lambda result: corruption(result) == "backgroundflip"
        ),
        "With clean examples: all flips": cells_of(folder, WITH_CLEAN, is_noise),
        "With clean examples: imbalance": cells_of(
            folder, WITH_CLEAN, lambda result: corruption(result) == "imbalance"
        ),
        "Reclaim and its parts": cells_of(folder, RECLAIM, lambda result: is_plain(result) and is_told(result)),
        "Reclaim, told nothing": cells_of(folder, RECLAIM, lambda result: is_plain(result) and not is_told(result)),
    }
    return {title: cells for title, cells in found.items() if len(cells) >= FEWEST}


def table(title: str, cells: dict[str, dict[str, float]], seeds: str) -> str:
    ranks, gains, level = mean_ranks(cells), mean_gains(cells), level_with_the_first(cells)
    difference, p = critical_difference(len(ranks), len(cells)), chance_of_no_difference(cells)
    said = "p below 0.001" if p < 0.001 else f"p = {p:.3f}"
    digits, unit = (3, 1) if title == "Real targets" else (1, 100)
    lines = []
    for each, rank in ranks.items():
        name = f"**{each}**" if each in level else each
        lines.append(f"| {name} | {rank:.2f} | {unit * gains[each]:+.{digits}f} |")
    return (
        f"## {title}\n\n{len(cells)} cells of {seeds}, {len(ranks)} methods, critical difference {difference:.2f}; "
        f"Friedman's test: {said}.\n\n"
        "| method | mean rank | gain |\n|---|---|---|\n" + "\n".join(lines) + "\n"
    )


def mean_gains(cells: dict[str, dict[str, float]]) -> dict[str, float]:
    """Method -> by how much its mean score is above that of plain training."""
    plain = fmean(methods["standard"] for methods in cells.values())
    return {name: fmean(methods[name] for methods in cells.values()) - plain for name in next(iter(cells.values()))}


def found(title: str, cells: dict[str, dict[str, float]]) -> str:
    """Who is first, and how many are not told apart from it."""
    ranks, level = mean_ranks(cells), level_with_the_first(cells)
    first = next(iter(ranks))
    return (
        f"- {title}: {first} is first of {len(ranks)} in {len(cells)} cells, and not told apart from "
        f"{'any' if len(level) == len(ranks) else len(level) - 1} of the others."
    )


def page(folder: Path) -> str:
    all_groups = groups(folder)
    ranked = {title: scores(cells) for title, cells in all_groups.items()}
    ranked = {title: cells for title, cells in ranked.items() if len(cells) >= FEWEST}
    words = ["**What holds here**, and how sure it is:", "", *(found(title, cells) for title, cells in ranked.items())]
    tables = [table(title, cells, seeds_in_words(all_groups[title])) for title, cells in ranked.items()]
    return "\n".join([HEAD.format(found="\n".join(words)), *tables])


if __name__ == "__main__":
    Path("docs/results/ranking.md").write_text(page(Path("results")), encoding="utf-8")
