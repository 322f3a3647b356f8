"""One cell × method × seed, made ready and measured."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import torch
from torch import Tensor

from thresher.bench.jobs import Job
from thresher.bench.suite import Clean
from thresher.commands.choices import OPTIMIZERS, PRECISIONS, one_of
from thresher.corruption import corrupt
from thresher.data import load
from thresher.engine.fit import Moment
from thresher.engine.optimizer import MakeOptimizer
from thresher.engine.run import Run
from thresher.errors import ThresherError
from thresher.examples import Examples
from thresher.models import build
from thresher.procedures import Trainer
from thresher.recipe import Recipe
from thresher.recipes import Setting, method
from thresher.seeding import generator

LAST = 10  # epochs whose mean is the score, as in the PRL paper


@dataclass(frozen=True, eq=False)
class Task:
    """What a procedure is given: the job, its data ready to train on, and where to run."""

    job: Job
    train: Examples
    test: Examples
    clean: Examples | None
    device: str | None = None
    data_dir: Path | None = None
    out: Path | None = None
    watch: Callable[[Moment], None] | None = None


@dataclass(frozen=True)
class Measured:
    """What came out: one score an epoch (or round), and whatever else was measured as often."""

    metric: str
    scores: Sequence[float]
    seconds: float  # of training and evaluation, without loading
    clean_share: float | None = None
    examples_per_second: float | None = None
    columns: Mapping[str, Sequence[float | None]] = field(default_factory=dict)
    last: int = LAST  # how many of the last scores count

    def __post_init__(self) -> None:
        if not len(self.scores) or not torch.isfinite(torch.tensor(list(self.scores))).all():
            raise ThresherError("The scores are missing or not finite: lower the learning rate or set clip=1.0.")


def prepare(
    job: Job,
    *,
    device: str | None = None,
    data_dir: Path | None = None,
    out: Path | None = None,
    watch: Callable[[Moment], None] | None = None,
) -> Task:
    """Load the data, set the clean examples aside, and corrupt the rest by the job's seed."""
    splits = load(job.cell.data, data_dir=data_dir)
    if job.cell.prepare is not None:
        splits = job.cell.prepare(splits)
    train, clean = splits.train, None
    if job.cell.clean is not None:
        chosen = draw_clean(train, job.cell.clean, generator(job.seed, "clean"))
        rest = torch.ones(len(train), dtype=torch.bool)
        rest[chosen] = False
        clean, train = train.subset(chosen), train.subset(rest.nonzero().flatten())
    if job.cell.corruption is not None:
        train = corrupt(train, job.cell.corruption, seed=job.seed)
    return Task(job, train, splits.test, clean, device, data_dir, out, watch)


def draw_clean(train: Examples, clean: Clean, draws: torch.Generator) -> Tensor:
    """Positions of the clean set: drawn from all examples, or equally many from each class.

    >>> ten = Examples(torch.zeros(10, 1), torch.arange(10) % 2)
    >>> ten.labels[draw_clean(ten, Clean(2, per_class=True), torch.Generator())].tolist()
    [0, 0, 1, 1]
    """
    order = torch.randperm(len(train), generator=draws)
    groups = [order]
    if clean.per_class:
        labels = train.labels.cpu()[order]
        groups = [order[labels == label] for label in range(train.outputs)]
    if min(len(group) for group in groups) < clean.count:
        raise ThresherError(f"{train.name} has too few examples for a clean set of {clean.count}: ask for fewer.")
    return torch.cat([group[: clean.count] for group in groups])


def measure(task: Task) -> Measured:
    """Run the procedure, or train by the recipe."""
    if task.job.entry.procedure is not None:
        return task.job.entry.procedure(task)
    if task.job.entry.recipe is None and (procedure := method(task.job.entry.name).procedure) is not None:
        return measured(procedure(trainer(task)), task)
    cell, setup = task.job.cell, task.job.setup
    epochs = setup.epochs or (setup.steps or 0) * setup.batch / len(task.train)
    recipe = task.job.entry.make(Setting(cell.noise_rate, task.train.classes, epochs))
    return measured(train_by(recipe, task), task)


def train_by(recipe: Recipe, task: Task, **changes: Any) -> Run:
    """`fit` with the setup of the task; a procedure may change any of its arguments."""
    return trainer(task)(recipe, **changes)


def trainer(task: Task) -> Trainer:
    """The setup of the task, with everything settled but the recipe."""
    setup, train = task.job.setup, task.train
    given: dict[str, Any] = {
        "model": partial(build, setup.model, input_shape=train.input_shape, outputs=train.outputs),
        "train": train,
        "test": task.test,
        "clean": task.clean,
        "epochs": setup.epochs,
        "steps": setup.steps,
        "batch": setup.batch,
        "optimizer": make_optimizer(setup.optimizer),
        "schedule": setup.schedule,
        "precision": one_of("precision", setup.precision, PRECISIONS),
        "device": task.device,
        "seed": task.job.seed,
        "out": task.out,
        "watch": task.watch,
    }
    return Trainer(given, setup.views)


def make_optimizer(settings: Mapping[str, Any]) -> MakeOptimizer:
    """A function of the parameters from plain setup.

    >>> make_optimizer({"name": "sgd", "lr": 0.1, "momentum": 0.9})([torch.zeros(1)]).defaults["momentum"]
    0.9
    """
    rest = dict(settings)
    name = rest.pop("name")
    return partial(one_of("optimizer", name, OPTIMIZERS)[0], **rest)


def measured(run: Run, task: Task) -> Measured:
    """A run's scores, its clean share over the last epochs, its speed, and the suite's columns of its history."""
    seconds = sum(record["seconds"] for record in run.history)
    seen = sum(record["steps"] for record in run.history) * task.job.setup.batch
    return Measured(
        metric=run.history[-1]["metric"],
        scores=run.scores,
        seconds=seconds,
        clean_share=run.clean_share(LAST),
        examples_per_second=seen / max(seconds, 1e-9),
        columns={name: [record.get(name) for record in run.history] for name in task.job.columns},
    )


def summary(found: Measured) -> dict[str, Any]:
    """The numbers of a result line; the score is the mean of the last ten epochs, its spread their deviation.

    Of a loop over rounds only the last one counts.
    """
    tail = list(found.scores[-found.last :])
    columns = {name: [_rounded(value, 4) for value in values] for name, values in found.columns.items()}
    return {
        "metric": found.metric,
        "last": _rounded(fmean(tail), 6),
        "best": _rounded(max(found.scores), 6),
        "spread": _rounded(stdev(tail), 6) if len(tail) > 1 else None,
        "clean_share": _rounded(found.clean_share, 6),
        "seconds": _rounded(found.seconds, 3),
        "examples_per_second": _rounded(found.examples_per_second, 1),
        "scores": [_rounded(score, 4) for score in found.scores],
        "columns": columns,
    }


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(float(value), digits)
