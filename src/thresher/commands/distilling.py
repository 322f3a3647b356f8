"""From the settings of a distillation to its runs: teacher, pretraining, and a student for each weighting."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import nn

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
from thresher.data import load, read_predictions
from thresher.data.tables import SUFFIXES
from thresher.engine.fit import Moment
from thresher.engine.run import Run
from thresher.errors import ThresherError
from thresher.examples import Examples
from thresher.models import build
from thresher.procedures import Lessons, student_recipe, teach, weighting
from thresher.recipe import Recipe
from thresher.recipes import method
from thresher.seeding import generator
from thresher.settings import Settings, refuse_another_run, save
from thresher.signals import entropy, margin
from thresher.views import View

CONFIDENCES = {"margin": margin, "entropy": entropy}
STAGES = ("teacher", "pretraining")


@dataclass(frozen=True)
class DistilSettings(Settings):
    """What `thresher distil` is told beside what `thresher train` is.

    method     how the student is trained otherwise: standard, prl-l, ...
    weights    unweighted, debias, consistent, fidelity, composition, oracle; several separated by commas
    labelled   how many training examples are labelled; the others are the unlabelled ones
    unlabelled  a data set of its own: then all of the training set is labelled
    validation  how many examples are kept apart to estimate the weights, or their share if below 1
    teacher    a model, trained on the labelled examples, or a table of probabilities; auto: as the student
    confidence  margin or entropy
    every_epoch  estimate the weights anew every epoch, instead of once
    """

    weights: str = "debias"
    labelled: int | None = None
    unlabelled: str | None = None
    teacher: str = "auto"
    teacher_epochs: int | None = None
    pretraining_epochs: int | None = None
    hard: bool = False
    temperature: float = 1.0
    confidence: str = "margin"
    every_epoch: bool = False
    student_sees_validation: bool = False


@dataclass(frozen=True)
class DistilJob:
    """Settings with every default filled in, the examples they speak of, and the recipe of each weighting."""

    settings: DistilSettings
    labelled: Examples
    unlabelled: Examples
    validation: Examples
    test: Examples
    views: tuple[View, ...]
    recipes: Mapping[str, Recipe]


def prepare_distil(settings: DistilSettings) -> DistilJob:
    """Load and split the data and fill in what nobody chose; wrong names are refused here."""
    splits = load(settings.data, data_dir=settings.data_dir, seed=settings.seed)
    if splits.train.is_regression:
        raise ThresherError("Distillation is defined for classification only: choose data with classes.")
    rate, momentum = usual_rates(settings)
    model = usual_model(splits.train.input_shape) if settings.model == "auto" else settings.model
    teacher = model if settings.teacher == "auto" else settings.teacher
    filled = replace(settings, model=model, teacher=teacher, learning_rate=rate, momentum=momentum)
    one_of("confidence", filled.confidence, CONFIDENCES)
    views = () if settings.augment is None else (one_of("augmentation", settings.augment, VIEWS)(),)
    labelled, unlabelled, validation = _parts(filled, splits.train)
    recipes = {name: _recipe(name, filled, labelled.classes) for name in filled.weights.split(",")}
    if is_table(teacher):
        read_predictions(teacher, labelled.outputs)  # refused here, not after an hour
    return DistilJob(filled, labelled, unlabelled, validation, splits.test, views, recipes)


def is_table(teacher: str) -> bool:
    return teacher.endswith((*SUFFIXES, ".npz"))


def _recipe(name: str, settings: DistilSettings, classes: int | None) -> Recipe:
    base = method(settings.method).recipe(
        noise_rate=settings.noise_rate, classes=classes, epochs=float(settings.epochs or 1)
    )
    rule = weighting(
        name,
        by=CONFIDENCES[settings.confidence],
        hard=settings.hard,
        temperature=settings.temperature,
        every_epoch=settings.every_epoch,
    )
    return student_recipe(rule, base, settings.temperature)


def _parts(settings: DistilSettings, train: Examples) -> tuple[Examples, Examples, Examples]:
    """(labelled, unlabelled, validation), drawn by the seed."""
    order = torch.randperm(len(train), generator=generator(settings.seed, "distil"))
    wanted = 0.1 if settings.validation is None else settings.validation
    known = round(wanted * len(train)) if wanted < 1 else int(wanted)
    count = settings.labelled
    if settings.unlabelled is not None:
        count = len(train) - known
    if count is None:
        raise ThresherError(
            "Nobody said how many examples are labelled: give --labelled 500, or --unlabelled with data of its own."
        )
    if count < 1 or known < 1 or count + known > len(train) - (settings.unlabelled is None):
        raise ThresherError(
            f"{count} labelled and {known} validation examples do not fit {len(train)} training examples: "
            "lower --labelled or --validation."
        )
    validation, labelled = train.subset(order[:known]), train.subset(order[known : known + count])
    if settings.unlabelled is None:
        rest = train.subset(order[known + count :])
        return labelled, rest.with_columns(true_target=rest.labels), validation
    others = load(settings.unlabelled, data_dir=settings.data_dir, seed=settings.seed).train
    return labelled, replace(others, ids=torch.arange(len(others)) + int(train.ids.max()) + 1, columns={}), validation


def run_distil(
    job: DistilJob, out: Path, watch: Callable[[str, Moment], None], commit_every: float
) -> tuple[Lessons, dict[str, Run]]:
    """Every stage in its folder inside `out`, each of which goes on where it was left."""
    settings = job.settings
    refuse_another_run(out, settings)
    save(settings, out / "run.toml")
    lessons = teach(
        _builder(settings.model, job),
        job.labelled,
        job.unlabelled,
        job.validation,
        teacher=settings.teacher if is_table(settings.teacher) else _builder(settings.teacher, job),
        epochs=settings.epochs or 60,
        teacher_epochs=settings.teacher_epochs,
        pretraining_epochs=settings.pretraining_epochs,
        student_sees_validation=settings.student_sees_validation,
        peers=max(recipe.peers for recipe in job.recipes.values()),
        views=job.views,
        watch=watch,
        test=job.test,
        batch=min(settings.batch, len(job.labelled)),
        optimizer=make_optimizer(settings),
        schedule=make_schedule(settings.schedule, settings.epochs or 60),
        device=choose_device(settings.device),
        precision=one_of("precision", settings.precision, PRECISIONS),
        seed=settings.seed,
        out=out,
        deterministic=settings.deterministic,
        workers=settings.workers,
        commit_every=commit_every,
    )
    runs = {}
    for name, recipe in job.recipes.items():
        save(replace(settings, method=title(settings, name), weights=name), out / name / "run.toml")
        runs[name] = lessons.learn(recipe, hard=settings.hard, stage=name, out=out / name, batch=settings.batch)
    return lessons, runs


def title(settings: DistilSettings, weights: str) -> str:
    """What a student is called in tables and reports."""
    return weights if settings.method == "standard" else f"{settings.method}, {weights}"


def _builder(name: str, job: DistilJob) -> Callable[[], nn.Module]:
    return lambda: build(name, input_shape=job.labelled.input_shape, outputs=job.labelled.outputs)
