"""One job, loaded, run and measured."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import torch
from sklearn.metrics import roc_auc_score

from thresher.app.train_job import prepare_sets
from thresher.bench.definition.grid import LAST_EPOCHS, Job, Measured, Task
from thresher.core.joining import join
from thresher.core.recipe import Recipe
from thresher.data import load
from thresher.engine.plan import epochs_for, learning_rates, make_schedule
from thresher.engine.run import Run
from thresher.engine.settings import DEFAULT_BATCH, training_part
from thresher.engine.train import Moment
from thresher.methods import MethodFacts, Trainer, fine_tune, last_rate
from thresher.models import NamedModel
from thresher.report.summary import examples_per_second
from thresher.slots.views import Flip


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
    sets = prepare_sets(
        splits,
        corruption=cell.corruption_of(job.seed),
        clean=cell.clean,
        validation=cell.validation,
        seed=job.seed,
        given_is_true=cell.clean is not None,
    )
    return Task(job, sets.train, splits.test, sets.clean, sets.validation, device, data_dir, out, watch)


def run_task(task: Task) -> Measured:
    """Run the procedure, or train with the recipe; then fine-tune, where the entry asks for it."""
    entry = task.job.entry
    if entry.procedure is not None:
        return entry.procedure(task)
    facts = MethodFacts(task.job.cell.noise_rate, task.train.classes, epochs_of(task))
    how, train = entry.recipe_or_procedure(facts), trainer_of(task)
    started = time.perf_counter()
    run = train(how) if isinstance(how, Recipe) else how(train)
    found = measurement_of(run, task)
    if not isinstance(how, Recipe):  # the run is the last of several trainings
        found = replace(found, seconds=time.perf_counter() - started)
    return join_stages(found, measurement_of(fine_tuned(run, task), task)) if entry.fine_tune else found


def epochs_of(task: Task) -> float:
    return epochs_for(task.job.setup, len(task.train))


def fine_tuned(run: Run, task: Task) -> Run:
    """The run's networks after training on the clean set alone, at the last learning rate of the run."""
    setup = task.job.setup
    assert task.clean is not None  # or the suite would have been refused
    rate, _ = learning_rates(setup)
    rate *= last_rate(make_schedule(setup.schedule, epochs_of(task)), epochs_of(task))
    changes = {"learning_rate": rate, "epochs": None, "steps": None, "schedule": None, "keep": "last"}
    return fine_tune(
        run,
        task.clean,
        steps=setup.tuning_steps,
        batch=setup.batch or DEFAULT_BATCH,
        test=task.test,
        watch=task.watch,
        out=None if task.out is None else task.out / "fine-tuned",
        settings=training_part(trainer_of(task).settings, **changes),
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
    if task.job.entry.clean_inside and task.clean is not None:
        train = join(train, task.clean)
    keep = "best_on_validation" if task.job.entry.early_stop else "last"
    return Trainer(
        model=NamedModel(setup.model, train.input_shape, train.outputs),
        train=train,
        settings=training_part(setup, device=task.device, seed=task.job.seed, keep=keep),
        test=task.test,
        clean=task.clean,
        validation=task.validation,
        watch=task.watch,
        out=task.out,
    )


def measurement_of(run: Run, task: Task) -> Measured:
    """A run's scores, its clean share over the last epochs, its speed, and the suite's columns of its history.

    The seconds of a start without labels count in every run that has it, although runs on the same inputs share it.
    """
    seconds = sum(record["seconds"] for record in run.history) + run.about.get("start_seconds", 0.0)
    found = {name: measure(run, task) for name, measure in AT_THE_END.items() if name in task.job.columns}
    return Measured(
        metric=run.history[-1]["metric"],
        scores=kept_scores(run),
        seconds=seconds,
        clean_share=run.clean_share(LAST_EPOCHS),
        examples_per_second=examples_per_second(run.history),
        columns={
            name: [record.get(name, record["scores"].get(name)) for record in run.history] for name in task.job.columns
        }
        | {name: [*[None] * (len(run.history) - 1), value] for name, value in found.items()},
    )


def trust_auroc(run: Run, task: Task) -> float | None:
    """How well trust tells wrong labels from right ones, where it is known which are wrong and some are."""
    wrong = task.train.columns.get("is_corrupt")
    if wrong is None or bool(wrong.all()) or not bool(wrong.any()):
        return None
    ids, trust = run.trust()
    place = torch.argsort(task.train.ids.cpu())
    at = place[torch.searchsorted(task.train.ids.cpu()[place], ids.cpu())]
    return float(roc_auc_score(wrong.cpu()[at].numpy(), -trust.cpu().numpy()))


def all_and_flipped(run: Run, task: Task) -> float | None:
    """The accuracy of the mean over networks, their averages, and test images as they are and flipped.

    Only of runs that are trained on views: where there are none, flipped images may be no images of their class.
    """
    if not task.job.setup.augment:
        return None
    likeliest = run.predict_proba(task.test, networks="all", views=(Flip(1.0),)).argmax(1)
    return float((likeliest == task.test.labels.cpu().numpy()).mean())


# Columns of what is measured once, when a run has ended.
AT_THE_END: dict[str, Callable[[Run, Task], float | None]] = {
    "trust_auroc": trust_auroc,
    "all_and_flipped": all_and_flipped,
}


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
