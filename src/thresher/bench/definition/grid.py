"""The grid of a suite: cells and methods, and the job, the task and the measurement of each combination."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from thresher.bench.definition.points import Point
from thresher.bench.definition.setup import Setup
from thresher.core.errors import ThresherError
from thresher.core.examples import Examples
from thresher.core.recipe import Recipe
from thresher.data import Splits
from thresher.engine.train import Moment
from thresher.methods import MethodFacts, method

LAST_EPOCHS = 10  # the score is the mean over these, as in the PRL paper


@dataclass(frozen=True)
class Cell:
    """One column of a paper's table: a data set and how it is corrupted.

    options     the option of the corruption for each seed, where trials differ by it: a background class
    noise_rate  what the methods are told; None tells them nothing
    clean       how many examples are set aside with their true targets, before the others are corrupted
    validation  the share of the training set, as corrupt as the rest, that is held out for early stopping
    prepare     a change of both sets before anything else, such as `standardise_targets`
    methods     the names of the methods that are run here; None: all of the suite
    columns     what is stored of each epoch's record here, beside the suite's columns
    points      where the cell stands in plots of scores against a number
    changes     what differs here from the scale's setup: {"model": "resnet32", "seeds": 5}
    part_of     the cell that has all of the data, where this one has a part of it: the paper's numbers stand beside
                both, and no average mixes them
    """

    name: str
    data: str
    corruption: str | None = None
    options: tuple[str, ...] = ()
    noise_rate: float | None = None
    metric: str = "accuracy"
    clean: int | None = None
    validation: float | None = None
    prepare: Callable[[Splits], Splits] | None = None
    methods: tuple[str, ...] | None = None
    columns: tuple[str, ...] = ()
    points: tuple[Point, ...] = ()
    changes: Mapping[str, Any] = field(default_factory=dict)
    part_of: str = ""

    @property
    def numbers_of(self) -> str:
        """The name under which the paper's numbers are kept."""
        return self.part_of or self.name

    @property
    def source(self) -> str:
        """The data set, and whether it is there in part only."""
        return f"{self.data}, in part" if self.part_of else self.data

    def corruption_of(self, seed: int) -> str | None:
        """The corruption of the training set for this seed.

        >>> Cell("c", "digits", "backgroundflip:0.4", options=("0", "3")).corruption_of(1)
        'backgroundflip:0.4:3'
        """
        if self.corruption is None or not self.options:
            return self.corruption
        return f"{self.corruption}:{self.options[seed % len(self.options)]}"

    def includes(self, entry: "Entry") -> bool:
        """Whether this method is run here."""
        return self.methods is None or entry.name in self.methods


@dataclass(frozen=True)
class Measured:
    """What a task gave: one score an epoch (or round), and whatever else was measured as often."""

    metric: str
    scores: Sequence[float]
    seconds: float  # of training and evaluation, without loading
    clean_share: float | None = None
    examples_per_second: float | None = None
    columns: Mapping[str, Sequence[float | None]] = field(default_factory=dict)
    last: int = LAST_EPOCHS  # how many of the last scores count

    def __post_init__(self) -> None:
        if not len(self.scores) or not torch.isfinite(torch.tensor(list(self.scores))).all():
            raise ThresherError("The scores are missing or not finite: lower the learning rate or set clip=1.0.")


@dataclass(frozen=True)
class Entry:
    """One row of the table: a registered method, another recipe, or a procedure over several fits.

    of          the registered method, where the row has a name of its own: Entry("standard+ft", of="standard", ...)
    early_stop  keep the epoch with the best score on the cell's validation set, which is as corrupt as the training set
    fine_tune   afterwards, train on the clean set alone
    clean_inside  train on the clean set too, as a part of the training set
    drawn       whether the plots show it, or the tables alone
    """

    name: str
    label: str = ""  # as the paper writes it
    recipe: Callable[[MethodFacts], Recipe] | None = None
    procedure: "Callable[[Task], Measured] | None" = None
    size: float | None = None  # the share it keeps, where several rows differ in that alone
    of: str = ""
    early_stop: bool = False
    fine_tune: bool = False
    clean_inside: bool = False
    drawn: bool = True
    changes: Mapping[str, Any] = field(default_factory=dict)

    def recipe_or_procedure(self, facts: MethodFacts) -> "Recipe | Callable[..., Any]":
        """The recipe for these facts, or the procedure."""
        if self.procedure is not None:
            return self.procedure
        if self.recipe is not None:
            return self.recipe(facts)
        known = method(self.of or self.name)
        return known.procedure or known.recipe(noise_rate=facts.noise_rate, classes=facts.classes, epochs=facts.epochs)


@dataclass(frozen=True)
class Job:
    """One cell × method × seed."""

    suite: str
    scale: str
    cell: Cell
    entry: Entry
    setup: Setup
    seed: int
    columns: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.cell.name} {self.entry.name} seed {self.seed}"


@dataclass(frozen=True, eq=False)
class Task:
    """What a procedure is given: the job, its data ready for training, and where to run."""

    job: Job
    train: Examples
    test: Examples
    clean: Examples | None
    validation: Examples | None = None
    device: str | None = None
    data_dir: Path | None = None
    out: Path | None = None
    watch: Callable[[Moment], None] | None = None
