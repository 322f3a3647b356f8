"""fit(): the loop around the step."""

import copy
import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from thresher.core.device import find_device
from thresher.core.errors import ThresherError
from thresher.core.examples import Examples
from thresher.core.recipe import Recipe
from thresher.core.schedules import Schedule
from thresher.core.seeding import preserved, seed_global
from thresher.engine.device.compile import compiler_of, compiling, plain
from thresher.engine.device.precision import Precision, precision_on
from thresher.engine.loop.training import Training
from thresher.engine.plan import Plan, clean_batch_of, length_of
from thresher.engine.run import Run
from thresher.engine.step.optimizer import MakeOptimizer, default_optimizer
from thresher.engine.store.checkpoint import Record, RunFolder
from thresher.record.ledger import Ledger
from thresher.record.outcome import OUTCOME, write_outcome

CHEAP = 50  # times as long as the last save took: then saving again costs a fiftieth of the time


@dataclass(frozen=True)
class Moment:
    """What a watcher is told: after every step, and with the epoch's record after every epoch."""

    epoch: int
    epochs: float
    step: int
    steps: int
    record: Record | None = None


def fit(
    recipe: Recipe,
    model: nn.Module | Callable[[], nn.Module],
    train: Examples,
    *,
    epochs: int | None = None,
    steps: int | None = None,
    test: Examples | None = None,
    clean: Examples | None = None,
    clean_batch: int | None = None,
    validation: Examples | None = None,
    teacher: nn.Module | None = None,
    keep: Literal["last", "best_on_validation"] = "last",
    until: Callable[[Record], bool] | None = None,
    batch: int = 128,
    optimizer: MakeOptimizer = default_optimizer,
    schedule: Schedule | None = None,
    device: torch.device | str | None = None,
    precision: Precision = None,
    captured: bool | None = None,
    channels_last: bool | None = None,
    compiled: bool = False,
    seed: int = 0,
    out: Path | str | None = None,
    watch: Callable[[Moment], None] | None = None,
    deterministic: bool = False,
    workers: int = 0,
    commit_every: float = 30.0,
) -> Run:
    """Train by a recipe; a run with an `out` folder that was interrupted goes on where it was last saved.

    model     a module, trained in place, or a function that makes one (needed for recipes with peers)
    schedule  multiplies the optimizer's learning rates: `cosine(1.0)`, `step(1.0, at=(80, 100))`
    clean     examples whose targets can be trusted, for rules that read them; it may be part of the training set
    teacher   a network that rules and objectives may ask, seeing what the student sees; its outputs may also lie in the
              column `teacher_output`, which is enough wherever nobody looks at its layers
    clean_batch  how many of them a step looks at: the batch size, or all of them, whichever is less
    until     stops early: a function of the epoch's record, such as `lambda record: record["train_score"] > 0.99`
    precision, captured, channels_last  how to compute; on CUDA bfloat16, a captured graph and channels last
              unless switched off (torch.float32, False, False), elsewhere float32 and neither
    compiled  whether torch.compile makes the training pass faster, which takes half a minute at the start; passes that
              look into the model, and those that only evaluate it, run as it is written; dropout draws other numbers
    commit_every  seconds after which an epoch's end is saved at the latest; sooner where a save takes little time
    """
    where = find_device(device)
    plan = Plan(
        **length_of(train, epochs, steps, batch),
        seed=seed,
        precision=precision_on(precision, where),
        workers=workers,
        schedule=schedule,
        make_optimizer=optimizer,
        captured=where.type == "cuda" if captured is None else captured,
        channels_last=where.type == "cuda" if channels_last is None else channels_last,
        clean_batch=clean_batch_of(clean, clean_batch, batch),
        keep_best=keep == "best_on_validation",
    )
    if workers < 0:
        raise ThresherError(f"workers={workers} cannot be: give the number of processes that read data, or 0.")
    if keep not in ("last", "best_on_validation"):
        raise ThresherError(f'keep={keep!r} is unknown: give "last" or "best_on_validation".')
    if keep == "best_on_validation" and validation is None:
        raise ThresherError("keep='best_on_validation' needs a validation set: pass validation=Examples(...).")
    sets = {"train": train, "test": test, "clean": clean, "validation": validation}
    placed = {name: examples.to(where) for name, examples in sets.items() if examples is not None}
    with _determinism() if deterministic else nullcontext():
        given = _models(recipe, model, plan, where)
        models, compilers = [plain(each) for each in given], [compiler_of(each, compiled) for each in given]
        taught = None if teacher is None else _placed(copy.deepcopy(plain(teacher)), plan, where)
        training = Training(recipe, models, placed, plan, taught)
        if compiled and training.step.passes.looks_inside:
            warnings.warn("compiled=True changes nothing: this recipe looks into every training pass.", stacklevel=2)
        try:
            with compiling(models, compilers) if any(compilers) else nullcontext():
                return _loop(training, out, until, watch, commit_every)
        except KeyboardInterrupt as stop:
            saved = (
                "nothing is saved: pass out= to keep runs" if out is None else f"run the same again to go on from {out}"
            )
            stop.add_note(f"Stopped in epoch {training.epoch + 1}; {saved}.")
            raise
        finally:
            training.close()


def _loop(
    training: Training,
    out: Path | str | None,
    until: Callable[[Record], bool] | None,
    watch: Callable[[Moment], None] | None,
    commit_every: float,
) -> Run:
    """Train to the end, in the run's folder if there is one."""
    folder = None if out is None else RunFolder(out, training.identity())
    with nullcontext() if folder is None else folder.opened() as saved:
        return _to_the_end(training, folder, saved, until, watch, commit_every)


def _to_the_end(
    training: Training,
    folder: RunFolder | None,
    saved: Mapping[str, Any] | None,
    until: Callable[[Record], bool] | None,
    watch: Callable[[Moment], None] | None,
    commit_every: float,
) -> Run:
    training.ledger = Ledger(None if folder is None else folder.path / "ledger")
    if saved is not None:
        training.load_state(saved)
    saved_at, took = time.monotonic(), 0.0
    while not training.finished:
        _watched_epoch(training, until, watch)
        now = time.monotonic()
        if folder is not None and now - saved_at >= min(commit_every, CHEAP * took) and not training.finished:
            folder.commit(training.state(), training.ledger, training.history)
            saved_at = time.monotonic()
            took = saved_at - now
    training.scores.restore_best()
    if folder is not None:
        if saved is None or not saved["finished"]:
            folder.commit(training.state(), training.ledger, training.history)
        if not (folder.path / OUTCOME).exists():  # also where a finished run was killed before it came to this
            write_outcome(folder.path, training.train, training.ledger, training.sets.get("validation"))
    models, averages = training.networks()
    return Run(
        training.recipe,
        models,
        averages,
        training.history,
        training.ledger,
        None if folder is None else folder.path,
        training.stopped,
        None if training.scores.best is None else training.scores.best["epoch"],
    )


def _watched_epoch(
    training: Training, until: Callable[[Record], bool] | None, watch: Callable[[Moment], None] | None
) -> None:
    with closing(training.run_epoch()) as epoch:  # so that an error in `watch` leaves the random state as it was
        for step, steps in epoch:
            if watch is not None:
                watch(Moment(training.epoch, training.plan.epochs, step, steps))
    record = training.history[-1]
    training.stopped = until is not None and until(record)
    training.finished = training.finished or training.stopped
    if watch is not None:
        watch(Moment(training.epoch - 1, training.plan.epochs, record["steps"], record["steps"], record))


def _models(
    recipe: Recipe, model: nn.Module | Callable[[], nn.Module], plan: Plan, device: torch.device
) -> list[nn.Module]:
    if isinstance(model, nn.Module):
        if recipe.peers > 1:
            raise ThresherError(
                f"A recipe with peers={recipe.peers} needs a function that makes a model: pass lambda: MyModel()."
            )
        return [_placed(model, plan, device)]
    models = []
    with preserved(device):
        for peer in range(recipe.peers):
            seed_global(device, plan.seed, "model", peer)
            models.append(_placed(model(), plan, device))
    if len({plain(each) for each in models}) < len(models):
        raise ThresherError("The model function gave the same model twice: let it make a new model each time.")
    return models


def _placed(model: nn.Module, plan: Plan, device: torch.device) -> nn.Module:
    if plan.channels_last:
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return model.to(device)


@contextmanager
def _determinism() -> Iterator[None]:
    before = torch.are_deterministic_algorithms_enabled()
    warns = torch.is_deterministic_algorithms_warn_only_enabled()
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before, warn_only=warns)
