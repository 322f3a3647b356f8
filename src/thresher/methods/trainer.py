"""The trainer that a procedure is given: everything a training needs but the recipe."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from torch import nn

from thresher.core.errors import ThresherError
from thresher.core.examples import Examples
from thresher.core.recipe import Recipe
from thresher.engine.plan import epochs_for
from thresher.engine.run import Run
from thresher.engine.settings import TrainSettings, changed
from thresher.engine.store.checkpoint import Record
from thresher.engine.train import Moment, train_recipe
from thresher.methods.represent import Started, start_for
from thresher.models import NamedModel
from thresher.record.run_folder import STAGES
from thresher.rules import SampleWeight, product


@dataclass(frozen=True, eq=False)
class Trainer:
    """`train(recipe)` trains by it; a procedure may change any of the rest by name, settings too.

    Earlier stages of a procedure have folders inside the run's: a resumed run does not repeat them.
    """

    model: nn.Module | Callable[[], nn.Module]
    train: Examples
    settings: TrainSettings = field(default_factory=TrainSettings)
    test: Examples | None = None
    clean: Examples | None = None
    validation: Examples | None = None
    teacher: nn.Module | None = None
    until: Callable[[Record], bool] | None = None
    watch: Callable[[Moment], None] | None = None
    out: Path | str | None = None
    about: Mapping[str, Any] = field(default_factory=dict)

    @property
    def epochs(self) -> float:
        """How long training takes in epochs."""
        return epochs_for(self.settings, len(self.train))

    def part(self, share: float) -> dict[str, Any]:
        """This share of the length as settings of a stage: train(recipe, **train.part(0.5))."""
        if self.settings.steps is not None:
            return {"epochs": None, "steps": max(1, round(share * self.settings.steps))}
        return {"epochs": max(1, round(share * self.epochs)), "steps": None}

    def need_clean(self, who: str) -> Examples:
        """The clean set, refused with the name of the procedure where it is missing."""
        if self.clean is None:
            raise ThresherError(f"{who} needs a clean set: pass clean=Examples(...), or --clean on the command line.")
        return self.clean

    def changed(self, **changes: Any) -> "Trainer":
        """The same with other fields, or other settings, by name."""
        own = {each.name for each in fields(self)}
        settings = {name: value for name, value in changes.items() if name not in own}
        made = replace(self, **{name: value for name, value in changes.items() if name in own})
        return replace(made, settings=changed(made.settings, settings)) if settings else made

    def __call__(self, recipe: Recipe, *, stage: str | None = None, **changes: Any) -> Run:
        now = self.changed(**changes)
        out = now.out if stage is None or now.out is None else Path(now.out) / STAGES / stage
        about = dict(now.about)
        if isinstance(now.model, nn.Module) and isinstance(
            self.model, NamedModel
        ):  # which an earlier stage has trained
            about["model"] = self.model.name
        model = now.model
        if now.settings.start is not None and not isinstance(model, nn.Module):
            start = start_for(now.settings.start, model, now.train, now.settings, now.watch)
            about |= {"model": getattr(model, "name", None), "start_seconds": start.seconds}
            model = Started(model, start)
        return train_recipe(
            _counting(recipe, now.train),
            model,
            now.train,
            settings=now.settings,
            test=now.test,
            clean=now.clean,
            validation=now.validation,
            teacher=now.teacher,
            until=now.until,
            watch=now.watch,
            out=out,
            about=about,
        )


def _counting(recipe: Recipe, train: Examples) -> Recipe:
    """The recipe, in which examples also count as their column `sample_weight` says, where they have one."""
    if "sample_weight" not in train.columns:
        return recipe
    both = SampleWeight() if recipe.each_epoch is None else product(SampleWeight(), recipe.each_epoch)
    return replace(recipe, each_epoch=both)
