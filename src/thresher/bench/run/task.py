"""One job, loaded, run and measured."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from thresher.app.parsing import OPTIMIZERS, PRECISIONS, one_of
from thresher.bench.definition.grid import LAST_EPOCHS, Job, Measured, Task
from thresher.core.recipe import Recipe
from thresher.corruption import corrupt
from thresher.data import hold_out, load, take_clean
from thresher.engine.run import Run
from thresher.engine.step.optimizer import MakeOptimizer
from thresher.engine.train import Moment
from thresher.methods import Setting, Trainer, fine_tune, last_rate
from thresher.models import build


def load_task(
    job: Job,
    *,
    device: str | None = None,
    data_dir: Path | None = None,
    out: Path | None = None,
    watch: Callable[[Moment], None] | None = None,
) -> Task:
    """Load the data, set the clean examples aside, and corrupt the rest by the job's seed."""
    cell = job.cell
    splits = load(cell.data, data_dir=data_dir)
    if cell.prepare is not None:
        splits = cell.prepare(splits)
    train, clean, validation = splits.train, None, None
    if cell.clean is not None:  # nothing is corrupt yet
        true = train.columns.get("true_target", train.targets)
        train, clean = take_clean(train.with_columns(true_target=true), cell.clean, job.seed)
    if (corruption := cell.corruption_of(job.seed)) is not None:
        train = corrupt(train, corruption, seed=job.seed)
    if cell.validation is not None:
        train, validation = (train.subset(part) for part in hold_out(train.targets.cpu(), cell.validation))
    return Task(job, train, splits.test, clean, validation, device, data_dir, out, watch)


def run_task(task: Task) -> Measured:
    """Run the procedure, or train with the recipe; then fine-tune, where the entry asks for it."""
    entry = task.job.entry
    if entry.procedure is not None:
        return entry.procedure(task)
    setting = Setting(task.job.cell.noise_rate, task.train.classes, epochs_of(task))
    how, train = entry.recipe_or_procedure(setting), trainer_of(task)
    started = time.perf_counter()
    run = train(how) if isinstance(how, Recipe) else how(train)
    found = measurement_of(run, task)
    if not isinstance(how, Recipe):  # the run is the last of several trainings
        found = replace(found, seconds=time.perf_counter() - started)
    return join_stages(found, measurement_of(fine_tuned(run, task), task)) if entry.fine_tune else found


def epochs_of(task: Task) -> float:
    setup = task.job.setup
    return setup.epochs or (setup.steps or 0) * setup.batch / len(task.train)


def fine_tuned(run: Run, task: Task) -> Run:
    """The run's networks after training on the clean set alone, at the last learning rate of the run."""
    setup, settings = task.job.setup, trainer_of(task).settings
    assert task.clean is not None  # or the suite would have been refused
    rate = setup.optimizer["lr"] * last_rate(setup.schedule, epochs_of(task))
    shared = {name: settings[name] for name in ("test", "precision", "device", "seed", "watch")}
    return fine_tune(
        run,
        task.clean,
        steps=setup.tuning_steps,
        batch=setup.batch,
        views=setup.views,
        optimizer=optimizer_factory({**setup.optimizer, "lr": rate}),
        out=None if task.out is None else task.out / "fine-tuned",
        **shared,
    )


def join_stages(first: Measured, then: Measured) -> Measured:
    """The measurements of two stages as one; the clean share and the speed are those of the first."""
    return replace(
        then,
        scores=[*first.scores, *then.scores],
        seconds=first.seconds + then.seconds,
        clean_share=first.clean_share,
        examples_per_second=first.examples_per_second,
        columns={name: [*values, *then.columns[name]] for name, values in first.columns.items()},
    )


def train_recipe(recipe: Recipe, task: Task, **changes: Any) -> Run:
    """`fit` with the setup of the task; a procedure may change any of its arguments."""
    return trainer_of(task)(recipe, **changes)


def trainer_of(task: Task) -> Trainer:
    """The setup of the task as a function of the recipe."""
    setup, train = task.job.setup, task.train
    given: dict[str, Any] = {
        "model": partial(build, setup.model, input_shape=train.input_shape, outputs=train.outputs),
        "train": train,
        "test": task.test,
        "clean": task.clean,
        "validation": task.validation,
        "keep": "best_on_validation" if task.job.entry.early_stop else "last",
        "epochs": setup.epochs,
        "steps": setup.steps,
        "batch": setup.batch,
        "optimizer": optimizer_factory(setup.optimizer),
        "schedule": setup.schedule,
        "precision": one_of("precision", setup.precision, PRECISIONS),
        "compiled": setup.compiled,
        "device": task.device,
        "seed": task.job.seed,
        "out": task.out,
        "watch": task.watch,
    }
    return Trainer(given, setup.views)


def optimizer_factory(options: Mapping[str, Any]) -> MakeOptimizer:
    """A function of the parameters that makes the optimizer of these options.

    >>> from torch import zeros
    >>> optimizer_factory({"name": "sgd", "lr": 0.1, "momentum": 0.9})([zeros(1)]).defaults["momentum"]
    0.9
    """
    rest = dict(options)
    name = rest.pop("name")
    return partial(one_of("optimizer", name, OPTIMIZERS)[0], **rest)


def measurement_of(run: Run, task: Task) -> Measured:
    """A run's scores, its clean share over the last epochs, its speed, and the suite's columns of its history."""
    seconds = sum(record["seconds"] for record in run.history)
    seen = sum(record["steps"] for record in run.history) * task.job.setup.batch
    return Measured(
        metric=run.history[-1]["metric"],
        scores=kept_scores(run),
        seconds=seconds,
        clean_share=run.clean_share(LAST_EPOCHS),
        examples_per_second=seen / max(seconds, 1e-9),
        columns={
            name: [record.get(name, record["scores"].get(name)) for record in run.history] for name in task.job.columns
        },
    )


def kept_scores(run: Run) -> Sequence[float]:
    """The score of each epoch; with early stopping, that of the epoch which would be kept if the run ended there."""
    if run.chosen is None:
        return run.scores
    best, kept = float("-inf"), list[float]()
    for record in run.history:
        if record["validation"] > best:
            best = record["validation"]
            kept.append(record["score"])
        else:
            kept.append(kept[-1])
    return kept


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
