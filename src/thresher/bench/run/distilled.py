"""One distillation of a suite: everything that a cell and a seed share is made once, and learnt from in many ways."""

from dataclasses import replace
from functools import partial
from typing import Any

import torch

from thresher.bench.definition.grid import Measured, Task
from thresher.bench.definition.setup import Teaching
from thresher.bench.run.jobs import plain
from thresher.bench.run.task import measured, trainer
from thresher.core.errors import ThresherError
from thresher.core.examples import Examples
from thresher.core.recipe import Recipe
from thresher.core.seeding import everything_seeded, generator
from thresher.core.signals import margin
from thresher.methods import Lessons, method, pairs_between, student_recipe, teach, weighting
from thresher.models import build
from thresher.objectives import Variational

_LATEST: dict[str, Lessons] = {}  # one worker learns from the same lessons again and again


def only_labelled(task: Task) -> Measured:
    """The student before it meets the teacher: plain training on the labelled examples."""
    run = lessons_of(task).pretrained
    assert run is not None
    return measured(run, task)


def only_teacher(task: Task) -> Measured:
    """The teacher itself."""
    run = lessons_of(task).taught
    assert run is not None
    return measured(run, task)


def distilled(
    task: Task,
    weights: str,
    *,
    hard: bool = False,
    every_epoch: bool | None = None,
    base: str | None = None,
    vid: bool = False,
) -> Measured:
    """The student, pretrained, on labels of its own and of the teacher's.

    weights  one of thresher.methods.WEIGHTINGS
    base     the method that trains the student, told the share of wrong labels that the validation set shows
    vid      whether the student's layers should tell the teacher's, too
    """
    how, lessons = teaching(task), lessons_of(task)
    again = how.every_epoch if every_epoch is None else every_epoch
    rule = weighting(weights, by=how.by, hard=hard, temperature=how.temperature, every_epoch=again)
    recipe = Recipe() if base is None else _recipe(base, lessons, task)
    if vid:
        with everything_seeded(task.job.seed, "vid"):  # the heads start at random
            recipe = replace(recipe, objective=_variational(lessons, how))
    full = student_recipe(rule, recipe, how.temperature)
    return measured(lessons.learn(full, hard=hard, watch=task.watch, out=task.out), task)


def lessons_of(task: Task) -> Lessons:
    """Teacher, labels and pretrained student of this cell and seed; the latest ones are kept."""
    how, setup = teaching(task), task.job.setup
    same = replace(how, by=margin, every_epoch=False, temperature=1.0, layers=())  # what the student does with them
    cell, seed = task.job.cell, task.job.seed
    key = repr([cell.data, plain(cell.prepare), plain(replace(setup, teaching=same)), seed, task.device])
    if key not in _LATEST:
        _LATEST.clear()
        _LATEST[key] = _teach(task, how)
    return _LATEST[key]


def _teach(task: Task, how: Teaching) -> Lessons:
    settings = dict(trainer(task).settings)
    for name in ("train", "model", "clean", "validation", "keep", "watch", "out", "steps"):
        settings.pop(name)
    labelled, unlabelled, validation = parts(task.train, how, task.job.seed)
    shapes: dict[str, Any] = {"input_shape": task.train.input_shape, "outputs": task.train.outputs}
    watch = task.watch
    return teach(
        partial(build, task.job.setup.model, **shapes),
        labelled,
        unlabelled,
        validation,
        teacher=partial(build, how.teacher, **shapes),
        teacher_epochs=how.epochs,
        pretraining_epochs=how.epochs,
        student_sees_validation=how.student_sees_validation,
        views=task.job.setup.views,
        watch=None if watch is None else lambda stage, moment: watch(moment),  # noqa: ARG005
        **settings,
    )


def parts(train: Examples, how: Teaching, seed: int) -> tuple[Examples, Examples, Examples]:
    """(labelled, unlabelled, validation): the first examples, and a random split of the others."""
    if how.labelled + how.validation >= len(train):
        raise ThresherError(
            f"{how.labelled} labelled and {how.validation} validation examples leave none of {len(train)}: take fewer."
        )
    rest = torch.arange(how.labelled, len(train))
    rest = rest[torch.randperm(len(rest), generator=generator(seed, "distil"))]
    unlabelled = train.subset(rest[how.validation :].sort().values)
    return (
        train.subset(torch.arange(how.labelled)),
        unlabelled.with_columns(true_target=unlabelled.labels),
        train.subset(rest[: how.validation].sort().values),
    )


def teaching(task: Task) -> Teaching:
    how = task.job.setup.teaching
    if how is None:
        raise ThresherError(f"{task.job.cell.name} says nothing of its teacher: give its setup a Teaching(...).")
    return how


def _recipe(name: str, lessons: Lessons, task: Task) -> Recipe:
    """A registered method for the student, told how often the teacher is wrong on the validation set."""
    known = lessons.validation
    assert known is not None
    wrong = (known.columns["teacher_output"].argmax(1) != known.labels).float().mean().item()
    labelled = (~lessons.train.columns["from_teacher"]).float().mean().item()
    epochs = task.job.setup.epochs or 1
    return method(name).recipe(noise_rate=wrong * (1 - labelled), classes=task.train.classes, epochs=epochs)


def _variational(lessons: Lessons, how: Teaching) -> Variational:
    assert lessons.teacher is not None
    place = next(lessons.teacher.parameters()).device
    inputs = next(iter(lessons.train.batches([torch.arange(2)]))).to(place)
    pairs = pairs_between(lessons.students[0], lessons.teacher, dict(how.layers), inputs)
    return Variational(pairs, temperature=how.temperature)
