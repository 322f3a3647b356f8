"""Preparing distillation: a teacher, its labels for the unlabelled examples, and pretrained students."""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from thresher.core.errors import ThresherError
from thresher.core.examples import Examples
from thresher.core.joining import join
from thresher.core.recipe import Recipe
from thresher.core.rule import columns_of, needs_of, schedules_of
from thresher.core.schedules import observers_of
from thresher.core.seeding import derive, preserved
from thresher.core.targets import one_hot_if_ids
from thresher.core.tasks import CLASSES
from thresher.data import Predictions, read_predictions
from thresher.engine.loop.sweeper import Sweeper
from thresher.engine.run import Run
from thresher.engine.start.checks import check_recipe, try_sets
from thresher.engine.step.teacher import TEACHER_OUTPUT, from_probabilities
from thresher.engine.train import Moment
from thresher.methods.method import Trainer
from thresher.methods.separate_sets import check_apart, refuse_seen
from thresher.models import NamedModel
from thresher.objectives import CrossEntropy, as_objective
from thresher.rules import teacher_labels

TeacherLike = nn.Module | Callable[[], nn.Module] | Predictions | Path | str
Watch = Callable[[str, Moment], None]  # told the stage: teacher, pretraining or student


@dataclass(frozen=True, eq=False)
class Lessons:
    """Labelled and teacher-labelled examples as one set, and students pretrained on the labelled ones.

    `learn(recipe)` trains copies of the students, so that several recipes start from the same weights.
    """

    train: (
        Examples  # targets [n, classes]; columns teacher_output, from_teacher, and is_corrupt where the truth is known
    )
    validation: Examples | None
    trainer: Trainer
    students: Sequence[nn.Module]
    teacher: nn.Module | None = None  # if it is a network
    taught: Run | None = None  # the teacher's training, if it was trained here
    pretrained: Run | None = None
    watch: Watch | None = None

    def learn(self, recipe: Recipe, *, hard: bool = False, stage: str = "student", **changes: Any) -> Run:
        """Train a copy of the pretrained students by this recipe; `hard` labels are the teacher's likeliest classes."""
        if recipe.peers > len(self.students):
            raise ThresherError(
                f"A recipe with peers={recipe.peers} needs as many students: pass a function that makes one, and the "
                "recipe, to teach(..., recipes=[recipe])."
            )
        supply = iter([copy.deepcopy(student) for student in self.students[: recipe.peers]])
        settings: dict[str, Any] = {
            "model": lambda: next(supply),
            "train": self._with_hard_labels() if hard else self.train,
            "validation": self.validation,
            "clean": _clean(recipe, self.validation, self.trainer),
            "teacher": self.teacher if "teacher" in needs_of(recipe.objective) else None,
            "watch": None if self.watch is None else partial(self.watch, stage),
            "about": {**self.trainer.about, "model": _name_of(self.trainer.model)},
        }
        return self.trainer(recipe, **(settings | changes))

    def _with_hard_labels(self) -> Examples:
        hard = teacher_labels(self.train.columns[TEACHER_OUTPUT], hard=True)
        taught = self.train.columns["from_teacher"][:, None]
        return self.train.with_targets(torch.where(taught, hard, self.train.targets))


def teach(
    student: nn.Module | Callable[[], nn.Module],
    labelled: Examples,
    unlabelled: Examples,
    validation: Examples | None = None,
    *,
    teacher: TeacherLike,
    epochs: int,
    teacher_epochs: int | None = None,
    pretraining_epochs: int | None = None,
    student_sees_validation: bool = False,
    recipes: Sequence[Recipe] = (),
    watch: Watch | None = None,
    **settings: Any,
) -> Lessons:
    """Algorithm 1 of weighted distillation up to the student's training: teacher, its labels, a pretrained student.

    student     a function that makes one, to be pretrained on the labelled examples, or a module that already is
    unlabelled  its targets are never read, so zeros will do; a column `true_target` only serves to report how often
                the teacher is right
    validation  for `Debias`: labelled examples the teacher has not seen, which the student may see; they are also the
                clean examples of a recipe that needs some, such as l2rw's, if no clean= is given
    teacher     a function that makes a network, trained here on the labelled examples; a trained network; or a table of
                probabilities (Predictions, or the path of a Parquet, CSV or npz file)
    recipes     recipes for the students: what they need and lack is refused before anything is trained, and as many
                students are pretrained as they have peers
    settings    go to `fit` in every stage: batch, optimizer, schedule, test, device, seed, out, ...
    """
    check_apart(labelled, unlabelled, validation)
    lengths = {"epochs": epochs, "teacher_epochs": teacher_epochs, "pretraining_epochs": pretraining_epochs}
    for name, count in lengths.items():
        if count is not None and count < 1:
            raise ThresherError(f"{name}={count} trains nothing: give at least 1.")
    sets = {"train": labelled, "unlabelled": unlabelled, "validation": validation}
    # Sets that are learnt together are normalised alike.
    given = {name: replace(each, normalise=labelled.normalise) for name, each in sets.items() if each is not None}
    trainer = Trainer(student, labelled).changed(epochs=epochs, **settings)
    if isinstance(teacher, Path | str):
        teacher = read_predictions(teacher, *given.values())
    _try(student, given)
    _rehearse(recipes, given, trainer, _try(teacher, given))
    plain = partial(_plain, trainer, labelled, watch)
    taught = pretrained = None
    if not isinstance(teacher, nn.Module | Predictions):
        taught = plain("teacher", teacher, teacher_epochs)
        teacher = taught.model
    train, known = _union(teacher, given, student_sees_validation)
    if isinstance(student, nn.Module):
        students: Sequence[nn.Module] = [student]
    else:
        peers = max((recipe.peers for recipe in recipes), default=1)
        pretrained = plain("pretraining", student, pretraining_epochs, peers)
        students = pretrained.models
    network = teacher if isinstance(teacher, nn.Module) else None
    return Lessons(train, known, trainer, students, network, taught, pretrained, watch)


def _try(model: TeacherLike, sets: Mapping[str, Examples]) -> nn.Module | None:
    """Try a model on an example of each set before anything is trained; returns it, or None for a table."""
    if isinstance(model, Predictions):
        width, classes = model.probabilities.shape[1], sets["train"].outputs
        if width != classes:
            raise ThresherError(f"{model.name} has {width} classes: give one column for each of {classes}.")
        if "validation" in sets:
            refuse_seen(model.learnt_from(sets["validation"]), f"what {model.name} learnt from")
        return None
    if not callable(model):
        raise ThresherError(
            f"A {type(model).__name__} is not a model: give a network, a function that makes one, or a teacher's table."
        )
    with preserved():
        made = model if isinstance(model, nn.Module) else model()
    device = next(made.parameters()).device
    try_sets(made, {name: examples.subset([0]).to(device) for name, examples in sets.items()}, 0)
    return made


def _rehearse(
    recipes: Sequence[Recipe], sets: Mapping[str, Examples], trainer: Trainer, network: nn.Module | None
) -> None:
    """Refuse recipes that need what will be missing, before the teacher is trained."""
    first = {name: examples.subset([0]) for name, examples in sets.items()}
    ids, classes = torch.cat([examples.ids.cpu() for examples in first.values()]), sets["train"].outputs
    train, known = _union(Predictions(ids, torch.full((len(ids), classes), 1 / classes)), first)
    for recipe in recipes:
        if known is None and "validation" in needs_of(recipe):
            raise ThresherError(
                "These weights are estimated on labelled examples that the teacher has not seen: pass "
                "validation=Examples(...), or choose weights='fidelity' or 'unweighted'."
            )
        if "is_corrupt" in columns_of(recipe) - train.columns.keys():
            raise ThresherError(
                "An oracle needs to know which labels are right: give the unlabelled set a column true_target, or "
                "choose other weights."
            )
        said = train.columns[TEACHER_OUTPUT] if network is None else network
        given = {"validation": known, "teacher": said, "peer": recipe.peers > 1 or None, "average": recipe.average}
        given["clean"] = _clean(recipe, known, trainer)
        check_recipe(recipe, as_objective(recipe.objective, CLASSES), train, {"test": trainer.test, **given})
        observers_of(schedules_of(recipe), train, trainer.epochs)  # they refuse a run that is too short


def _name_of(model: object) -> str | None:
    return model.name if isinstance(model, NamedModel) else None


def _clean(recipe: Recipe, validation: Examples | None, trainer: Trainer) -> Examples | None:
    """The clean examples that the recipe needs: those given, or else the validation set, whose labels are right."""
    if trainer.clean is None and validation is not None and "clean" in needs_of(recipe):
        return _labelled(validation)
    return trainer.clean


def _union(
    teacher: nn.Module | Predictions, sets: Mapping[str, Examples], student_sees_validation: bool = False
) -> tuple[Examples, Examples | None]:
    """The student's training set and the validation set, both with the teacher's outputs."""
    labelled, known = sets["train"], None
    asked = _with_teacher(teacher, replace(sets["unlabelled"], name="the unlabelled set"))
    parts = [_labelled(_with_teacher(teacher, labelled, labels_known=True)), _unlabelled(asked, labelled.outputs)]
    if "validation" in sets:
        known = _with_teacher(teacher, replace(sets["validation"], name="the validation set"))
        if student_sees_validation:
            parts.append(_labelled(known))
    return join(*parts), known


def _plain(
    trainer: Trainer,
    labelled: Examples,
    watch: Watch | None,
    stage: str,
    model: Any,
    epochs: int | None,
    peers: int = 1,
) -> Run:
    """Plain training on the labelled examples, in a folder and from a seed of its own.

    By the student's seed a teacher of the student's kind would become the student itself, and err where it errs.
    """
    changes: dict[str, Any] = {"seed": derive(trainer.settings.seed, stage)}
    if epochs is not None:
        changes["epochs"] = epochs
    told = None if watch is None else partial(watch, stage)
    return trainer(Recipe(peers=peers), stage=stage, model=model, train=labelled, watch=told, **changes)


def _with_teacher(teacher: nn.Module | Predictions, examples: Examples, labels_known: bool = False) -> Examples:
    """The examples with the column `teacher_output`; where a table lacks rows, known labels stand in for them."""
    if isinstance(teacher, Predictions):
        chances, known = teacher.of(examples)
        if labels_known:
            chances = torch.where(known[:, None], chances, one_hot_if_ids(examples.targets.cpu(), chances.shape[1]))
        elif not known.all():
            missing = examples.ids.cpu()[~known]
            raise ThresherError(
                f"{teacher.name} has no row for {len(missing)} of {examples.name}, such as id {int(missing[0])}: "
                "add them, or leave those examples out."
            )
        return examples.with_columns(**{TEACHER_OUTPUT: from_probabilities(chances).to(examples.targets.device)})
    device = next(teacher.parameters()).device
    said = Sweeper()(teacher, CrossEntropy(), examples.to(device)).outputs
    return examples.with_columns(**{TEACHER_OUTPUT: said.to(examples.targets.device)})


def _labelled(examples: Examples) -> Examples:
    """Examples that keep their label, as a row of probabilities."""
    none = torch.zeros(len(examples), dtype=torch.bool, device=examples.targets.device)
    truth = {"true_target": examples.labels, "is_corrupt": none, **examples.columns}
    soft = one_hot_if_ids(examples.targets, examples.columns[TEACHER_OUTPUT].shape[1])
    columns = {name: truth[name] for name in (TEACHER_OUTPUT, "true_target", "is_corrupt")}
    return replace(examples, targets=soft, classes=soft.shape[1], columns={**columns, "from_teacher": none})


def _unlabelled(examples: Examples, classes: int) -> Examples:
    """Examples with the teacher's label."""
    outputs = examples.columns[TEACHER_OUTPUT]
    columns = {TEACHER_OUTPUT: outputs, "from_teacher": torch.ones_like(outputs[:, 0], dtype=torch.bool)}
    if (true := examples.columns.get("true_target")) is not None:
        columns |= {"true_target": true, "is_corrupt": outputs.argmax(1) != true}
    return replace(examples, targets=teacher_labels(outputs), classes=classes, columns=columns, checked=False)
