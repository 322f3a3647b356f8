"""A method of the registry, the facts it may depend on, and the trainer that it is given to train with."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar

from torch import nn

from thresher.core.errors import ThresherError
from thresher.core.examples import Examples
from thresher.core.recipe import Recipe
from thresher.core.schedules import Schedule
from thresher.core.tasks import TASKS
from thresher.engine.plan import epochs_for
from thresher.engine.run import Run
from thresher.engine.settings import TrainSettings, changed
from thresher.engine.store.checkpoint import Record
from thresher.engine.store.model_json import read_about
from thresher.engine.train import Moment, train_recipe
from thresher.methods.represent import Started, start_for
from thresher.models import NamedModel
from thresher.noise.noise_rate import estimated
from thresher.record.run_folder import CHECKPOINT, MODEL, STAGES
from thresher.rules import SampleWeight, product

BOTH, CLASSES = ("classification", "regression"), ("classification",)


@dataclass(frozen=True, eq=False)
class Trainer:
    """`train(recipe)` trains by it: everything a training needs but the recipe.

    A procedure may change any of it by name, settings too.
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
    """The recipe, with weights multiplied by the column `sample_weight` where the examples have one."""
    if "sample_weight" not in train.columns:
        return recipe
    both = SampleWeight() if recipe.each_epoch is None else product(SampleWeight(), recipe.each_epoch)
    return replace(recipe, each_epoch=both)


@dataclass(frozen=True)
class MethodFacts:
    """What a recipe may depend on: the share of corrupt targets to assume, the classes, the epochs.

    A noise rate of "auto" (or None) is estimated by the run itself, from its warm-up.
    """

    noise_rate: float | str | None
    classes: int | None
    epochs: float

    @property
    def rate_is_given(self) -> bool:
        """Whether the noise rate is told, so that the run need not estimate it."""
        return self.noise_rate not in ("auto", None)

    def keep(self) -> float | Schedule:
        """The share to keep: 1 - noise_rate, or one that the run will estimate.

        >>> MethodFacts(0.25, None, 1).keep(), MethodFacts("auto", None, 1).keep()(0, 60)
        (0.75, 1.0)
        """
        if not self.rate_is_given:
            return estimated()
        if self.noise_rate == "folds":
            raise ThresherError(
                "The rate by folds takes trainings of its own: call thresher.noise.noise_rate_by_folds(train, model), "
                "and give its .rate as noise_rate=."
            )
        if isinstance(self.noise_rate, str) or self.noise_rate is None or not 0 <= self.noise_rate < 1:
            raise ThresherError(
                f"noise_rate={self.noise_rate!r} is not a share of the data: give a number from 0 up to 1, or 'auto'."
            )
        return 1 - self.noise_rate


@dataclass(frozen=True)
class Method:
    """A named method of one of four kinds: a recipe, a procedure, an acquisition or a weighting.

    make   a function (MethodFacts) -> Recipe, for `method.recipe(noise_rate=0.4, classes=10, epochs=60)`
    needs  what it cannot do without: "noise_rate", "clean", "model factory", "column is_corrupt", "average", ...
    """

    name: str
    make: Callable[..., Any] | None
    summary: str
    paper: str
    clock: str = "batch"
    needs: tuple[str, ...] = ()
    tasks: tuple[str, ...] = TASKS
    procedure: Callable[[Trainer], Run] | None = None

    instead: ClassVar[str] = ""  # what a method that trains nothing does, and how to use it; {} is its name

    @property
    def kind(self) -> str:
        return "recipe" if self.procedure is None else "procedure"

    def recipe(
        self, *, noise_rate: float | str | None = "auto", classes: int | None = None, epochs: float = 1
    ) -> Recipe:
        if self.kind == "procedure":
            raise ThresherError(
                f"{self.name} is several trainings and so has no recipe: call method({self.name!r}).train(...)."
            )
        self._refuse_to_train()
        assert self.make is not None
        recipe: Recipe = self.make(MethodFacts(noise_rate, classes, epochs))
        return recipe

    def train(self, trainer: Trainer, noise_rate: float | str | None = "auto") -> Run:
        """Train by the procedure, or by the recipe for this noise rate; classes and epochs are the trainer's."""
        self._refuse_to_train()
        task = trainer.train.task
        if task not in self.tasks:
            raise ThresherError(f"{self.name} is defined for {self.tasks[0]} only: choose another method.")
        if self.procedure is not None:
            self._refuse_other_epochs(trainer)
            return self.procedure(trainer.changed(about=self._about(trainer, noise_rate, trainer.epochs)))
        planned = self._planned_epochs(trainer)
        known = trainer.changed(about=self._about(trainer, noise_rate, planned))
        return known(self.recipe(noise_rate=noise_rate, classes=known.train.classes, epochs=planned))

    def _about(self, trainer: Trainer, noise_rate: float | str | None, epochs: float) -> dict[str, Any]:
        return {**trainer.about, "method": self.name, "noise_rate": noise_rate, "epochs": epochs}

    def _planned_epochs(self, trainer: Trainer) -> float:
        """The epochs that the recipe is made for: the run's, or those of the shorter run in its folder.

        So a method that plans over all its epochs can go on to more: it stays as its last planned epoch was.
        """
        epochs, folder = trainer.epochs, None if trainer.out is None else Path(trainer.out)
        if folder is None or not all((folder / part).exists() for part in (CHECKPOINT, MODEL)):
            return epochs
        begun = read_about(folder)
        theirs = begun.get("epochs") if begun.get("method") == self.name else None
        return min(theirs, epochs) if isinstance(theirs, int | float) and theirs > 0 else epochs

    def _refuse_other_epochs(self, trainer: Trainer) -> None:
        """Refuse a folder of several trainings that shared other epochs, before any of them becomes longer."""
        folder = None if trainer.out is None else Path(trainer.out)
        if folder is None or not (folder / STAGES).is_dir():
            return
        for each in (folder, *sorted((folder / STAGES).iterdir())):
            begun = read_about(each) if (each / MODEL).exists() else {}
            theirs = begun.get("epochs") if begun.get("method") == self.name else None
            if theirs is not None and theirs != trainer.epochs:
                raise ThresherError(
                    f"{folder} has {theirs:g} epochs, which the trainings of {self.name} share: to train for "
                    f"{trainer.epochs:g}, choose another folder."
                )

    def _refuse_to_train(self) -> None:
        if self.instead:
            raise ThresherError(f"{self.name} {self.instead.format(repr(self.name))}")
