"""What the suites have stored: every row of every suite, and whole runs of two methods compared in the same cells."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median

from thresher.bench.compare.rows import Row, compare
from thresher.bench.run.results import read, results_file
from thresher.bench.suites import SUITES
from thresher.methods import method

NAMES = {"patient": "reclaim-patient", "debias-consistent": "consistent"}  # of suites that differ from the registry's
BASELINES = {"acquisition": "random", "weighting": "unweighted"}  # of other kinds it is plain training


@dataclass(frozen=True)
class Stored:
    """A row of a suite, and the page of results that shows it."""

    suite: str
    scale: str
    row: Row

    @property
    def method(self) -> str:
        return NAMES.get(self.row.entry.name, self.row.entry.name)

    @property
    def page(self) -> str:
        return f"results/{self.suite}-{self.scale}.md"

    @property
    def place(self) -> tuple[str, str, str]:
        return self.suite, self.scale, self.row.cell.name

    @property
    def machine(self) -> str:
        return next((str(result["machine"]["gpu"] or "a CPU") for result in self.row.results), "")


@cache
def stored_rows(root: Path) -> tuple[Stored, ...]:
    """The rows of all suites that have stored results; rows that were not run have no results."""
    found = []
    for suite in SUITES.values():
        for scale in suite.scales:
            if (file := results_file(root / "results", suite.name, scale)).exists():
                found += [Stored(suite.name, scale, row) for row in compare(suite, scale, read(file)[0])]
    return tuple(found)


def baseline_of(name: str) -> str:
    """What a method is measured against: plain training, random choice, or weights that are all the same.

    >>> baseline_of("prl-l"), baseline_of("badge"), baseline_of("debias")
    ('standard', 'random', 'unweighted')
    """
    return BASELINES.get(method(name).kind, "standard")


def beside_baseline(root: Path, name: str) -> list[tuple[Stored, Stored]]:
    """Every cell that has results of this method, with those of its baseline in the same cell."""
    rows = [each for each in stored_rows(root) if each.row.results]
    plain = {each.place: each for each in rows if each.method == baseline_of(name)}
    return [(each, plain[each.place]) for each in rows if each.method == name and each.place in plain]


@dataclass(frozen=True)
class Cost:
    """How long a whole run takes, as a multiple of its baseline's: the median over cells, the least and the most."""

    middle: float
    least: float
    most: float
    cells: int


def costs(root: Path, name: str) -> dict[str, Cost]:
    """The cost of a method by machine, over the cells in which it and its baseline were run on that machine."""
    ratios: dict[str, list[float]] = {}
    for own, plain in beside_baseline(root, name):
        if own.machine == plain.machine and own.row.seconds and plain.row.seconds:
            ratios.setdefault(own.machine, []).append(own.row.seconds / plain.row.seconds)
    return {where: Cost(median(all_), min(all_), max(all_), len(all_)) for where, all_ in sorted(ratios.items())}
