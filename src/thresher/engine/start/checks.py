"""Refusals at the start: what is missing or does not fit is said before any training."""

import math
from collections.abc import Mapping

from torch import nn

from thresher.core.errors import ThresherError
from thresher.core.evidence import HOW_TO_GIVE, Prepared
from thresher.core.examples import Examples
from thresher.core.objective import Objective
from thresher.core.recipe import Recipe
from thresher.core.rule import (
    Rule,
    RuleLike,
    asked_about,
    columns_of,
    decided_of,
    gives_of,
    in_epoch,
    needs_of,
    parts,
    signals_of,
)
from thresher.core.slots import MixFromSet
from thresher.core.tasks import LABELS, POSITIONS, REAL
from thresher.engine.step.teacher import TEACHER_OUTPUT

DERIVATIVES = (Prepared.GRADIENT_NORM, Prepared.CLEAN_AGREEMENT)


def check_recipe(recipe: Recipe, objective: Objective, train: Examples, given: Mapping[str, object]) -> None:
    """Refuse a recipe that asks for what this task or this call does not have."""
    task = _check_signals(recipe, train)
    if task not in objective.tasks:
        raise ThresherError(
            f"{type(objective).__name__} is defined for {objective.tasks[0]} only: choose another objective."
        )
    _check_given(recipe, train, given)
    _check_clocks(recipe)
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
    _check_sets(train, given)
    _check_teacher(recipe, objective, train, given)


def check_run(recipe: Recipe, epochs: float) -> None:
    """Refuse what a run of so many epochs would fail at later."""
    for part in parts(recipe):
        if isinstance(part, Rule):
            part.refuse(epochs)
    asked = asked_about("average", recipe.each_batch)
    missing = [each for each in signals_of(asked) if each.prepared not in (None, Prepared.LAST_INPUTS)]
    swept = (recipe.each_epoch, recipe.relabel_on("epoch"))
    if "average" in needs_of(swept):
        missing += [each for each in signals_of(swept) if each.prepared is Prepared.GRADIENT_NORM]
    for signal in missing:
        raise ThresherError(
            f"{signal.name} is not taken from the average while training: rank by loss or output_gradient_norm there."
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


def _check_teacher(recipe: Recipe, objective: Objective, train: Examples, given: Mapping[str, object]) -> None:
    """Refuse a teacher that cannot say what is asked of it."""
    if objective.layers or objective.needs or objective.columns:
        for signal in signals_of(recipe):
            if signal.prepared in DERIVATIVES:
                raise ThresherError(
                    f"{signal.name} is taken through outputs alone, and {type(objective).__name__} reads more: choose "
                    "another objective, or a rule that ranks by loss or output_gradient_norm."
                )
    if "teacher" not in needs_of(recipe):
        return
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


def check_round(rule: RuleLike, pool: Examples, given: Mapping[str, object]) -> None:
    """Refuse a rule that cannot be asked about a pool, or reads what this call does not have."""
    _check_signals(rule, pool)
    _check_given(rule, pool, given)
    for part in parts(rule):
        if isinstance(part, Rule) and "round" not in part.allowed_clocks():
            raise ThresherError(f"{type(part).__name__} cannot choose from a pool: use a rule that looks at it once.")


def _check_signals(value: Recipe | RuleLike, examples: Examples) -> str:
    """The task, for which every signal has to be defined."""
    task = examples.task
    for signal in signals_of(value):
        if task not in signal.tasks:
            raise ThresherError(
                f"The signal {signal.name} is defined for {signal.tasks[0]} only: choose another for {task}."
            )
    return task


def _check_given(value: Recipe | RuleLike, examples: Examples, given: Mapping[str, object]) -> None:
    """Refuse rules that read what is missing."""
    for need in sorted(needs_of(value)):
        if given.get(need) is None:
            raise ThresherError(f"A rule of this recipe reads {need!r}, which is missing: {HOW_TO_GIVE[need]}")
    for column in sorted(columns_of(value)):
        if column not in examples.columns:
            raise ThresherError(
                f"A rule of this recipe reads the column {column!r}: add it by {examples.name}.with_columns(...)."
            )


def _check_sets(train: Examples, given: Mapping[str, object]) -> None:
    """Refuse sets whose targets are of another kind than the training set's."""
    for name in ("test", "clean", "validation"):
        other = given.get(name)
        if not isinstance(other, Examples):
            continue
        wide = other.outputs > train.outputs or (other.targets.ndim == 2 and other.outputs < train.outputs)
        if other.task != train.task or (wide and train.task != POSITIONS):
            raise ThresherError(
                f"The {name} set asks for {other.outputs} {_asked(other)} and the training set for {train.outputs} "
                f"{_asked(train)}: make them equal."
            )


def _asked(examples: Examples) -> str:
    return {REAL: "targets", LABELS: "labels", POSITIONS: "classes at positions"}.get(examples.task, "classes")


def _check_clocks(recipe: Recipe) -> None:
    for clock, rule in (("batch", recipe.each_batch), ("epoch", recipe.each_epoch)):
        for part in parts(rule):
            if isinstance(part, Rule) and clock not in part.allowed_clocks():
                other = "each_epoch" if clock == "batch" else "each_batch"
                raise ThresherError(f"{type(part).__name__} cannot be asked every {clock}: put it into {other}.")
    for signal in signals_of(recipe.each_epoch):
        if "clean" in signal.needs:
            raise ThresherError(f"{signal.name} is taken from each batch: put the rule that reads it into each_batch.")
