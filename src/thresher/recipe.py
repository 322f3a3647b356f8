"""A recipe: a method as a value."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from torch import nn

from thresher.average import Growing
from thresher.draw import Draw, shuffled
from thresher.errors import ThresherError
from thresher.mix import MixLike
from thresher.objectives import ObjectiveLike
from thresher.relabel import Relabel
from thresher.rules import RuleLike
from thresher.views import View

Clip = float | Callable[[Iterable[nn.Parameter]], object]


@dataclass(frozen=True)
class over:  # noqa: N801  # used like a function: average=over(1)
    """A growing average that looks back on about so many epochs, however many steps an epoch has.

    >>> over(5).rate(steps=200)
    0.999
    """

    epochs: float

    def __post_init__(self) -> None:
        if not self.epochs > 0:
            raise ThresherError(f"over({self.epochs}) looks back on nothing: give a number of epochs above 0.")

    def rate(self, steps: float) -> float:
        """1 - 1 / (epochs · steps), for epochs of so many steps; 0 where that is less than one step."""
        return max(0.0, 1 - 1 / (self.epochs * steps))


@dataclass(frozen=True)
class Recipe:
    """How to train on data that cannot be fully trusted; every slot has plain training as its default.

    each_batch, each_epoch  rules: how much each example counts (batch weight = epoch weight × batch rule's weight)
    relabel    what an example should teach, where the given target is not trusted
    objective  losses [n]: an Objective, or a function (outputs, targets) -> [n]
    views      augmented copies of a batch; signals are read on the first
    mix        train on blends of examples, of the same batch or of the whole set
    draw       in which order, and how often, an epoch visits the examples
    clip       a bound on the norm of the whole gradient, or a function of the parameters that changes their gradients
    peers      how many networks are trained side by side
    average    the rate of a moving average of parameters and buffers: 0.999, `over(1)` epochs, or Growing(0.999)
    divide_by  what Σ wℓ is divided by: "weights" (Σ w) or "batch" (n)
    """

    each_batch: RuleLike | None = None
    each_epoch: RuleLike | None = None
    relabel: Relabel | None = None
    objective: ObjectiveLike | None = None
    views: tuple[View, ...] = ()
    mix: MixLike | None = None
    draw: Draw = shuffled
    clip: Clip | None = None
    peers: int = 1
    average: float | over | Growing | None = None
    divide_by: Literal["weights", "batch"] = "weights"

    def __post_init__(self) -> None:
        if self.peers < 1:
            raise ThresherError(f"peers={self.peers} trains nothing: give at least 1.")
        if isinstance(self.average, (int, float)) and not 0 <= self.average < 1:
            raise ThresherError(f"average={self.average} never moves: give a rate from 0 up to, but below, 1.")
        if isinstance(self.clip, (int, float)) and not self.clip > 0:
            raise ThresherError(f"clip={self.clip} clips everything away: give a number above 0.")
        if self.divide_by not in ("weights", "batch"):
            raise ThresherError(f'divide_by={self.divide_by!r} is unknown: give "weights" or "batch".')

    def relabel_on(self, clock: str) -> Relabel | None:
        """The relabelling, where it is asked on this clock: "batch" or "epoch"."""
        return self.relabel if self.relabel is not None and self.relabel.clock == clock else None
