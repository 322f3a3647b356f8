"""From settings to a run in its folder: the sets of the training, made from one data set, and the training."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from thresher.app.folders import begun_with, first_difference, read_toml, refuse_another_run, saved_epochs
from thresher.app.settings import Kind, Settings, saving, table_options
from thresher.core.errors import ThresherError
from thresher.core.examples import Examples
from thresher.core.files import expanded
from thresher.corruption import corrupt
from thresher.data import Splits, TableOptions, hold_out, load, load_clean, load_test, load_whole, take_clean
from thresher.data.features import with_features
from thresher.data.pools import Pooled, load_with_pool
from thresher.data.splits import path_and_option
from thresher.data.table_files import TABLE_SUFFIXES, read_table
from thresher.door import estimate_by_folds
from thresher.engine.device.placement import find_device
from thresher.engine.plan import epochs_for, learning_rates, make_views
from thresher.engine.run import Run
from thresher.engine.settings import DEFAULT_BATCH, training_part
from thresher.engine.store.unsaved import nothing_left_unless_saved
from thresher.engine.train import Moment
from thresher.methods import AUTO, Choice, Method, Trainer, choose, method
from thresher.models import NamedModel, model_for
from thresher.noise import Estimate
from thresher.record.outcome import keep_rows
from thresher.record.run_folder import NOISE_RATE, SETTINGS
from thresher.report.run_record import by_folds_in
from thresher.slots import Growing

VALIDATION = 0.1  # the share that early stopping keeps apart where none is chosen


@dataclass(frozen=True)
class Sets:
    """What to train on, to measure on, to trust, and to validate on, which is as noisy as the training set."""

    train: Examples
    test: Examples | None  # None: nothing to measure on
    clean: Examples | None = None
    validation: Examples | None = None


def prepare_sets(
    splits: Splits,
    *,
    corruption: str | None = None,
    clean: int | Callable[[Examples], Examples] | None = None,
    validation: float | None = None,
    seed: int = 0,
    given_is_true: bool = False,
) -> Sets:
    """Set clean examples aside, corrupt the rest by the seed, and then hold out a share for validation.

    clean  how many to take out of the training set with their true targets, or a function of it that gives them
    given_is_true  whether the given targets are the truth, as before a corruption
    """
    train, trusted, apart = splits.train, None, None
    if given_is_true:
        train = train.with_columns(true_target=train.columns.get("true_target", train.targets))
    if isinstance(clean, int):
        train, trusted = take_clean(train, clean, seed)
    elif clean is not None:
        trusted = clean(train)
    if corruption is not None:
        train = corrupt(train, corruption, seed=seed)
    if validation is not None:
        if not 0 < validation < 1:
            raise ThresherError(f"The validation share must lie between 0 and 1, such as 0.1, not {validation}.")
        groups = train.columns.get("group")
        parts = hold_out(train.targets.cpu(), validation, None if groups is None else groups.cpu())
        train, apart = (train.subset(part) for part in parts)
    return Sets(train, splits.test, trusted, apart)


@dataclass(frozen=True)
class TrainJob:
    """Settings with every default filled in, and the examples they speak of."""

    settings: Settings
    method: Method
    sets: Sets
    pooled: Pooled | None = None  # the whole set, where a part of it is not labelled yet
    chosen: str | None = None  # what auto chose and why, where it was asked

    @property
    def train(self) -> Examples:
        return self.sets.train

    @property
    def epochs(self) -> float:
        return epochs_for(self.settings, len(self.train))

    @property
    def model(self) -> NamedModel:
        return NamedModel(self.settings.model, self.train.input_shape, self.train.outputs)


def prepare_job(
    settings: Settings,
    pooled: Pooled | None = None,
    answers: Mapping[int, int] | None = None,
    out: Path | None = None,
) -> TrainJob:
    """Load and corrupt the data, and fill in what was not chosen; wrong names are refused here.

    Where a part is not labelled yet, `pooled` is the whole set if it has been loaded already, and `answers` are the
    classes that examples of the pool have got by their ids. A run that has begun in `out` goes on by its method where
    none is named.
    """
    known = None if settings.method == AUTO else method(settings.method)
    if settings.pool and pooled is None:
        pooled = _pooled(settings)
    splits = load_splits(settings) if pooled is None else Splits(pooled.with_answers(answers or {})[0], pooled.test)
    if settings.features is not None:
        splits = Splits(with_features(splits.train, settings.features), splits.test)
    _refuse_without_clean(settings, known)
    held_out = VALIDATION if settings.early_stop and settings.validation is None else settings.validation
    sets = prepare_sets(
        splits,
        corruption=settings.corruption,
        clean=_clean(settings, splits),
        validation=held_out,
        seed=settings.seed,
        given_is_true=settings.corruption is not None,
    )
    chosen = None
    if known is None:
        choice = _begun_by(out) or choose_for(settings, sets)
        settings, known, chosen = replace(settings, method=choice.method), method(choice.method), choice.sentence()
    views = make_views(settings.augment)
    if known.make is not None:
        told = "auto" if settings.noise_rate == "folds" else settings.noise_rate
        epochs = epochs_for(settings, len(sets.train))
        if views and known.recipe(noise_rate=told, classes=sets.train.classes, epochs=epochs).views:
            raise ThresherError(f"{settings.method} brings its own views: leave out --augment.")
    return TrainJob(with_defaults(settings, sets.train), known, sets, pooled, chosen)


def _begun_by(out: Path | None) -> Choice | None:
    """The method of the run in this folder, where one has begun."""
    begun = None if out is None else begun_with(out)
    return None if out is None or begun is None else Choice.begun(begun["method"], out)


def choose_for(settings: Settings, sets: Sets) -> Choice:
    """The method that suits the examples; the name is what the run stores, so that it goes on by the same one."""
    name = with_defaults(settings, sets.train).model
    model = NamedModel(name, sets.train.input_shape, sets.train.outputs)
    epochs = epochs_for(settings, len(sets.train))
    return choose(sets.train, model, epochs=epochs, noise_rate=settings.noise_rate, clean=sets.clean is not None)


def with_defaults(settings: Kind, train: Examples) -> Kind:
    """The settings with model, learning rate and momentum as they are for such examples where they were not chosen."""
    rate, momentum = learning_rates(settings)
    model = model_for(train, find_device(settings.device)) if settings.model == "auto" else settings.model
    return replace(settings, model=model, learning_rate=rate, momentum=momentum)


def load_splits(settings: Settings) -> Splits:
    """What to train on and what to test on, which may be a file or folder of its own."""
    where: dict[str, Any] = {"data_dir": settings.data_dir, "seed": settings.seed}
    told = {**where, "options": table_options(settings), "skip_broken": settings.skip_broken}
    if settings.test is None:
        return load(settings.data, **told)
    _refuse_as_test(settings)
    train = load_whole(settings.data, **told)
    return Splits(train, load_test(settings.test, train, settings.data, **where))


def _refuse_as_test(settings: Settings) -> None:
    """Refuse the data as their own test set, unless their labels are corrupted to train on."""
    data, test = (expanded(path_and_option(name)[0]) for name in (settings.data, str(settings.test)))
    if settings.corruption is None and data.exists() and test.exists() and data.samefile(test):
        raise ThresherError(
            f"--test {settings.test} is what is trained on, and would show how well that is remembered: "
            "leave it out, and a fifth is held out."
        )


def _pooled(settings: Settings) -> Pooled:
    if settings.test is not None:
        raise ThresherError("--pool holds out a test set of its own: leave out --test.")
    if settings.corruption is not None:
        raise ThresherError(
            "--pool is for labels that people give: leave out --corrupt, or call active_loop in Python."
        )
    return load_with_pool(settings.data, table_options(settings), settings.skip_broken)


def known_by_folds(job: TrainJob, out: Path) -> Estimate | None:
    """The noise rate that folds have found for this very run, where it has begun in this folder."""
    begun = (out / SETTINGS).exists() and first_difference(job.settings, read_toml(out / SETTINGS)) is None
    found = by_folds_in(out) if begun else None
    return None if found is None else Estimate(**found)


def _by_folds(job: TrainJob, out: Path) -> Estimate | None:
    """The noise rate, where it is to come from folds: as the run in this folder found it, or measured now."""
    if job.settings.noise_rate != "folds":
        return None
    return known_by_folds(job, out) or estimate_by_folds(job.train, job.model, job.settings)


def refuse_within_data(out: Path, settings: Settings) -> None:
    """Refuse a folder inside the folder of images that is trained on, where it would be taken for a class."""
    data = expanded(path_and_option(settings.data)[0])
    if data.is_dir() and out.resolve().is_relative_to(data.resolve()):
        raise ThresherError(f"{out} lies in the data ({data}), and would be a class of it: choose another folder.")


def start(job: TrainJob, out: Path, watch: Callable[[Moment], None] | None = None, commit_every: float = 30.0) -> Run:
    """Train in this folder, or go on where it was left; `run.toml` is written once training has begun."""
    refuse_within_data(out, job.settings)
    if out.exists():
        refuse_another_run(out, job.settings)
    found = _by_folds(job, out)
    beside = {} if found is None else {NOISE_RATE: json.dumps(asdict(found)) + "\n"}
    try:
        with nothing_left_unless_saved(out):
            run = _fit(job, out, found, saving(job.settings, out, watch, beside), commit_every)
    except KeyboardInterrupt as stop:
        saved = saved_epochs(out)
        stop.add_note(f"Saved so far: {saved} epoch{'' if saved == 1 else 's'}.")
        raise
    except torch.OutOfMemoryError as error:
        raise ThresherError(f"{_batch(job)} examples a step do not fit onto the GPU: lower --batch.") from error
    keep_rows_of(job.settings, out, job.train)
    return run


def keep_rows_of(settings: Settings, folder: Path, *sets: Examples) -> None:
    """Where the data are a table, keep the least trusted rows of these sets of it in the run's folder."""
    base, target = path_and_option(settings.data)
    if base.endswith(TABLE_SUFFIXES):
        told = table_options(settings) or TableOptions()
        table = read_table(expanded(base), told.na, told.sep).drop_columns((target or "target").split(","))
        keep_rows(folder, table, torch.cat([each.ids.cpu() for each in sets]))


def _fit(job: TrainJob, out: Path, found: Estimate | None, watch: Callable[[Moment], None], commit_every: float) -> Run:
    settings, sets = job.settings, job.sets
    changes: dict[str, Any] = {"commit_every": commit_every}
    if settings.early_stop:
        changes["keep"] = "best_on_validation"
    if settings.pool:
        changes["batch"] = _batch(job)
        changes["average"] = Growing()  # which acquisition rules may read
    trainer = Trainer(
        job.model,
        sets.train,
        training_part(settings, **changes),
        test=sets.test,
        clean=sets.clean,
        validation=sets.validation,
        watch=watch,
        out=out,
    )
    return job.method.train(trainer, settings.noise_rate if found is None else found.assumed)


def _batch(job: TrainJob) -> int:
    """How many examples a step takes."""
    wanted = job.settings.batch or DEFAULT_BATCH
    if not job.settings.pool:
        return min(wanted, len(job.train))
    # Of a set that is being labelled there may be few at first, of which a rule may keep no more than half.
    return min(wanted, max(1, len(job.train) // 3))


def _refuse_without_clean(settings: Settings, known: Method | None) -> None:
    if settings.clean is not None:
        return
    for who, wants in (
        ("--fine-tune", settings.fine_tune),
        *([] if known is None else [(known.name, "clean" in known.needs)]),
    ):
        if wants:
            raise ThresherError(
                f"{who} learns from examples that can be trusted: give --clean 50, which takes them out of the "
                "training set where the truth is known, or --clean with a data set of their own."
            )


def _clean(settings: Settings, splits: Splits) -> int | Callable[[Examples], Examples] | None:
    """How many clean examples to take out of the training set, or how to load them."""
    named = settings.clean
    if named is None or named.isdecimal():
        return None if named is None else int(named)
    return lambda train: load_clean(
        named, Splits(train, splits.test), settings.data, data_dir=settings.data_dir, seed=settings.seed
    )
