"""From settings to a run in its folder."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch

from thresher.app.folders import saved_epochs
from thresher.app.parsing import choose_device, filled, for_fit, make_optimizer, make_schedule, make_views
from thresher.app.settings import Settings, first_difference, read_toml, refuse_another_run, saving
from thresher.core.errors import ThresherError
from thresher.core.examples import Examples
from thresher.core.slots import View
from thresher.corruption import corrupt
from thresher.data import Splits, hold_out, load, load_clean, take_clean
from thresher.data.pools import Pooled, load_with_pool
from thresher.data.table_files import TABLE_SUFFIXES, read_table
from thresher.engine.run import Run
from thresher.engine.train import Moment
from thresher.methods import Method, Trainer, fine_tune, last_rate, method
from thresher.models import build
from thresher.noise.folds import noise_rate_by_folds
from thresher.noise.noise_rate import Estimate
from thresher.record.outcome import FOLDS, TUNED, by_folds_in, keep_rows
from thresher.slots.average import Growing

VALIDATION = 0.1  # the share that early stopping keeps apart where nobody chose one


@dataclass(frozen=True)
class Job:
    """Settings with every default filled in, and the examples they speak of."""

    settings: Settings
    method: Method
    train: Examples
    test: Examples
    validation: Examples | None
    clean: Examples | None
    views: tuple[View, ...]
    pooled: Pooled | None = None  # the whole set, where a part of it is not labelled yet

    @property
    def epochs(self) -> float:
        return _epochs(self.settings, self.train)


def prepare(settings: Settings, pooled: Pooled | None = None, answers: Mapping[int, int] | None = None) -> Job:
    """Load and corrupt the data, and fill in what nobody chose; wrong names are refused here.

    Where a part is not labelled yet, `pooled` is the whole set if somebody has loaded it already, and `answers` are the
    classes that examples of the pool have got by their ids.
    """
    known = method(settings.method)
    if settings.pool and pooled is None:
        pooled = _pooled(settings)
    if pooled is None:
        splits = load(settings.data, data_dir=settings.data_dir, seed=settings.seed)
    else:
        splits = Splits(pooled.with_answers(answers or {})[0], pooled.test)
    _refuse_without_clean(settings, known)
    train, validation = splits.train, None
    if settings.corruption is not None:  # what is corrupted here is the truth
        train = train.with_columns(true_target=train.columns.get("true_target", train.targets))
    train, clean = _clean_examples(settings, train, splits.test)
    if settings.corruption is not None:
        train = corrupt(train, settings.corruption, seed=settings.seed)
    if settings.validation is not None or settings.early_stop:
        train, validation = _held_out(train, VALIDATION if settings.validation is None else settings.validation)
    views = make_views(settings.augment)
    if known.make is not None:
        told = "auto" if settings.noise_rate == "folds" else settings.noise_rate
        recipe = known.recipe(noise_rate=told, classes=train.classes, epochs=_epochs(settings, train))
        if views and recipe.views:
            raise ThresherError(f"{settings.method} brings its own views: leave out --augment.")
    full = filled(settings, train.input_shape)
    return Job(full, known, train, splits.test, validation, clean, views, pooled)


def _pooled(settings: Settings) -> Pooled:
    if settings.corruption is not None:
        raise ThresherError(
            "--pool is for labels that people give: leave out --corrupt, or call active_loop in Python."
        )
    return load_with_pool(settings.data)


def known_by_folds(job: Job, out: Path) -> Estimate | None:
    """The noise rate that folds have found for this very run, where it has begun in this folder."""
    begun = (out / "run.toml").exists() and first_difference(job.settings, read_toml(out / "run.toml")) is None
    found = by_folds_in(out) if begun else None
    return None if found is None else Estimate(**found)


def _by_folds(job: Job, out: Path) -> Estimate | None:
    """The noise rate, where it is to come from folds: as the run in this folder found it, or measured now."""
    settings, train = job.settings, job.train
    if settings.noise_rate != "folds":
        return None
    return known_by_folds(job, out) or noise_rate_by_folds(
        train,
        lambda: build(settings.model, input_shape=train.input_shape, outputs=train.outputs),
        batch=min(settings.batch, len(train) // 2),
        optimizer=make_optimizer(settings),
        device=choose_device(settings.device),
        seed=settings.seed,
    )


def start(job: Job, out: Path, watch: Callable[[Moment], None] | None = None, commit_every: float = 30.0) -> Run:
    """Train in this folder, or go on where it was left; `run.toml` is written once training has begun."""
    refuse_another_run(out, job.settings)
    found = _by_folds(job, out)
    beside = {} if found is None else {FOLDS: json.dumps(asdict(found)) + "\n"}
    try:
        run = _fit(job, out, found, saving(job.settings, out, watch, beside), commit_every)
    except KeyboardInterrupt as stop:
        saved = saved_epochs(out)
        stop.add_note(f"Saved so far: {saved} epoch{'' if saved == 1 else 's'}.")
        raise
    except torch.OutOfMemoryError as error:
        raise ThresherError(f"{job.settings.batch} examples do not fit onto the GPU: lower --batch.") from error
    keep_rows_of(job.settings, out, job.train)
    return run


def keep_rows_of(settings: Settings, folder: Path, *sets: Examples) -> None:
    """Where the data are a table, keep the least trusted rows of these sets of it in the run's folder."""
    base, _, target = settings.data.partition(":")
    if base.endswith(TABLE_SUFFIXES):
        table = read_table(Path(base).expanduser()).drop_columns((target or "target").split(","))
        keep_rows(folder, table, torch.cat([each.ids.cpu() for each in sets]))


def _fit(job: Job, out: Path, found: Estimate | None, watch: Callable[[Moment], None], commit_every: float) -> Run:
    settings, train = job.settings, job.train
    trainer = Trainer(
        {
            "model": lambda: build(settings.model, input_shape=train.input_shape, outputs=train.outputs),
            "train": train,
            "epochs": settings.epochs,
            "steps": settings.steps,
            "clean": job.clean,
            "clean_batch": settings.clean_batch,
            "validation": job.validation,
            "keep": "best_on_validation" if settings.early_stop else "last",
            # Of a set that is being labelled there may be few at first, of which a rule may keep no more than half.
            "batch": min(settings.batch, max(1, len(train) // 3)) if settings.pool else settings.batch,
            "schedule": make_schedule(settings.schedule, job.epochs),
            "test": job.test,
            "watch": watch,
            **for_fit(settings, out, commit_every),
        },
        job.views,
        Growing() if settings.pool else None,  # which acquisition rules may read
    )
    rate = settings.noise_rate if found is None else found.rate
    return job.method.train(trainer, noise_rate=rate, classes=train.classes, epochs=job.epochs)


def fine_tuned(
    job: Job, run: Run, out: Path, watch: Callable[[Moment], None] | None = None, commit_every: float = 30.0
) -> Run:
    """The run's networks after some steps on the clean examples alone, in a folder inside the run's."""
    settings = job.settings
    schedule = make_schedule(settings.schedule, job.epochs)
    rate = (settings.learning_rate or 0.0) * last_rate(schedule, job.epochs)
    assert job.clean is not None
    return fine_tune(
        run,
        job.clean,
        steps=settings.fine_tune_steps,
        batch=settings.batch,
        views=job.views,
        test=job.test,
        watch=watch,
        **for_fit(replace(settings, learning_rate=rate), out / TUNED, commit_every),
    )


def _refuse_without_clean(settings: Settings, known: Method) -> None:
    if settings.clean is not None:
        return
    for who, wants in ((known.name, "clean" in known.needs), ("--fine-tune", settings.fine_tune)):
        if wants:
            raise ThresherError(
                f"{who} learns from examples that can be trusted: give --clean 50, which takes them out of the "
                "training set where the truth is known, or --clean with a data set of their own."
            )


def _clean_examples(settings: Settings, train: Examples, test: Examples) -> tuple[Examples, Examples | None]:
    """What is left to train on, and the clean examples: taken out of it, or loaded."""
    if settings.clean is None:
        return train, None
    if settings.clean.isdigit():
        return take_clean(train, int(settings.clean), settings.seed)
    known = Splits(train, test)
    return train, load_clean(settings.clean, known, settings.data, data_dir=settings.data_dir, seed=settings.seed)


def _epochs(settings: Settings, train: Examples) -> float:
    if settings.epochs is not None:
        return settings.epochs
    return (settings.steps or 0) * settings.batch / len(train)


def _held_out(train: Examples, share: float) -> tuple[Examples, Examples]:
    if not 0 < share < 1:
        raise ThresherError(f"--validation {share} is no share of the training set: give one such as 0.1.")
    rest, apart = hold_out(train.targets, share)
    return train.subset(rest), train.subset(apart)
