"""Mean ranks of all methods at equal budget, with critical differences: writes docs/results/ranking.md.

    python benchmarks/ranks.py

Within a suite every method has the same network, epochs and data. In each cell the methods are ranked by their
mean last score over the seeds. Two mean ranks that differ by less than the critical difference of Nemenyi's test
(Demšar 2006) are not told apart. Only methods that were run in all cells of a group are ranked.
"""

from collections import defaultdict
from pathlib import Path
from statistics import fmean
from typing import Any

from scipy.stats import rankdata, studentized_range

from thresher.bench.run.results import read

FILES = ("prl-small", "crust-small", "reclaim-small", "inputs-small", "l2rw-small")
FEWEST = 4  # cells
HEAD = """# Which method ranks where

<!-- Made from results/ by `python benchmarks/ranks.py`. -->

Mean ranks by the last ten epochs, 1 is best. Within a suite all methods have the same network, epochs and data; a
cell is a data set with one corruption, and its scores are means over seeds. Mean ranks that differ by less than
the critical difference (Nemenyi's test at 5%, Demšar 2006) are not told apart; cells of one data set are not
independent, so it is rather too small. Bold: not told apart from the first. Only methods that were run in every
cell of a group are in its table.
"""


def group(result: dict[str, Any]) -> str:
    """Regression, or the type of the noise, and whether clean examples were given."""
    settings = result["settings"]
    name = (settings.get("corruption") or "none").partition(":")[0]
    task = name if result["metric"] == "accuracy" else "regression"
    return f"{task}, {'with' if settings.get('clean') else 'without'} clean examples"


def mean_ranks(cells: dict[str, dict[str, float]]) -> dict[str, float]:
    """Method -> mean rank, of the methods that every cell has."""
    names = sorted(set.intersection(*(set(scores) for scores in cells.values())))
    ranks = [rankdata([-scores[name] for name in names]) for scores in cells.values()]
    return dict(sorted(zip(names, map(float, sum(ranks) / len(ranks)), strict=True), key=lambda each: each[1]))


def critical_difference(methods: int, cells: int) -> float:
    """Nemenyi's, at 5%."""
    quantile = studentized_range.ppf(0.95, methods, 10_000) / 2**0.5
    return float(quantile * (methods * (methods + 1) / (6 * cells)) ** 0.5)


def groups(folder: Path) -> dict[tuple[str, str], dict[str, dict[str, float]]]:
    """(suite, group) -> cell -> method -> its mean score over the seeds."""
    scores: dict[Any, list[float]] = defaultdict(list)
    for file in FILES:
        for result in read(folder / f"{file}.jsonl")[0]:
            if result["status"] == "ok" and result["last"] is not None:
                for name in (group(result), "all" if result["metric"] == "accuracy" else ""):
                    scores[file, name, result["cell"], result["method"]].append(result["last"])
    found: dict[tuple[str, str], dict[str, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for (file, name, cell, method), values in scores.items():
        if name:
            found[file, name][cell][method] = fmean(values)
    return {key: cells for key, cells in sorted(found.items()) if len(cells) >= FEWEST}


def page(folder: Path) -> str:
    parts = [HEAD]
    for (file, name), cells in groups(folder).items():
        ranks = mean_ranks(cells)
        if len(ranks) < 3:
            continue
        difference = critical_difference(len(ranks), len(cells))
        parts.append(f"## {file}: {name}\n\n{len(cells)} cells, critical difference {difference:.2f}.\n")
        best = min(ranks.values())
        lines = [
            f"| {'**' + each + '**' if rank - best < difference else each} | {rank:.2f} |"
            for each, rank in ranks.items()
        ]
        parts.append("| method | mean rank |\n|---|---|\n" + "\n".join(lines) + "\n")
    return "\n".join(parts)


if __name__ == "__main__":
    Path("docs/results/ranking.md").write_text(page(Path("results")), encoding="utf-8")
