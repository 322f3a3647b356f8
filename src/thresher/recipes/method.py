"""What the registry knows of a method."""

from collections.abc import Callable
from dataclasses import dataclass

from thresher.errors import ThresherError
from thresher.recipe import Recipe


@dataclass(frozen=True)
class Setting:
    """What a method may depend on: the share of corrupt targets it should assume, the classes, the epochs."""

    noise_rate: float | None
    classes: int | None
    epochs: float

    def keep(self) -> float:
        """The share to keep: 1 - noise_rate."""
        if self.noise_rate is None:
            raise ThresherError(
                "This method needs to know how much is corrupt: give --noise-rate (noise_rate=), such as 0.4."
            )
        if not 0 <= self.noise_rate < 1:
            raise ThresherError(f"noise_rate={self.noise_rate} is no share of the data: give a number from 0 up to 1.")
        return 1 - self.noise_rate


@dataclass(frozen=True)
class Method:
    """A named recipe: `method.recipe(noise_rate=0.4, classes=10, epochs=60)`."""

    name: str
    make: Callable[[Setting], Recipe]
    summary: str
    paper: str
    kind: str = "recipe"
    clock: str = "batch"
    needs: tuple[str, ...] = ()

    def recipe(self, *, noise_rate: float | None = None, classes: int | None = None, epochs: float = 1) -> Recipe:
        return self.make(Setting(noise_rate, classes, epochs))
