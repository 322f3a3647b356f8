"""Train a recipe on examples: the loop around the epochs, and the folder that it is saved in."""

import json
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import nn

from thresher.core.errors import ThresherError, raised_in
from thresher.core.examples import Examples
from thresher.core.files import reading
from thresher.core.objective import Objective, ObjectiveLike
from thresher.core.recipe import Recipe
from thresher.core.seeding import preserved, seed_global
from thresher.core.tasks import LABELS, REAL, TASKS, are_zeros_and_ones
from thresher.engine.device.determinism import determinism
from thresher.engine.device.placement import Compiler, compiler_of, compiling, placed, plain, several
from thresher.engine.loop.training import Training
from thresher.engine.plan import Plan, make_mix, make_plan
from thresher.engine.run import Run
from thresher.engine.settings import TrainSettings, changed
from thresher.engine.several.ranks import Ranks
from thresher.engine.start.compilation import is_worth_compiling
from thresher.engine.start.ready_teacher import ready_teacher
from thresher.engine.store.about import describe_run, start_of
from thresher.engine.store.checkpoint import Record, RunFolder, start_again
from thresher.engine.store.together import SharedFolder
from thresher.record.ledger import Ledger
from thresher.record.outcome import write_outcome
from thresher.record.run_folder import CHECKPOINT, EXAMPLES, LEDGER

COMPILED = "The training pass is compiled first, which takes about half a minute: --no-compiled leaves it as it is."
CHEAP = 50  # times as long as the last save took: then saving again costs a fiftieth of the time


@dataclass(frozen=True)
class Moment:
    """What `watch` receives: after every step, with the record after every epoch, and with a note at the start."""

    epoch: int
    epochs: float
    step: int
    steps: int
    record: Record | None = None
    note: str | None = None  # what was decided before the first step


def train_recipe(
    recipe: Recipe,
    model: nn.Module | Callable[[], nn.Module],
    train: Examples,
    *,
    settings: TrainSettings | None = None,
    test: Examples | None = None,
    clean: Examples | None = None,
    validation: Examples | None = None,
    teacher: nn.Module | None = None,
    until: Callable[[Record], bool] | None = None,
    watch: Callable[[Moment], None] | None = None,
    out: Path | str | None = None,
    about: Mapping[str, Any] | None = None,
    **changes: Any,
) -> Run:
    """Train by a recipe; a run with an `out` folder that was interrupted goes on where it was last saved.

    model     a module, trained in place, or a function that makes one (needed for recipes with peers)
    clean     examples whose targets can be trusted, for rules that read them; it may be part of the training set
    teacher   a network that rules and objectives may ask, seeing what the student sees; its outputs may also lie in the
              column `teacher_output`, which is enough where its layers are not read
    until     stops early: a function of the epoch's record, such as `lambda record: record["train_score"] > 0.99`
    about     what else `open_run` should know of the run, such as the name of its method
    settings, changes  TrainSettings, and single ones of them by name: epochs=30, batch=64, optimizer="sgd", ...
    """
    settings = changed(TrainSettings() if settings is None else settings, changes)
    plan = make_plan(settings, train, clean)
    ranks = Ranks(plan.device, settings.sharded) if several() else None
    if plan.keep_best and validation is None:
        raise ThresherError("keep='best_on_validation' needs a validation set: pass validation=Examples(...).")
    recipe = _filled(recipe, plan, train)
    sets = {"train": train, "test": test, "clean": clean, "validation": validation}
    known = {name: examples for name, examples in sets.items() if examples is not None}
    known = {name: each.to(plan.device) for name, each in _read_as_labels(known, recipe.objective).items()}
    with determinism() if settings.deterministic else nullcontext():
        given = _models(recipe, model, plan)
        models = [plain(each) for each in given]
        begins = {} if out is None else {"state at the start": start_of(models, isinstance(model, nn.Module))}
        known = {name: examples.in_type_of(models[0]) for name, examples in known.items()}
        taught = None if teacher is None else ready_teacher(teacher, known["train"], plan)
        if taught is not None:
            begins["teacher"] = start_of([taught], trained_in_place=False)
        training = Training(recipe, models, known, plan, taught, ranks)
        compilers = _compilers(given, training, watch)
        try:
            with compiling(models, compilers) if any(compilers) else nullcontext():
                about = describe_run(model, train, test, about or {})
                return _loop(training, begins, out, until, watch, about)
        except KeyboardInterrupt as stop:
            saved = (
                "nothing is saved: pass out= to keep runs" if out is None else f"run the same again to go on from {out}"
            )
            stop.add_note(f"Stopped in epoch {training.epoch + 1}; {saved}.")
            raise
        finally:
            training.close()


def _filled(recipe: Recipe, plan: Plan, train: Examples) -> Recipe:
    """The recipe, with what the settings say for slots that it leaves open."""
    settings = plan.settings
    return replace(
        recipe,
        views=recipe.views or plan.views,
        mix=make_mix(settings.mix, recipe.mix, train),
        objective=settings.objective if recipe.objective is None else recipe.objective,
        average=settings.average if recipe.average is None else recipe.average,
    )


def _read_as_labels(sets: Mapping[str, Examples], objective: ObjectiveLike | None) -> Mapping[str, Examples]:
    """The sets, with real targets that are all 0 or 1 as labels where an objective of one's own is to learn them."""
    train = sets["train"]
    tasks = objective.tasks if isinstance(objective, Objective) else TASKS
    if objective is None or LABELS not in tasks or train.task != REAL or not are_zeros_and_ones(train.targets):
        return sets
    return {name: replace(each, task=LABELS, checked=False) for name, each in sets.items()}


def _compilers(
    models: Sequence[nn.Module], training: Training, watch: Callable[[Moment], None] | None
) -> list[Compiler | None]:
    """What compiles the passes of each model, if anything; `watch` receives what no setting decided as a note."""
    settings, plan, ranks = training.plan.settings, training.plan, training.ranks
    if plan.captured and training.refusal is not None and watch is not None and (ranks is None or ranks.is_first):
        watch(Moment(0, plan.epochs, 0, 1, note=f"The steps run without a CUDA graph: {training.refusal}."))
    compiles = _compiles(settings, training)
    compilers = [compiler_of(each, compiles) for each in models]
    if compiles and settings.compiled is None and watch is not None:
        watch(Moment(0, plan.epochs, 0, 1, note=COMPILED))
    if compiles and all(plain(each) is each for each in models):
        training.step.passes.compile()
    if settings.compiled and not training.step.passes.compilable:
        warnings.warn("compiled=True changes nothing: this recipe looks into every training pass.", stacklevel=3)
    return compilers


def _compiles(settings: TrainSettings, training: Training) -> bool:
    """Whether to compile the training pass: as the settings say, or on CUDA where the run is long enough to earn it."""
    if settings.compiled is not None:
        return settings.compiled
    if training.device.type != "cuda" or not training.step.passes.compilable or training.train.collate is not None:
        return False  # a collate function may give every batch a shape of its own
    passes = training.plan.epochs * max(1, len(training.recipe.views))
    return is_worth_compiling(training.learners[0].model, training.train, passes)


def _loop(
    training: Training,
    begins: dict[str, str],
    out: Path | str | None,
    until: Callable[[Record], bool] | None,
    watch: Callable[[Moment], None] | None,
    about: Mapping[str, Any],
) -> Run:
    """Train to the end, in the run's folder if there is one."""
    ranks = training.ranks
    if ranks is not None:
        identity = json.dumps(training.identity(), sort_keys=True)
        ranks.check_same("what they train, by which settings, or on what data", identity.encode())
    watch = watch if ranks is None or ranks.is_first else None
    if out is None:
        _train_epochs(training, None, until, watch)
        return _run(training, None, about)
    given = (out, training.identity() | begins, about)
    folder = RunFolder(*given) if ranks is None else SharedFolder(*given, ranks)
    with folder.opened() as saved:
        training.ledger = Ledger(folder.path / LEDGER if folder.writes else None)
        if saved is not None:
            with reading(folder.path / CHECKPOINT, start_again(folder.path)):
                training.load_state(saved)
        _train_epochs(training, folder, until, watch)
        if saved is None or not saved["finished"]:
            folder.commit(training.state(), training.ledger, training.history)
        if folder.writes and not (folder.path / EXAMPLES).exists():  # a finished run may have been killed before this
            write_outcome(folder.path, training.train, training.ledger, training.sets.get("validation"))
        if ranks is not None:
            training.ledger = Ledger(folder.path / LEDGER, training.agreed(training.ledger.parts))
        return _run(training, folder.path, about)


def _train_epochs(
    training: Training,
    folder: RunFolder | None,
    until: Callable[[Record], bool] | None,
    watch: Callable[[Moment], None] | None,
) -> None:
    """Train the epochs that are left, saving now and then; after SIGTERM the epoch is saved and the process ends."""
    saved_at, took = time.monotonic(), 0.0
    commit_every = training.plan.settings.commit_every
    can_save = folder is not None and training.ranks is None  # one of several that ends late keeps the others waiting
    with _noted_signals(can_save) as signals:
        while not training.finished:
            _watched_epoch(training, until, watch)
            now = time.monotonic()
            due = not training.finished and (bool(signals) or now - saved_at >= min(commit_every, CHEAP * took))
            if folder is not None and training.agreed(due):
                folder.commit(training.state(), training.ledger, training.history)
                saved_at = time.monotonic()
                took = saved_at - now
                if signals:
                    warnings.warn(f"Ended as told after epoch {training.epoch}, which is saved.", stacklevel=2)
                    raise SystemExit(128 + signals[0])
    training.scores.restore_best()


def _run(training: Training, out: Path | None, about: Mapping[str, Any]) -> Run:
    """The finished training as a run."""
    models, averages = training.networks()
    best = training.scores.best
    return Run(
        recipe=training.recipe,
        models=models,
        averages=averages,
        history=training.history,
        ledger=training.ledger,
        out=out,
        stopped=training.stopped,
        chosen=None if best is None else best["epoch"],
        about=about,
    )


@contextmanager
def _noted_signals(can_save: bool) -> Iterator[list[int]]:
    """The signals to end (SIGTERM) that came inside: the first is only noted, a second one ends the process at once."""
    noted: list[int] = []
    ours = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    if not (can_save and ours):
        yield noted
        return

    def note(number: int, _: object) -> None:
        noted.append(number)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

    signal.signal(signal.SIGTERM, note)
    try:
        yield noted
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _watched_epoch(
    training: Training, until: Callable[[Record], bool] | None, watch: Callable[[Moment], None] | None
) -> None:
    with closing(training.run_epoch()) as epoch:  # so that an error in `watch` leaves the random state as it was
        for step, steps in epoch:
            if watch is not None:
                with raised_in("watch"):
                    watch(Moment(training.epoch, training.plan.epochs, step, steps))
    record = training.history[-1]
    with raised_in("until"):
        training.stopped = training.agreed(until is not None and bool(until(record)))
    training.finished = training.finished or training.stopped
    if watch is not None:
        with raised_in("watch"):
            watch(Moment(training.epoch - 1, training.plan.epochs, record["steps"], record["steps"], record))


def _models(recipe: Recipe, model: nn.Module | Callable[[], nn.Module], plan: Plan) -> list[nn.Module]:
    if isinstance(model, nn.Module):
        if recipe.peers > 1:
            raise ThresherError(
                f"A recipe with peers={recipe.peers} needs a function that makes a model: pass lambda: MyModel()."
            )
        return [placed(model, plan.device, plan.channels_last)]
    models = []
    with preserved(plan.device):
        for peer in range(recipe.peers):
            seed_global(plan.device, plan.seed, "model", peer)
            made = model()
            if not isinstance(made, nn.Module):
                raise ThresherError(
                    f"The model function made a {type(made).__name__}: let it return a torch.nn.Module."
                )
            models.append(placed(made, plan.device, plan.channels_last))
    if len({plain(each) for each in models}) < len(models):
        raise ThresherError("The model function gave the same model twice: let it make a new model each time.")
    return models
