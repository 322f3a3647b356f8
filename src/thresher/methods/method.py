"""An entry of the registry: a method, and the facts it may depend on."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from thresher.core.errors import ThresherError
from thresher.core.recipe import Recipe
from thresher.core.schedules import Schedule
from thresher.core.tasks import TASKS
from thresher.engine.run import Run
from thresher.methods.trainer import Trainer
from thresher.noise.noise_rate import estimated

BOTH, CLASSES = ("classification", "regression"), ("classification",)


@dataclass(frozen=True)
class MethodFacts:
    """What a recipe may depend on: the share of corrupt targets to assume, the classes, the epochs.

    A noise rate of "auto" (or None) is estimated by the run itself, from its warm-up.
    """

    noise_rate: float | str | None
    classes: int | None
    epochs: float

    def keep(self) -> float | Schedule:
        """The share to keep: 1 - noise_rate, or one that the run will estimate.

        >>> MethodFacts(0.25, None, 1).keep(), MethodFacts("auto", None, 1).keep()(0, 60)
        (0.75, 1.0)
        """
        if self.noise_rate in ("auto", None):
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
        known = trainer.changed(
            about={**trainer.about, "method": self.name, "noise_rate": noise_rate, "epochs": trainer.epochs}
        )
        if self.procedure is not None:
            return self.procedure(known)
        return known(self.recipe(noise_rate=noise_rate, classes=known.train.classes, epochs=known.epochs))

    def _refuse_to_train(self) -> None:
        if self.instead:
            raise ThresherError(f"{self.name} {self.instead.format(repr(self.name))}")
