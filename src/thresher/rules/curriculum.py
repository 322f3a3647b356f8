"""MentorNet's predefined curriculum."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from thresher.core.errors import ThresherError
from thresher.core.evidence import Evidence, Signal
from thresher.core.rule import Decision, Rule
from thresher.core.schedules import Schedule
from thresher.core.signals import loss


@dataclass(frozen=True)
class Curriculum(Rule):
    """1 where the signal is below λ₁, falling in a straight line to 0 at λ₁ + λ₂ (Jiang et al. 2018, Eq. 5).

    λ₁ is a moving average, over batches, of the signal's `fraction` quantile; λ₂ is `width`, and 0 cuts sharply. The
    rate of the average is that of the released training commands.
    """

    fraction: float | Schedule
    width: float | Schedule = 0.0
    rate: float = 0.5
    by: Signal = loss

    clocks: ClassVar[frozenset[str]] = frozenset({"batch"})
    timeless: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        narrow = not isinstance(self.width, Schedule) and not self.width >= 0
        if narrow or not 0 <= self.rate < 1:
            raise ThresherError("Curriculum needs a width of at least 0 and a rate from 0 up to, but below, 1.")

    def __call__(self, evidence: Evidence) -> Decision:
        values = evidence.read(self.by)
        level = moving_level(evidence, values, self.fraction, self.rate)
        width = _scalar(evidence.value(self.width), values.device)
        # A slope of width zero is a cut: values above the level get weight zero.
        weights = (1 - (values - level) / width.clamp_min(torch.finfo(values.dtype).tiny)).clamp(0, 1)
        return Decision(weights, memory={"level": level})


def moving_level(evidence: Evidence, values: Tensor, fraction: float | Schedule, rate: float) -> Tensor:
    """The moving average [] of the quantile of values [n], from its last value in the evidence's memory."""
    level = quantile(values, evidence.value(fraction))
    return rate * evidence.memory["level"] + (1 - rate) * level if "level" in evidence.memory else level


def quantile(values: Tensor, fraction: float | Tensor) -> Tensor:
    """The value [] that this share of `values` [n] does not exceed; without host synchronisation.

    >>> quantile(torch.tensor([4.0, 1.0, 3.0, 2.0]), 0.5).item()
    2.0
    """
    share = _scalar(fraction, values.device)
    place = (torch.ceil(share * len(values)) - 1).clamp(0, len(values) - 1).long()
    return values.sort().values.index_select(0, place.reshape(1))[0]


def _scalar(number: float | Tensor, device: torch.device) -> Tensor:
    """The number on the device, by an addition there: a copy from the host would wait, and could not be captured."""
    return torch.zeros((), dtype=torch.float64, device=device) + number
