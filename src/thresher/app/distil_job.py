"""From the settings of a distillation to its runs: teacher, pretraining, and a student for each weighting."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from thresher.app.distil_sets import Parts, load_parts
from thresher.app.distil_settings import DistilSettings, is_table, refuse_unused
from thresher.app.folders import refuse_another_run
from thresher.app.settings import save, saving
from thresher.app.train_job import keep_rows_of, with_defaults
from thresher.core.errors import ThresherError
from thresher.core.examples import Examples
from thresher.core.recipe import Recipe
from thresher.core.seeding import everything_seeded
from thresher.core.signals import entropy, margin
from thresher.engine.plan import one_of
from thresher.engine.run import Run
from thresher.engine.settings import DEFAULT_BATCH, DEFAULT_EPOCHS, training_part
from thresher.engine.store.unsaved import nothing_left_unless_saved
from thresher.engine.train import Moment
from thresher.methods import Lessons, method, pairs_between, student_recipe, teach, weighting
from thresher.models import NamedModel
from thresher.objectives import Variational
from thresher.record.run_folder import SETTINGS

CONFIDENCES = {"margin": margin, "entropy": entropy}
STAGES = ("teacher", "pretraining")


@dataclass(frozen=True)
class DistilJob:
    """Settings with every default filled in, the examples they speak of, and the recipe of each weighting."""

    settings: DistilSettings
    parts: Parts
    recipes: Mapping[str, Recipe]


def prepare_distil(settings: DistilSettings) -> DistilJob:
    """Load and split the data and fill in what was not chosen; wrong names are refused here."""
    refuse_unused(settings)
    one_of("confidence", settings.confidence, CONFIDENCES)
    parts = load_parts(settings)
    full = with_defaults(settings, parts.labelled)
    full = replace(full, epochs=DEFAULT_EPOCHS if full.epochs is None else full.epochs)
    if full.teacher == "auto":
        full = replace(full, teacher=full.model)
    names = [name.strip() for name in full.weights.split(",")]
    return DistilJob(full, parts, {name: _recipe(name, full, parts.labelled) for name in names})


def _recipe(name: str, settings: DistilSettings, labelled: Examples) -> Recipe:
    base = method(settings.method).recipe(
        noise_rate=settings.noise_rate, classes=labelled.classes, epochs=float(settings.epochs or 0)
    )
    if settings.match is not None:
        base = replace(base, objective=_matching(settings.match, settings, labelled))
    rule = weighting(
        name,
        by=CONFIDENCES[settings.confidence],
        hard=settings.hard,
        temperature=settings.temperature,
        every_epoch=settings.every_epoch,
    )
    return student_recipe(rule, base, settings.temperature)


def _matching(text: str, settings: DistilSettings, labelled: Examples) -> Variational:
    """The objective by which layers of the student tell layers of the teacher; the same heads for every weighting."""
    if is_table(settings.teacher):
        raise ThresherError("--match looks at the layers of the teacher, and a table has none: give a model instead.")
    pairs = [pair.strip().split("=") for pair in text.split(",")]
    if any(len(pair) != 2 or not all(pair) for pair in pairs):
        raise ThresherError(f"--match {text} is not understood: write student=teacher, such as body=body,head=head.")
    if len({layer for layer, _ in pairs}) < len(pairs):
        raise ThresherError(f"--match {text} names a layer of the student twice: give each a single one to predict.")
    inputs = next(iter(labelled.batches([torch.arange(1)])))
    with everything_seeded(settings.seed, "match"):
        student, teacher = (_builder(name, labelled)() for name in (settings.model, settings.teacher))
        return Variational(pairs_between(student, teacher, dict(pairs), inputs), temperature=settings.temperature)


def run_distil(
    job: DistilJob, out: Path, watch: Callable[[str, Moment], None], commit_every: float
) -> tuple[Lessons, dict[str, Run]]:
    """Every stage in its folder inside `out`, each of which goes on where it was left."""
    settings, parts = job.settings, job.parts
    epochs = settings.epochs
    assert epochs is not None
    refuse_another_run(out, settings)
    batch = _small_batch(settings.batch or DEFAULT_BATCH, len(parts.labelled))
    with nothing_left_unless_saved(out):
        lessons = teach(
            _builder(settings.model, parts.labelled),
            parts.labelled,
            parts.unlabelled,
            parts.validation,
            teacher=_builder(settings.teacher, parts.labelled) if parts.table is None else parts.table,
            epochs=epochs,
            teacher_epochs=settings.teacher_epochs,
            pretraining_epochs=settings.pretraining_epochs,
            student_sees_validation=settings.student_sees_validation,
            recipes=list(job.recipes.values()),
            watch=saving(settings, out, watch),
            test=parts.test,
            out=out,
            settings=training_part(settings, batch=batch, commit_every=commit_every),
        )
    runs = {}
    for name, recipe in job.recipes.items():
        save(replace(settings, method=title(settings, name), weights=name), out / name / SETTINGS)
        batch = min(settings.batch or DEFAULT_BATCH, len(lessons.train))
        runs[name] = lessons.learn(recipe, hard=settings.hard, stage=name, out=out / name, batch=batch)
        keep_rows_of(settings, out / name, *_rows(settings, parts))
    return lessons, runs


def _rows(settings: DistilSettings, parts: Parts) -> list[Examples]:
    """The sets whose examples are of --data itself."""
    own = [parts.labelled, parts.validation]
    return own if settings.unlabelled is not None else [*own, parts.unlabelled]


def _small_batch(batch: int, labelled: int) -> int:
    """A batch of labelled examples: at most a tenth of them if they are few, for an epoch should take some steps.

    >>> [_small_batch(128, labelled) for labelled in (5, 50, 500, 5000)]
    [5, 8, 50, 128]
    """
    return min(batch, labelled, max(8, labelled // 10))


def _builder(name: str, labelled: Examples) -> NamedModel:
    return NamedModel(name, labelled.input_shape, labelled.outputs)


def title(settings: DistilSettings, weights: str) -> str:
    """What a student is called in tables and reports.

    >>> title(DistilSettings(method="prl-l", data="digits", match="body=body"), "debias")
    'prl-l, VID, debias'
    """
    named = [] if settings.method == "standard" else [settings.method]
    return ", ".join([*named, *(["VID"] if settings.match else []), weights])
