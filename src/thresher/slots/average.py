"""Rates of moving averages that depend on the step or the length of an epoch."""

from dataclasses import dataclass

import torch
from torch import Tensor

from thresher.core.errors import ThresherError, refuse_other_fields


@dataclass(frozen=True)
class Growing:
    """min(1 - 1/(t + 1), rate) at step t = 0, 1, ...: the mean of all steps so far, until the rate is reached.

    A fixed rate of 0.999 keeps the random start for thousands of steps; this drops it after the first. As in the
    released code of the heteroskedastic active-learning paper.

    >>> [round(1 - Growing(0.999).pace(torch.tensor(float(step))).item(), 6) for step in (0, 1, 3, 5000)]
    [0.0, 0.5, 0.75, 0.999]
    """

    rate: float = 0.999

    def __post_init__(self) -> None:
        refuse_other_fields(self)
        if not 0 <= self.rate < 1:
            raise ThresherError(f"average=Growing({self.rate}) never moves: give a rate from 0 up to, but below, 1.")

    def for_epochs_of(self, steps: float) -> "Growing":  # noqa: ARG002  # the same for epochs of any length
        return self

    def pace(self, moves: Tensor) -> Tensor:
        """1 - rate after this many moves, without host synchronisation."""
        return torch.clamp_min(1 / (moves + 1), 1 - self.rate)


@dataclass(frozen=True)
class over:  # noqa: N801  # used like a function: average=over(1)
    """A growing average over about this many epochs, however many steps an epoch has.

    >>> over(5).rate(steps=200)
    0.999
    """

    epochs: float

    def __post_init__(self) -> None:
        refuse_other_fields(self)
        if not self.epochs > 0:
            raise ThresherError(f"over({self.epochs}) averages nothing: give a number of epochs above 0.")

    def for_epochs_of(self, steps: float) -> Growing:
        """The growing average for epochs of this many steps."""
        return Growing(self.rate(steps))

    def pace(self, moves: Tensor) -> Tensor:  # noqa: ARG002
        raise ThresherError("over() depends on how many steps an epoch has: call for_epochs_of(steps) first.")

    def rate(self, steps: float) -> float:
        """1 - 1 / (epochs · steps) for epochs of this many steps; 0 where epochs · steps is below 1."""
        return max(0.0, 1 - 1 / (self.epochs * steps))
