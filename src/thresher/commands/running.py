"""From settings to a run in its folder."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

import torch

from thresher.commands.choices import (
    PRECISIONS,
    VIEWS,
    choose_device,
    make_optimizer,
    make_schedule,
    one_of,
    usual_model,
    usual_rates,
)
from thresher.corruption import corrupt
from thresher.data import hold_out, load
from thresher.engine.fit import Moment, fit
from thresher.engine.run import Run
from thresher.errors import ThresherError
from thresher.examples import Examples
from thresher.models import build
from thresher.recipe import Recipe
from thresher.recipes import method
from thresher.settings import Settings, first_difference, read_toml, refuse_another_run, save

KEEP = {"last": "last", "best": "best_on_validation"}


@dataclass(frozen=True)
class Job:
    """Settings with every default filled in, and the examples they speak of."""

    settings: Settings
    recipe: Recipe
    train: Examples
    test: Examples
    validation: Examples | None

    @property
    def epochs(self) -> float:
        return _epochs(self.settings, self.train)


def prepare(settings: Settings) -> Job:
    """Load and corrupt the data, and fill in what nobody chose; wrong names are refused here."""
    known = method(settings.method)
    splits = load(settings.data, data_dir=settings.data_dir, seed=settings.seed)
    train, validation = splits.train, None
    if settings.corruption is not None:
        train = corrupt(train, settings.corruption, seed=settings.seed)
    if settings.validation is not None:
        train, validation = _held_out(train, settings.validation)
    elif settings.keep == "best":
        raise ThresherError("--keep best needs examples to choose the best epoch on: give --validation 0.1.")
    recipe = known.recipe(noise_rate=settings.noise_rate, classes=train.classes, epochs=_epochs(settings, train))
    if settings.augment is not None:
        recipe = _augmented(recipe, settings.method, settings.augment)
    rate, momentum = usual_rates(settings)
    model = usual_model(train.input_shape) if settings.model == "auto" else settings.model
    filled = replace(settings, model=model, learning_rate=rate, momentum=momentum)
    return Job(filled, recipe, train, splits.test, validation)


def start(job: Job, out: Path, watch: Callable[[Moment], None] | None = None, commit_every: float = 30.0) -> Run:
    """Train in this folder, or go on where it was left; `run.toml` is written once training has begun."""
    refuse_another_run(out, job.settings)
    begun = False

    def noted(moment: Moment) -> None:
        nonlocal begun
        if not begun:
            save(job.settings, out / "run.toml")
            begun = True
        if watch is not None:
            watch(moment)

    try:
        return _fit(job, out, noted, commit_every)
    except KeyboardInterrupt as stop:
        saved = _saved_epochs(out)
        stop.add_note(f"Saved so far: {saved} epoch{'' if saved == 1 else 's'}.")
        raise
    except torch.OutOfMemoryError as error:
        raise ThresherError(f"{job.settings.batch} examples do not fit onto the GPU: lower --batch.") from error


def _fit(job: Job, out: Path, watch: Callable[[Moment], None], commit_every: float) -> Run:
    settings, train = job.settings, job.train
    return fit(
        job.recipe,
        lambda: build(settings.model, input_shape=train.input_shape, outputs=train.outputs),
        train,
        epochs=settings.epochs,
        steps=settings.steps,
        test=job.test,
        validation=job.validation,
        keep=one_of("choice to keep", settings.keep, KEEP),
        batch=settings.batch,
        optimizer=make_optimizer(settings),
        schedule=make_schedule(settings.schedule, job.epochs),
        device=choose_device(settings.device),
        precision=one_of("precision", settings.precision, PRECISIONS),
        seed=settings.seed,
        out=out,
        watch=watch,
        deterministic=settings.deterministic,
        workers=settings.workers,
        commit_every=commit_every,
    )


def free_folder(settings: Settings, base: Path) -> Path:
    """The first of base, base-2, ... that is new or holds a run of these settings that was not finished."""
    return next(folder for folder in numbered(base) if not folder.exists() or _is_unfinished(folder, settings))


def numbered(base: Path) -> Iterator[Path]:
    """base, base-2, base-3, ..."""
    return (base if number == 1 else base.with_name(f"{base.name}-{number}") for number in count(1))


def usual_name(settings: Settings) -> str:
    """A folder name for these settings.

    >>> usual_name(Settings("prl-l", "tables/adult.csv:target", seed=3))
    'adult.csv-target-prl-l-seed3'
    """
    data = re.sub(r"[^A-Za-z0-9.]+", "-", settings.data.rsplit("/", 1)[-1]).strip("-")
    return f"{data}-{settings.method}-seed{settings.seed}"


def is_finished(folder: Path) -> bool:
    """Whether the run of this folder has come to its end, after which what it found is written."""
    return (folder / "examples.parquet").exists()


def _saved_epochs(folder: Path) -> int:
    history = folder / "history.jsonl"
    return len(history.read_text().splitlines()) if history.exists() else 0


def _is_unfinished(folder: Path, settings: Settings) -> bool:
    if is_finished(folder) or not (folder / "run.toml").exists():
        return False
    return first_difference(settings, read_toml(folder / "run.toml")) is None


def _epochs(settings: Settings, train: Examples) -> float:
    if settings.epochs is not None:
        return settings.epochs
    return (settings.steps or 0) * settings.batch / len(train)


def _held_out(train: Examples, share: float) -> tuple[Examples, Examples]:
    if not 0 < share < 1:
        raise ThresherError(f"--validation {share} is no share of the training set: give one such as 0.1.")
    rest, apart = hold_out(train.targets, share)
    return train.subset(rest), train.subset(apart)


def _augmented(recipe: Recipe, name: str, augment: str) -> Recipe:
    view = one_of("augmentation", augment, VIEWS)
    if recipe.views:
        raise ThresherError(f"{name} brings its own views: leave out --augment.")
    return replace(recipe, views=(view(),))
