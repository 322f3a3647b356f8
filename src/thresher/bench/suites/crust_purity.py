"""How clean is what is kept? Four selections within the given and within the predicted class, half of each kept.

`crust-purity` asks all of them about the same network, in plain training, so that only the selection differs;
`crust-selections` lets each train a network of its own, and says what comes of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch

from thresher.bench.suite import Entry, Scale, Suite
from thresher.bench.suites.crust import DIGITS, FASHION, FULL, PAPER, PAPER_SCALE, PEOPLE, SMALL, cells, shortened
from thresher.bench.task import Measured, Task, measured, train_by
from thresher.engine.evidence import Evidence
from thresher.engine.run import Run
from thresher.examples import Examples
from thresher.recipe import Recipe
from thresher.recipes import Setting
from thresher.recipes.crust import FRACTION, WARM_EPOCHS
from thresher.rules import Centrality, Decision, FacilityLocation, KeepSmallest, Rule, ask, per_class, warmup
from thresher.signals import given, loss, output_gradient_norm, predicted

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
CLASSES = {"given": given, "predicted": predicted}
SELECTIONS = {
    f"{name}-{of}": per_class(rule, of=signal) for name, rule in RULES.items() for of, signal in CLASSES.items()
}
WEIGHED = tuple(f"{name}, by weight" for name in SELECTIONS if name.startswith("facility"))


@dataclass(frozen=True)
class Watched(Rule):
    """Weight 1 for everyone; what each of these selections would give goes into the ledger, under its name."""

    selections: tuple[tuple[str, Rule], ...]

    def __call__(self, evidence: Evidence) -> Decision:
        asked = {name: ask(rule, evidence).weights for name, rule in self.selections}
        return Decision(torch.ones(len(evidence), device=evidence.ids.device), asked)


def watched(task: Task) -> Measured:
    """Plain training, with the clean share of what every selection would have kept in each epoch."""
    run = train_by(Recipe(each_epoch=Watched(tuple(SELECTIONS.items()))), task)
    return replace(measured(run, task), columns=purities(run, task.train))


def purities(run: Run, train: Examples) -> dict[str, list[float | None]]:
    """From the ledger: the share of clean labels among those each selection keeps, and that of their weight."""
    clean = ~train.columns["is_corrupt"].bool().cpu().numpy()
    table = run.ledger.table(["id", "epoch", *SELECTIONS]).to_pandas().set_index("id")
    epochs = [rows.loc[train.ids.cpu().numpy()] for _, rows in table.groupby("epoch")]
    found: dict[str, list[float | None]] = {}
    for name in SELECTIONS:
        weights = [rows[name].to_numpy(np.float64) for rows in epochs]
        found[name] = [float(clean[w > 0].mean()) for w in weights]
        if f"{name}, by weight" in WEIGHED:
            found[f"{name}, by weight"] = [float(w[clean].sum() / w.sum()) for w in weights]
    return found


def selected(name: str, setting: Setting) -> Recipe:  # noqa: ARG001
    """The selection alone, after the usual warm-up: no mixing."""
    return Recipe(each_epoch=warmup(WARM_EPOCHS, SELECTIONS[name]))


GRID = {"symmetric": (20, 50), "derangement": (40,), "instance": (40,)}
SMALL_SCALE = Scale(
    cells=(*cells(DIGITS, GRID, seeds=3, headline_seeds=3), *cells(FASHION, GRID, seeds=3, headline_seeds=3)),
    setup=SMALL.setup,
    notes=("Half of each class is kept, from the first epoch on where only watched, else after five epochs.",),
)
SHORT = tuple(shortened(cell) for cell in FULL if cell.name in ("cifar10-symmetric-50", PEOPLE.name))
PAPER_CELLS = tuple(replace(cell, changes={**cell.changes, "seeds": 1}) for cell in SHORT)


def _scales() -> dict[str, Scale]:
    return {"small": SMALL_SCALE, "paper": replace(PAPER_SCALE, cells=PAPER_CELLS, notes=PAPER_SCALE.notes[:1])}


CRUST_PURITY = Suite(
    name="crust-purity",
    title="How clean is what each selection would keep, of the same network",
    paper=PAPER,
    methods=(Entry("standard", "Standard, watched", procedure=watched),),
    scales=_scales(),
    columns=(*SELECTIONS, *WEIGHED),
    drawn=tuple(SELECTIONS),
)
CRUST_SELECTIONS = Suite(
    name="crust-selections",
    title="What each selection keeps when it trains its own network, and what comes of it",
    paper=PAPER,
    methods=(
        Entry("standard", "Standard"),
        *(
            Entry(name, f"{LABELS[name.split('-')[0]]}, {name.split('-')[1]} class", recipe=partial(selected, name))
            for name in SELECTIONS
        ),
    ),
    scales=_scales(),
    columns=("clean_share", "clean_weight"),
    drawn=("clean_share",),
)
