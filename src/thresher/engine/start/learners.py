"""The learners of a training: what a trial of the model finds, and a learner for each network."""

from collections.abc import Mapping, Sequence

from torch import nn

from thresher.core.examples import Examples
from thresher.core.recipe import Recipe
from thresher.core.rule import needs_of
from thresher.engine.plan import Plan
from thresher.engine.several.ranks import Ranks
from thresher.engine.start.checks import (
    Tried,
    check_recipe,
    check_run,
    first_of,
    try_model,
    try_sets,
)
from thresher.engine.start.together import check_several, check_sharded, share_learner
from thresher.engine.step.learner import Learner
from thresher.engine.step.teacher import TEACHER_OUTPUT
from thresher.objectives import as_objective


def tried_out(
    recipe: Recipe,
    models: Sequence[nn.Module],
    sets: Mapping[str, Examples],
    plan: Plan,
    teacher: nn.Module | None,
    ranks: Ranks | None,
) -> Tried:
    """What a trial of the model found, once everything was checked that can be before anything is trained."""
    train = sets["train"]
    objective = as_objective(recipe.objective, train.task)
    said = train.columns.get(TEACHER_OUTPUT) if teacher is None else teacher
    given = {**sets, "peer": recipe.peers > 1 or None, "average": recipe.average, "teacher": said}
    given["view"] = len(recipe.views) > 1 or None
    check_recipe(recipe, objective, train, given)
    check_run(recipe, plan.epochs)
    if ranks is not None:
        check_several(ranks, recipe, objective, models, plan.batch)
    clean = sets.get("clean") if "clean" in needs_of(recipe) else None
    objective = objective.to(train.targets.device)
    tried = try_model(recipe, models[0], objective, train, plan.seed, clean, plan.clean_batch, plan.batch)
    try_sets(models[0], sets, plan.seed)
    if ranks is not None and ranks.sharded:
        check_sharded(tried)
    return tried


def learners_for(
    recipe: Recipe, models: Sequence[nn.Module], train: Examples, plan: Plan, tried: Tried, ranks: Ranks | None
) -> list[Learner]:
    """A learner for each model, with an objective of its own, whose layers are watched."""
    average, made = recipe.average, []
    rate = (
        average
        if average is None or isinstance(average, int | float)
        else average.for_epochs_of(len(train) / plan.batch)
    )
    for model in models:
        objective = as_objective(recipe.objective, train.task).to(train.targets.device)
        made.append(Learner(model, objective, plan.make_optimizer, rate, ranks))
        made[-1].watch_layers(objective.layers, tried.head)
        if tried.adapter is not None:
            made[-1].adapt(tried.adapter)
        if ranks is not None:
            share_learner(ranks, made[-1], first_of(train, 2).inputs, plan.batch, reduced=tried.in_step is None)
    return made
