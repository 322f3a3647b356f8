"""From settings to an audit in its folder, and to the run that it leaves there."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thresher.app.settings import Settings
from thresher.app.train_job import Sets, TrainJob, choose_for, load_splits, prepare_sets, with_defaults
from thresher.auditing import audit, rate_to_assume
from thresher.auditing.given import whole
from thresher.core.errors import ThresherError, refuse_endless
from thresher.core.examples import Examples
from thresher.core.files import UNREADABLE
from thresher.data import Splits
from thresher.engine.settings import TrainSettings, training_part
from thresher.engine.train import Moment
from thresher.methods import AUTO, method
from thresher.record.issues import Issues

Watch = Callable[[Moment], None]


@dataclass(frozen=True)
class AuditJob:
    """The settings of the run that is left behind, all examples, and how they are judged."""

    settings: Settings
    examples: Examples
    test: Examples | None
    model: str  # "auto": a network for images, none for tables and embeddings
    folds: int = 5
    probabilities: NDArray[Any] | None = None


def prepare_audit(settings: Settings, *, folds: int = 5, probabilities: Path | None = None) -> AuditJob:
    """Load all examples, and corrupt them where that is asked for; a test set that a loader held out comes back."""
    if settings.method != AUTO:
        method(settings.method)
    examples, test = whole(load_splits(settings))
    if settings.corruption is not None:
        made = prepare_sets(
            Splits(examples, examples), corruption=settings.corruption, seed=settings.seed, given_is_true=True
        )
        examples = made.train
    given = None if probabilities is None else read_probabilities(probabilities)
    return AuditJob(with_defaults(settings, examples), examples, test, settings.model, folds, given)


def read_probabilities(path: Path) -> NDArray[Any]:
    """The array of an .npy file, or the only one of an .npz file."""
    refuse_endless(path)
    try:
        stored = np.load(path, allow_pickle=False)
    except UNREADABLE as error:
        raise ThresherError(f"{path} cannot be read ({error}): write it with numpy.save.") from error
    if isinstance(stored, np.ndarray):
        return stored
    with stored:
        if len(stored.files) != 1:
            raise ThresherError(f"{path} holds {len(stored.files)} arrays: give a file of one, [examples, classes].")
        found: NDArray[Any] = stored[stored.files[0]]
    return found


def find_issues(job: AuditJob, out: Path, tell: Callable[[str], Watch | None]) -> Issues:
    """Judge all examples in this folder, or go on where that was left."""
    how = training_part(job.settings)
    named = {field.name: getattr(how, field.name) for field in fields(TrainSettings) if field.name != "seed"}
    groups = "group" if "group" in job.examples.columns else None
    return audit(
        job.examples, model=job.model, test=job.test, probabilities=job.probabilities, groups=groups,
        folds=job.folds, method=None, out=out, seed=how.seed, tell=tell, **named,
    )  # fmt: skip


def run_to_leave(job: AuditJob, issues: Issues) -> TrainJob:
    """The training on all examples, by a method that tolerates the noise found; `chosen` says how it was chosen."""
    settings, sets = replace(job.settings, noise_rate=rate_to_assume(issues)), Sets(job.examples, job.test)
    chosen = choose_for(settings, sets) if settings.method == AUTO else None
    if chosen is not None:
        settings = replace(settings, method=chosen.method)
    return TrainJob(settings, method(settings.method), sets, chosen=None if chosen is None else chosen.sentence())
