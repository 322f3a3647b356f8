"""A training with everything settled but the recipe, which is what a procedure is given."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from thresher.core.errors import ThresherError
from thresher.core.examples import Examples
from thresher.core.recipe import Recipe
from thresher.core.slots import View
from thresher.engine.run import Run
from thresher.engine.train import fit
from thresher.slots.average import Growing

BATCH = 128  # the default of fit


@dataclass(frozen=True, eq=False)
class Trainer:
    """`train(recipe)` is fit(recipe, **settings); a procedure may change any of the settings.

    Earlier stages of a procedure have folders of their own inside the run's: they are not repeated when it goes on.
    """

    settings: Mapping[str, Any]  # the arguments of fit: model, train, epochs, clean, out, ...
    views: tuple[View, ...] = ()  # for recipes that bring none of their own
    average: Growing | None = None  # likewise

    @property
    def train(self) -> Examples:
        examples: Examples = self.settings["train"]
        return examples

    @property
    def epochs(self) -> float:
        """How long training takes in epochs."""
        if self.settings.get("epochs") is not None:
            return float(self.settings["epochs"])
        return float(self.settings["steps"] * self.settings.get("batch", BATCH) / len(self.train))

    def part(self, share: float) -> dict[str, Any]:
        """This share of the length as settings of a stage: train(recipe, **train.part(0.5)).

        >>> Trainer({"epochs": 30}).part(0.1), Trainer({"steps": 9}).part(0.5)
        ({'epochs': 3, 'steps': None}, {'epochs': None, 'steps': 4})
        """
        wanted = {name: self.settings.get(name) for name in ("epochs", "steps")}
        return {name: None if length is None else max(1, round(share * length)) for name, length in wanted.items()}

    def clean(self, who: str) -> Examples:
        """The clean set, which the procedure of this name cannot do without."""
        examples: Examples | None = self.settings.get("clean")
        if examples is None:
            raise ThresherError(f"{who} needs a clean set: pass clean=Examples(...), or --clean on the command line.")
        return examples

    def __call__(self, recipe: Recipe, *, stage: str | None = None, **changes: Any) -> Run:
        settings = {**self.settings, **changes}
        if stage is not None and settings.get("out") is not None:
            settings["out"] = Path(settings["out"]) / "stages" / stage
        average = self.average if recipe.average is None else recipe.average
        return fit(replace(recipe, views=recipe.views or self.views, average=average), **settings)
