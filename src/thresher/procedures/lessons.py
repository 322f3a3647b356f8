"""What a student learns from: its labels, what a teacher says of the rest, and a start made on the labels."""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from thresher.data import Predictions, read_predictions
from thresher.engine.fit import Moment
from thresher.engine.run import Run
from thresher.engine.sweep import Sweeper
from thresher.engine.teacher import TEACHER_OUTPUT, from_probabilities
from thresher.engine.trial import try_sets
from thresher.errors import ThresherError
from thresher.examples import Examples, join
from thresher.mix import as_mixable
from thresher.objectives import CrossEntropy
from thresher.procedures.trainer import Trainer
from thresher.recipe import Recipe
from thresher.rules import teacher_labels
from thresher.rules.rule import needs_of
from thresher.seeding import derive, preserved
from thresher.views import View

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
    teacher: nn.Module | None = None  # where it is a network
    taught: Run | None = None  # the teacher's training, where it was trained here
    pretrained: Run | None = None
    watch: Watch | None = None

    def learn(self, recipe: Recipe, *, hard: bool = False, stage: str = "student", **changes: Any) -> Run:
        """Train a copy of the pretrained students by this recipe; `hard` labels are the teacher's likeliest classes."""
        if recipe.peers > len(self.students):
            raise ThresherError(
                f"A recipe with peers={recipe.peers} needs as many students: pass a function that makes one, and "
                f"peers={recipe.peers}."
            )
        supply = iter([copy.deepcopy(student) for student in self.students[: recipe.peers]])
        settings: dict[str, Any] = {
            "model": lambda: next(supply),
            "train": self._with_hard_labels() if hard else self.train,
            "validation": self.validation,
            "teacher": self.teacher if "teacher" in needs_of(recipe.objective) else None,
            "watch": None if self.watch is None else partial(self.watch, stage),
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
    peers: int = 1,
    views: tuple[View, ...] = (),
    watch: Watch | None = None,
    **settings: Any,
) -> Lessons:
    """Algorithm 1 of weighted distillation up to the student's training: teacher, its labels, a pretrained student.

    student     a function that makes one, to be pretrained on the labelled examples, or a module that already is
    unlabelled  its targets are never looked at; a column `true_target` only tells how often the teacher is right
    validation  for `Debias`: labelled examples the teacher has not seen, which the student may see
    teacher     a function that makes a network, trained here on the labelled examples; a trained network; or a table of
                probabilities (Predictions, or the path of a Parquet, CSV or npz file)
    settings    go to `fit` in every stage: batch, optimizer, schedule, test, device, seed, out, ...
    """
    _refuse(labelled, unlabelled, validation)
    trainer = Trainer({"epochs": epochs, **settings}, views)
    plain = partial(_plain, trainer, labelled, watch)
    taught = pretrained = None
    if isinstance(teacher, Path | str):
        teacher = read_predictions(teacher, labelled.outputs)
    for model in (student, teacher):
        if not isinstance(model, Predictions):
            _try(model, {"train": labelled, "unlabelled": unlabelled, "validation": validation})
    if not isinstance(teacher, nn.Module | Predictions):
        taught = plain("teacher", teacher, teacher_epochs)
        teacher = taught.model
    known = None
    if validation is not None:
        if isinstance(teacher, Predictions):
            _refuse_seen(teacher.learnt_from(validation), f"what {teacher.name} learnt from")
        known = _with_teacher(teacher, replace(validation, name="the validation set"))
    asked = _with_teacher(teacher, replace(unlabelled, name="the unlabelled set"))
    if isinstance(student, nn.Module):
        students: Sequence[nn.Module] = [student]
    else:
        pretrained = plain("pretraining", student, pretraining_epochs, peers)
        students = pretrained.models
    parts = [_labelled(_with_teacher(teacher, labelled, labels_known=True)), _unlabelled(asked, labelled.outputs)]
    if known is not None and student_sees_validation:
        parts.append(_labelled(known))
    network = teacher if isinstance(teacher, nn.Module) else None
    return Lessons(join(*parts), known, trainer, students, network, taught, pretrained, watch)


def _try(model: nn.Module | Callable[[], nn.Module], sets: Mapping[str, Examples | None]) -> None:
    """Try a model on an example of each set now, not after the teacher is trained."""
    given = {name: examples for name, examples in sets.items() if examples is not None}
    with preserved():
        made = model if isinstance(model, nn.Module) else model()
    device = next(made.parameters()).device
    try_sets(made, {name: examples.subset([0]).to(device) for name, examples in given.items()}, 0)


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
    changes: dict[str, Any] = {"seed": derive(trainer.settings.get("seed", 0), stage)}
    if epochs is not None:
        changes["epochs"] = epochs
    told = None if watch is None else partial(watch, stage)
    return trainer(Recipe(peers=peers), stage=stage, model=model, train=labelled, watch=told, **changes)


def _with_teacher(teacher: nn.Module | Predictions, examples: Examples, labels_known: bool = False) -> Examples:
    """The examples with the column `teacher_output`; where a table is silent about known labels, it says the label."""
    if isinstance(teacher, Predictions):
        chances, known = teacher.of(examples)
        if labels_known:
            chances = torch.where(known[:, None], chances, as_mixable(examples.labels.cpu(), chances.shape[1]))
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
    """Examples that keep the label they have, as a row of probabilities."""
    nobody = torch.zeros(len(examples), dtype=torch.bool, device=examples.targets.device)
    truth = {"true_target": examples.labels, "is_corrupt": nobody, **examples.columns}
    soft = as_mixable(examples.labels, examples.columns[TEACHER_OUTPUT].shape[1])
    columns = {name: truth[name] for name in (TEACHER_OUTPUT, "true_target", "is_corrupt")}
    return replace(examples, targets=soft, classes=soft.shape[1], columns={**columns, "from_teacher": nobody})


def _unlabelled(examples: Examples, classes: int) -> Examples:
    """Examples whose label is what the teacher says of them."""
    outputs = examples.columns[TEACHER_OUTPUT]
    columns = {TEACHER_OUTPUT: outputs, "from_teacher": torch.ones_like(outputs[:, 0], dtype=torch.bool)}
    if (true := examples.columns.get("true_target")) is not None:
        columns |= {"true_target": true, "is_corrupt": outputs.argmax(1) != true}
    return replace(examples, targets=teacher_labels(outputs), classes=classes, columns=columns, checked=False)


def _refuse(labelled: Examples, unlabelled: Examples, validation: Examples | None) -> None:
    """Refuse sets that cannot be told apart, or that would make the teacher its own judge."""
    if labelled.is_regression:
        raise ThresherError("Distillation is defined for classification only: give class labels.")
    if validation is not None:
        _refuse_seen(_shared(labelled, validation), "the labelled set")
    named = {"labelled": labelled, "validation": validation}
    for name, other in named.items():
        if other is not None and len(both := _shared(other, unlabelled)):
            raise ThresherError(
                f"{len(both)} unlabelled examples (such as id {int(both[0])}) are in the {name} set too: "
                "take them out of one; if they are other examples, give them ids of their own."
            )


def _refuse_seen(ids: Tensor, where: str) -> None:
    """Refuse a validation set of which the teacher has learnt these."""
    if len(ids):
        raise ThresherError(
            f"{len(ids)} validation examples (such as id {int(ids[0])}) are in {where}: hold them out of the teacher's "
            "training; if they are other examples, give them ids of their own."
        )


def _shared(first: Examples, second: Examples) -> Tensor:
    return first.ids[torch.isin(first.ids, second.ids)]
