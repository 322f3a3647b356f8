"""Weighted distillation: learn from a teacher that is sometimes wrong (Iliopoulos et al. 2022)."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from torch import nn

from thresher.core.errors import refuse_unless
from thresher.core.examples import Examples
from thresher.core.recipe import Recipe
from thresher.engine.run import Run
from thresher.methods.teaching import TeacherLike, teach
from thresher.methods.weightings import weighting
from thresher.objectives import Distillation
from thresher.rules import RuleLike, product


def distil(
    student: nn.Module | Callable[[], nn.Module],
    labelled: Examples,
    unlabelled: Examples,
    validation: Examples | None = None,
    *,
    teacher: TeacherLike,
    weights: RuleLike | str | None = "debias",
    recipe: Recipe | None = None,
    hard: bool = False,
    temperature: float = 1.0,
    **settings: Any,
) -> Run:
    """Algorithm 1 in one call: teacher, its labels, a pretrained student, weights and the student's training.

    weights  a rule for the epoch clock, or one of WEIGHTINGS, estimated once, by margin; None or "unweighted": none
    recipe   how the student is trained otherwise, such as method("prl-l").recipe(noise_rate=0.3)

    Everything else is as for `teach`, whose Lessons train students by several recipes from one start.
    """
    refuse_unless("recipe", recipe, isinstance(recipe, Recipe | None), 'method("prl-l").recipe(noise_rate=0.2)')
    rule = weighting(weights, hard=hard, temperature=temperature) if isinstance(weights, str) else weights
    full = student_recipe(rule, recipe or Recipe(), temperature)
    lessons = teach(student, labelled, unlabelled, validation, teacher=teacher, recipes=(full,), **settings)
    return lessons.learn(full, hard=hard)


def student_recipe(weights: RuleLike | None, recipe: Recipe, temperature: float = 1.0) -> Recipe:
    """The recipe with these weights besides its own, and the loss at this temperature unless it has another.

    Algorithm 1 divides by the number of examples, not by the sum of weights: batches of low weight take small steps.
    """
    rules = [rule for rule in (recipe.each_epoch, weights) if rule is not None]
    return replace(
        recipe,
        each_epoch=product(*rules) if len(rules) > 1 else rules[0] if rules else None,
        objective=Distillation(temperature) if recipe.objective is None else recipe.objective,
        divide_by="batch" if weights is not None and recipe.each_batch is None else recipe.divide_by,
    )
