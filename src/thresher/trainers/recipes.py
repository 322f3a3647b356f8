"""The recipe of a method for a trainer that is not ours, which fills fewer slots than `fit` does."""

import warnings
from dataclasses import replace
from typing import Any

from thresher.core.errors import ThresherError
from thresher.core.evidence import Prepared
from thresher.core.objective import Objective
from thresher.core.recipe import Recipe, shuffled
from thresher.core.rule import Rule, signals_of
from thresher.methods import Method, method

LEFT_OUT: dict[str, Any] = {"views": (), "mix": None, "draw": shuffled}  # each with what it is in plain training


def recipe_for(what: Any, noise_rate: float | None, classes: int | None, epochs: float, objective: Any) -> Recipe:
    """What a weigher does: a method by name for these facts, a recipe, or a rule; refused if `fit` has to do it."""
    if isinstance(what, str):
        what = method(what)
    if isinstance(what, Method):
        if "noise_rate" in what.needs and noise_rate is None:
            raise ThresherError(f"{what.name} assumes a share of wrong targets: pass noise_rate=, such as 0.2.")
        what = what.recipe(noise_rate=noise_rate, classes=classes, epochs=epochs)
    elif isinstance(what, Rule):
        what = Recipe(each_batch=what) if "batch" in what.allowed_clocks() else Recipe(each_epoch=what)
    elif not isinstance(what, Recipe):
        what = Recipe(each_batch=what)
    recipe: Recipe = what if objective is None else replace(what, objective=objective)
    _refuse(recipe)
    left_out = [name for name, plain in LEFT_OUT.items() if getattr(recipe, name) != plain]
    if left_out:
        warnings.warn(f"{', '.join(left_out)} of the method is left out: that is for the trainer to do.", stacklevel=3)
    return replace(recipe, **{name: LEFT_OUT[name] for name in left_out})


def _refuse(recipe: Recipe) -> None:
    own = recipe.objective
    if recipe.relabel is not None:
        raise ThresherError("This method replaces targets, which only fit() can do: train by fit(), or choose another.")
    if recipe.clip is not None:
        raise ThresherError("This method clips gradients, which the trainer does: set its bound there, and clip=None.")
    if isinstance(own, Objective) and (
        own.layers or own.needs or own.columns or next(own.parameters(), None) is not None
    ):
        raise ThresherError(f"{type(own).__name__} reads or learns more than outputs and targets: train by fit().")
    if any(signal.prepared is Prepared.GRADIENT_NORM for signal in signals_of(recipe.each_epoch)):
        raise ThresherError(
            "gradient_norm is not taken of a whole set here: ask that rule as each_batch, or use fit()."
        )
