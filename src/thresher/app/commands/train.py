"""thresher train"""

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from thresher.app.cli import taking
from thresher.app.commands import options
from thresher.core.examples import Examples
from thresher.core.seeding import preserved
from thresher.data.decoded import in_time
from thresher.models import build, default_model
from thresher.record.run_folder import REPORT

if TYPE_CHECKING:
    from rich.console import Console

    from thresher.app.train_job import TrainJob
    from thresher.engine.run import Run
    from thresher.engine.several.ranks import Ranks


QUICK = 0.5  # seconds below which a pass is timed again with more examples, to be more exact
BACKWARD_TOO = 3.0  # a backward pass takes about twice as long as a forward pass
WORTH_SAYING = 60.0  # seconds of training


@taking(options.SETTINGS)
def train(
    given: dict[str, Any],
    out: options.Out = None,
    from_: options.From = None,
    as_json: options.Json = False,
    commit_every: options.CommitEvery = 30.0,
) -> None:
    """Train by a method, and keep a record of what it trusted.

    Example: thresher train --data digits --corrupt symmetric:0.4 --method prl-l --noise-rate 0.4 --out runs/a

    The run's folder gets the settings (run.toml), the history, the ledger, a checkpoint and a report.
    A run that was stopped goes on when the same command is given again.
    """
    if os.environ.get("WORLD_SIZE", "1") != "1":  # as torchrun says
        from thresher.engine.several.launch import joined

        with joined() as ranks:
            _train(given, out, from_, as_json, commit_every, ranks)
    else:
        _train(given, out, from_, as_json, commit_every)


def _train(
    given: dict[str, Any],
    out: Path | None,
    from_: Path | None,
    as_json: bool,
    commit_every: float,
    ranks: "Ranks | None" = None,
) -> None:
    """Train and tell, of several processes the first; the others only train."""
    from thresher.app.fine_tuning import fine_tuned
    from thresher.app.folders import free_folder, read_toml, refuse_stored_code, usual_name
    from thresher.app.settings import make_settings
    from thresher.app.train_job import prepare_job, start
    from thresher.report import check_installed

    check_installed()  # before anything is trained
    stored = {} if from_ is None else read_toml(from_)
    if from_ is not None:
        refuse_stored_code(stored | given, given.get("model"), from_)
    job = prepare_job(make_settings(given, stored), out=out)
    folder = free_folder(job.settings, Path("runs") / usual_name(job.settings)) if out is None else out
    folder = folder if ranks is None else ranks.from_first(folder)
    if ranks is None or ranks.is_first:
        _train_and_tell(job, folder, commit_every, as_json)
        return
    run = start(job, folder, None, commit_every)
    if job.settings.fine_tune:
        fine_tuned(job, run, folder, None, commit_every)


def _train_and_tell(job: "TrainJob", folder: Path, commit_every: float, as_json: bool) -> None:
    from thresher.app.folders import is_finished
    from thresher.app.terminal import one_run, plain_console, result, what_the_score_means
    from thresher.report import write_report

    console, aside, page = plain_console(), plain_console(stderr=True), folder / REPORT
    finished = folder.exists() and is_finished(folder, job.settings)
    run, tuned = _watched(job, folder, commit_every, aside)
    if finished:
        aside.print(f"{folder} is finished and is not trained again; these are its results.", soft_wrap=True)
    if not finished or (not page.exists() and os.access(folder, os.W_OK)):
        write_report([folder], page)
    found = result(run, job.settings, folder, tuned)
    if as_json:
        print(json.dumps(found))
        return
    console.print(one_run(found))
    meaning = what_the_score_means(found, job.settings, run, job.sets.test)
    if meaning is not None:
        console.print(meaning, soft_wrap=True)
    console.print(f"\nReport: {page}", soft_wrap=True)


def _watched(job: "TrainJob", folder: Path, commit_every: float, aside: "Console") -> "tuple[Run, Run | None]":
    from thresher.app.fine_tuning import fine_tuned
    from thresher.app.terminal import progress
    from thresher.app.train_job import known_by_folds, start
    from thresher.data import notes_of
    from thresher.engine.device.placement import find_device
    from thresher.report.run_record import noise_rate_found
    from thresher.report.summary import noise_rate_text

    settings = job.settings
    corrupted = f" with {settings.corruption}" if settings.corruption else ""
    if job.chosen is not None:
        aside.print(job.chosen, soft_wrap=True)
    trusted = f", {len(job.sets.clean):,} clean ones" if job.sets.clean is not None else ""
    tested = f", {len(job.sets.test):,} to test on" if job.sets.test is not None else ""
    aside.print(
        f"{settings.method} on {settings.data}{corrupted}: {settings.model}, {len(job.train):,} examples to train on"
        f"{trusted}{tested}",
        soft_wrap=True,
    )
    said = about_time(settings.model, job.train, job.epochs, find_device(settings.device))
    if said is not None:
        aside.print(said, soft_wrap=True)
    for note in notes_of(job.train):
        aside.print(note, soft_wrap=True)
    if settings.noise_rate == "folds" and known_by_folds(job, folder) is None:
        aside.print("First the noise rate, by trainings that hold examples out.", soft_wrap=True)
    with progress([settings.method], aside) as [watch]:
        run = start(job, folder, watch, commit_every)
    found = noise_rate_found(folder, run.history)
    if found is not None:
        aside.print(f"Noise rate {noise_rate_text(found)}.", soft_wrap=True)
    if not settings.fine_tune:
        return run, None
    with progress(["fine-tuning"], aside) as [watch]:
        return run, fine_tuned(job, run, folder, watch, commit_every)


def about_time(model: str, train: Examples, epochs: float, device: torch.device) -> str | None:
    """What to say before larger images are trained on a CPU: how long it takes, and what would be quicker."""
    if device.type != "cpu" or len(train.input_shape) != 3 or max(train.input_shape) <= 28:
        return None
    quick = default_model(train.input_shape, on_cpu=True)
    seconds = seconds_an_example(model, train) * len(train) * epochs
    height, width = train.input_shape[-2:]
    if model == quick:
        took = f": about {in_time(seconds)}" if seconds > WORTH_SAYING else ""
        return f"There is no GPU, so {model} is trained on images of {height} x {width} pixels{took}."
    if seconds < WORTH_SAYING:
        return None
    other = seconds_an_example(quick, train) * len(train) * epochs
    if other > seconds:
        return f"There is no GPU: {model} takes about {in_time(seconds)}."
    return (
        f"There is no GPU: {model} on {height} x {width} pixels takes about {in_time(seconds)}, --model {quick} "
        f"about {in_time(other)}; fewer --epochs or smaller images (DATA:32) help as well."
    )


def seconds_an_example(name: str, train: Examples) -> float:
    """The time of a step of this model for one example on the CPU: three times that of a forward pass."""
    with preserved(torch.device("cpu")):
        model = build(name, input_shape=train.input_shape, outputs=train.outputs)
        _pass(model, train.input_shape, 2)  # the first pass of a process takes longer
        taken = _pass(model, train.input_shape, 2)
        return taken / 2 if taken > QUICK else _pass(model, train.input_shape, 16) / 16


def _pass(model: torch.nn.Module, input_shape: tuple[int, ...], count: int) -> float:
    inputs = torch.randn(count, *input_shape)
    begun = time.perf_counter()
    with torch.no_grad():
        model(inputs)
    return BACKWARD_TOO * (time.perf_counter() - begun)
