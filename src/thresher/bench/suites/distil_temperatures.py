"""The temperature table of weighted distillation (Appendix B.2)."""

from collections.abc import Iterable
from dataclasses import replace

from thresher.bench.definition.grid import Cell
from thresher.bench.definition.points import Axis, Point
from thresher.bench.definition.setup import Teaching
from thresher.bench.definition.suite import Claim, Scale, Suite
from thresher.bench.suites.conclusions import best_temperature
from thresher.bench.suites.distil import (
    DIGITS,
    FASHION,
    METHODS,
    ON_DIGITS,
    ON_FASHION,
    PAPER,
    PAPER_SCALE,
    RESIDUAL,
    RESNET56,
    SMALL,
)
from thresher.bench.suites.distil_tables import TEMPERATURES
from thresher.core.signals import entropy

TEMPERATURE = Axis("temperature", log=True)
VALUES = (0.1, 0.5, 1, 2, 5)
ROWS = ("standard", "teacher", "unweighted", "debias", "debias-consistent")


def cells(kind: Cell, teaching: Teaching, values: Iterable[float]) -> tuple[Cell, ...]:
    """A cell of this kind for each temperature, on which teacher and pretraining do not depend."""
    return tuple(
        replace(
            kind,
            name=f"{kind.name}-temperature-{value:g}",
            methods=ROWS if value == 1 else ROWS[2:],
            points=(Point(TEMPERATURE, value, kind.name),),
            changes={**kind.changes, "teaching": replace(teaching, temperature=value)},
        )
        for value in values
    )


DISTIL_TEMPERATURES = Suite(
    name="distil-temperatures",
    title="Weighted distillation at every temperature",
    paper=PAPER,
    methods=tuple(entry for entry in METHODS if entry.name in ROWS),
    scales={
        "small": Scale(
            (
                *cells(DIGITS, replace(ON_DIGITS, labelled=100), VALUES),
                *cells(FASHION, replace(ON_FASHION, labelled=500), VALUES),
            ),
            SMALL.setup,
            notes=(SMALL.notes[0], "As digits-100 and fashion-500 of the suite distil."),
        ),
        "paper": Scale(
            cells(
                Cell("cifar100", "cifar100", changes=RESNET56),
                replace(RESIDUAL, labelled=12500, validation=500, by=entropy),
                (0.01, 0.1, 0.5, 0.8, 1, 2, 3, 5),
            ),
            PAPER_SCALE.setup,
            notes=(*PAPER_SCALE.notes[:2], "CIFAR-100 is not run here: we do not have it."),
        ),
    },
    published=TEMPERATURES,
    columns=("clean_share", "effective"),
    claims=(Claim(("debias",), ("unweighted",)),),
    questions=(Claim(("debias-consistent",), ("unweighted", "debias")),),
    verdict=best_temperature(TEMPERATURE),
)
