"""The distillations of a suite: teacher, labels and pretrained student are made once for each cell and seed."""

from dataclasses import replace

import torch

from thresher.bench.definition.grid import Measured, Task
from thresher.bench.definition.setup import Teaching
from thresher.bench.run.identity import as_json
from thresher.bench.run.task import measurement_of
from thresher.core.errors import ThresherError
from thresher.core.examples import Examples
from thresher.core.recipe import Recipe
from thresher.core.seeding import everything_seeded, generator
from thresher.core.signals import margin
from thresher.engine.settings import training_part
from thresher.methods import Lessons, method, pairs_between, student_recipe, teach, weighting
from thresher.models import NamedModel
from thresher.objectives import Variational

_cached: dict[str, Lessons] = {}  # the latest ones, which a worker process uses for many jobs


def only_labelled(task: Task) -> Measured:
    """The pretrained student: plain training on the labelled examples."""
    run = lessons_of(task).pretrained
    assert run is not None
    return measurement_of(run, task)


def only_teacher(task: Task) -> Measured:
    """The teacher itself."""
    run = lessons_of(task).taught
    assert run is not None
    return measurement_of(run, task)


def distilled(
    task: Task,
    weights: str,
    *,
    hard: bool = False,
    every_epoch: bool | None = None,
    base: str | None = None,
    vid: bool = False,
) -> Measured:
    """The pretrained student, trained on the true labels and on the teacher's.

    weights  one of thresher.methods.WEIGHTINGS
    base     the method that trains the student, told the share of wrong labels on the validation set
    vid      whether the student's layers also predict the teacher's
    """
    how, lessons = teaching_of(task), lessons_of(task)
    repeated = how.every_epoch if every_epoch is None else every_epoch
    rule = weighting(weights, by=how.by, hard=hard, temperature=how.temperature, every_epoch=repeated)
    recipe = Recipe() if base is None else _base_recipe(base, lessons, task)
    if vid:
        with everything_seeded(task.job.seed, "vid"):  # the heads are initialised at random
            recipe = replace(recipe, objective=_variational(lessons, how))
    full = student_recipe(rule, recipe, how.temperature)
    return measurement_of(lessons.learn(full, hard=hard, watch=task.watch, out=task.out), task)


def lessons_of(task: Task) -> Lessons:
    """Teacher, labels and pretrained student of this cell and seed; the latest ones are cached."""
    how, setup = teaching_of(task), task.job.setup
    # Without what concerns only the training of the student on the teacher's labels.
    shared = replace(how, by=margin, every_epoch=False, temperature=1.0, layers=())
    cell, seed = task.job.cell, task.job.seed
    key = repr([cell.data, as_json(cell.prepare), as_json(replace(setup, teaching=shared)), seed, task.device])
    if key not in _cached:
        _cached.clear()
        _cached[key] = _teach(task, how)
    return _cached[key]


def _teach(task: Task, how: Teaching) -> Lessons:
    labelled, unlabelled, validation = split_labelled(task.train, how, task.job.seed)
    shape, outputs, setup, watch = task.train.input_shape, task.train.outputs, task.job.setup, task.watch
    assert setup.epochs is not None  # suites that distil say their epochs
    return teach(
        NamedModel(setup.model, shape, outputs),
        labelled,
        unlabelled,
        validation,
        teacher=NamedModel(how.teacher, shape, outputs),
        teacher_epochs=how.epochs,
        pretraining_epochs=how.epochs,
        student_sees_validation=how.student_sees_validation,
        epochs=setup.epochs,
        test=task.test,
        watch=None if watch is None else lambda stage, moment: watch(moment),  # noqa: ARG005
        settings=training_part(setup, device=task.device, seed=task.job.seed),
    )


def split_labelled(train: Examples, how: Teaching, seed: int) -> tuple[Examples, Examples, Examples]:
    """(labelled, unlabelled, validation): the first examples, and a random split of the others."""
    if how.labelled + how.validation >= len(train):
        raise ThresherError(
            f"{how.labelled} labelled and {how.validation} validation examples leave none of {len(train)} unlabelled: "
            "take fewer."
        )
    rest = torch.arange(how.labelled, len(train))
    rest = rest[torch.randperm(len(rest), generator=generator(seed, "distil"))]
    unlabelled = train.subset(rest[how.validation :].sort().values)
    return (
        train.subset(torch.arange(how.labelled)),
        unlabelled.with_columns(true_target=unlabelled.labels),
        train.subset(rest[: how.validation].sort().values),
    )


def teaching_of(task: Task) -> Teaching:
    how = task.job.setup.teaching
    if how is None:
        raise ThresherError(f"The setup of {task.job.cell.name} has no teacher: give it teaching=Teaching(...).")
    return how


def _base_recipe(name: str, lessons: Lessons, task: Task) -> Recipe:
    """A registered method for the student, told how often the teacher is wrong on the validation set."""
    validation = lessons.validation
    assert validation is not None
    wrong = (validation.columns["teacher_output"].argmax(1) != validation.labels).float().mean().item()
    labelled = (~lessons.train.columns["from_teacher"]).float().mean().item()
    epochs = task.job.setup.epochs or 1
    return method(name).recipe(noise_rate=wrong * (1 - labelled), classes=task.train.classes, epochs=epochs)


def _variational(lessons: Lessons, how: Teaching) -> Variational:
    assert lessons.teacher is not None
    device = next(lessons.teacher.parameters()).device
    inputs = next(iter(lessons.train.batches([torch.arange(2)]))).to(device)
    pairs = pairs_between(lessons.students[0], lessons.teacher, dict(how.layers), inputs)
    return Variational(pairs, temperature=how.temperature)
