"""How clean is what is kept? Four selections that keep half of each class, the given or the predicted one.

`crust-purity` asks all of them about the same network, in plain training, so that only the selection differs;
`crust-selections` trains a network with each.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean

import numpy as np
import torch

from thresher.bench.compare.paired import difference
from thresher.bench.compare.rows import Row
from thresher.bench.definition.grid import LAST_EPOCHS, Entry, Measured, Task
from thresher.bench.definition.suite import Scale, Suite
from thresher.bench.run.task import measurement_of, train_recipe
from thresher.bench.suites.crust import (
    DIGITS,
    FASHION,
    FULL,
    GRID,
    HUMAN_LABELS,
    PAPER,
    PAPER_SCALE,
    SMALL,
    cells,
    shortened,
)
from thresher.core.evidence import Evidence
from thresher.core.examples import Examples
from thresher.core.recipe import Recipe
from thresher.core.signals import given, loss, output_gradient_norm, predicted
from thresher.engine.run import Run
from thresher.methods import MethodFacts
from thresher.methods.crust import FRACTION, WARM_EPOCHS
from thresher.rules import Centrality, Decision, FacilityLocation, KeepSmallest, Rule, ask, per_class, warmup

RULES: Mapping[str, Rule] = {
    "facility": FacilityLocation(fraction=FRACTION),
    "central": Centrality(fraction=FRACTION),
    "loss": KeepSmallest(by=loss, fraction=FRACTION),
    "gradient": KeepSmallest(by=output_gradient_norm, fraction=FRACTION),
}
LABELS = {
    "facility": "facility location",
    "central": "centrality",
    "loss": "smallest loss",
    "gradient": "smallest output gradient",
}
CLASSES = (given, predicted)
SELECTIONS = {f"{name}-{of.name}": per_class(rule, of=of) for name, rule in RULES.items() for of in CLASSES}


def _columns() -> dict[str, str]:
    """Names and labels of what is measured: the clean share by count, and of medoids by weight as well."""
    found: dict[str, str] = {}
    for name, label in LABELS.items():
        found |= {f"{name}-{of.name}": f"{label}, {of.name} class" for of in CLASSES}
        if name == "facility":
            found |= {f"{name}-{of.name}, by weight": f"{label}, {of.name} class, by weight" for of in CLASSES}
    return found


COLUMNS = _columns()


@dataclass(frozen=True)
class Watched(Rule):
    """Weight 1 for all examples; the weights of each selection go into the ledger, under its name."""

    selections: tuple[tuple[str, Rule], ...]

    def __call__(self, evidence: Evidence) -> Decision:
        asked = {name: ask(rule, evidence).weights for name, rule in self.selections}
        return Decision(torch.ones(len(evidence), device=evidence.ids.device), asked)


def watched(task: Task) -> Measured:
    """Plain training, with the clean share of what every selection would have kept in each epoch."""
    run = train_recipe(Recipe(each_epoch=Watched(tuple(SELECTIONS.items()))), task)
    return replace(measurement_of(run, task), columns=purities(run, task.train))


def purities(run: Run, train: Examples) -> dict[str, list[float | None]]:
    """From the ledger: the clean share of what each selection keeps, by count and by weight."""
    clean = ~train.columns["is_corrupt"].bool().cpu().numpy()
    table = run.ledger.table(["id", "epoch", *SELECTIONS]).to_pandas().set_index("id")
    epochs = [rows.loc[train.ids.cpu().numpy()] for _, rows in table.groupby("epoch")]
    found: dict[str, list[float | None]] = {}
    for name in SELECTIONS:
        weights = [rows[name].to_numpy(np.float64) for rows in epochs]
        found[name] = [float(clean[w > 0].mean()) for w in weights]
        if f"{name}, by weight" in COLUMNS:
            found[f"{name}, by weight"] = [float(w[clean].sum() / w.sum()) for w in weights]
    return found


def selected(name: str, facts: MethodFacts) -> Recipe:  # noqa: ARG001
    """The selection alone, after the usual warm-up: no mixing."""
    return Recipe(each_epoch=warmup(WARM_EPOCHS, SELECTIONS[name]))


def cleaner(rows: Sequence[Row]) -> str:
    """In how many cells what each selection would keep is cleaner or dirtier than all of the data, over seeds."""
    words = []
    for name, label in COLUMNS.items():
        found = [difference(gains) for row in rows if (gains := _gains(row, name))]
        counts = {each: sum(one.verdict == each for one in found) for each in ("holds", "not", "undecided")}
        words.append(
            f"{label}: cleaner in {counts['holds']}, dirtier in {counts['not']}, undecided {counts['undecided']}"
        )
    return (
        "The paper says that its selection finds the clean examples. Of the cells below, last ten epochs against all "
        "of the data, decided where the 95% interval over seeds excludes zero: " + "; ".join(words) + "."
    )


def _gains(row: Row, name: str) -> list[float]:
    """By how much what a selection keeps is cleaner than all of the data, of each seed."""
    tails = [result["columns"].get(name, [])[-LAST_EPOCHS:] for result in row.results]
    return [fmean(tail) - result["clean_share"] for tail, result in zip(tails, row.results, strict=True) if tail]


NOTE = "Half of each class is kept: from the first epoch on in crust-purity, after five epochs in crust-selections."
BY_WEIGHT = (
    "By count, every medoid is one example; by weight, it is as many as its cluster has, which is how it trains. The "
    "network learns from all examples, so that it is the same for all selections and only the selection differs."
)
FEWER = {"symmetric": (20, 50), "derangement": (40,), "instance": (40,)}
SHORT = tuple(shortened(cell) for cell in FULL if cell.name in ("cifar10-symmetric-50", HUMAN_LABELS.name))
PAPER_CELLS = tuple(replace(cell, changes={**cell.changes, "seeds": 1}) for cell in SHORT)


def _scales(grid: Mapping[str, tuple[int, ...]], seeds: int, *notes: str) -> dict[str, Scale]:
    both = (*cells(DIGITS, grid, seeds), *cells(FASHION, grid, seeds))
    return {
        "small": Scale(both, SMALL.setup, (*SMALL.notes[:2], *notes)),
        "paper": replace(PAPER_SCALE, cells=PAPER_CELLS, notes=(*PAPER_SCALE.notes[:1], *notes)),
    }


CRUST_PURITY = Suite(
    name="crust-purity",
    title="How clean is what each selection would keep, of the same network",
    paper=PAPER,
    methods=(Entry("standard", "Standard, watched", procedure=watched),),
    scales=_scales(GRID, 5, NOTE, BY_WEIGHT),
    columns=tuple(COLUMNS),
    drawn=tuple(SELECTIONS),
    labels=COLUMNS,
    verdict=cleaner,
)
CRUST_SELECTIONS = Suite(
    name="crust-selections",
    title="What each selection keeps when it trains its own network, and what comes of it",
    paper=PAPER,
    methods=(
        Entry("standard", "Standard"),
        *(Entry(name, COLUMNS[name], recipe=partial(selected, name)) for name in SELECTIONS),
    ),
    scales=_scales(FEWER, 3, NOTE),
    columns=("clean_share", "clean_weight"),
    drawn=("clean_share",),
)
