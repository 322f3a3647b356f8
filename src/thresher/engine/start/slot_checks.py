"""Refusals at the start for recipes that mix, relabel or have a teacher: what these slots read and cannot have."""

import math
from collections.abc import Mapping

from torch import nn

from thresher.core.errors import ThresherError
from thresher.core.evidence import HOW_TO_GIVE
from thresher.core.examples import Examples
from thresher.core.objective import Objective
from thresher.core.recipe import MixFromSet, Recipe
from thresher.core.rule import decided_of, gives_of, in_epoch, needs_of
from thresher.engine.step.teacher import TEACHER_OUTPUT


def check_mix_and_relabel(recipe: Recipe, task: str) -> None:
    """Refuse a mix or a relabelling that this task, or the recipe's other slots, cannot have."""
    _check_mix(recipe, task)
    if recipe.relabel is not None and task not in recipe.relabel.tasks:
        name, known = type(recipe.relabel).__name__, recipe.relabel.tasks[0]
        raise ThresherError(f"{name} is defined for {known} only: choose another relabelling for {task}.")
    for column, giver in sorted(decided_of((recipe.mix, recipe.relabel)).items()):
        if column not in gives_of(recipe.each_epoch):
            raise ThresherError(
                f"This recipe reads the column {column!r}, which no rule of its each_epoch gives: "
                f"put one there, such as {giver}."
            )


def _check_mix(recipe: Recipe, task: str) -> None:
    """Refuse partners that this task, or the recipe's other slots, cannot give."""
    mix = in_epoch(math.inf, recipe.mix)
    name = type(mix).__name__
    if recipe.peers > 1 and decided_of(mix):
        raise ThresherError(
            f"{name} mixes one batch for all networks, by what the rule of one decided: "
            "leave peers at 1, or choose another mix."
        )
    if not isinstance(mix, MixFromSet):
        return
    if task not in mix.tasks:
        raise ThresherError(f"{name} is defined for {mix.tasks[0]} only: choose another mix for {task}.")
    if mix.blends_targets and (recipe.relabel is not None or "teacher" in needs_of(recipe)):
        raise ThresherError(f"{name} blends given targets, which relabel or a teacher replaces: leave one of them out.")


def check_teacher(recipe: Recipe, objective: Objective, train: Examples, given: Mapping[str, object]) -> None:
    """Refuse a teacher that cannot say what is asked of it."""
    teacher, validation = given.get("teacher"), given.get("validation")
    if isinstance(teacher, nn.Module):
        known = dict(teacher.named_modules())
        for layer in objective.teacher_layers:
            if layer not in known:
                raise ThresherError(
                    f"The objective reads the teacher's layer {layer!r}: name one of teacher.named_modules()."
                )
        return
    if objective.teacher_layers:
        raise ThresherError("The objective reads layers of the teacher: pass the network itself as teacher= to fit().")
    asked = {"training": train, **({"validation": validation} if "validation" in needs_of(recipe) else {})}
    for name, examples in asked.items():
        assert isinstance(examples, Examples)
        said, shape = examples.columns.get(TEACHER_OUTPUT), (len(examples), train.outputs)
        if said is None:
            raise ThresherError(f"The {name} set lacks its teacher: {HOW_TO_GIVE['teacher']}")
        if tuple(said.shape) != shape:
            raise ThresherError(
                f"The column {TEACHER_OUTPUT} of the {name} set has shape {list(said.shape)}: make it {list(shape)}."
            )
