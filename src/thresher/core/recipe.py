"""A recipe: a method as a value."""

from dataclasses import dataclass
from typing import Literal

from thresher.core.errors import ThresherError
from thresher.core.objective import ObjectiveLike
from thresher.core.rule import RuleLike
from thresher.core.slots import Averaging, Clip, Draw, MixLike, Relabel, View, shuffled


@dataclass(frozen=True)
class Recipe:
    """How to train on data that cannot be fully trusted; the default of every slot is plain training.

    each_batch, each_epoch  rules: how much each example counts (batch weight = epoch weight × batch rule's weight)
    relabel    what an example should teach, where the given target is not trusted
    objective  losses [n]: an Objective, or a function (outputs, targets) -> [n]
    views      augmented copies of a batch; signals are read on the first
    mix        train on blends of examples, of the same batch or of the whole set
    draw       the order in which, and how often, an epoch visits the examples
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
    average: float | Averaging | None = None
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
        """The relabelling, if it is asked on this clock: "batch" or "epoch"."""
        return self.relabel if self.relabel is not None and self.relabel.clock == clock else None
