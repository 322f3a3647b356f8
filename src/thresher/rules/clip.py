"""Rules that bound how much one example can count."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from thresher.core.errors import ThresherError
from thresher.core.evidence import Evidence, Signal
from thresher.core.rule import Rule
from thresher.core.schedules import Schedule
from thresher.core.signals import gradient_norm


@dataclass(frozen=True)
class ClipNorm(Rule):
    """min(1, bound / normᵢ): no example's gradient is longer than `bound`.

    With divide_by="batch" this is individual gradient clipping (the baseline Ignormclip of the PRL paper).
    """

    bound: float | Schedule
    by: Signal = gradient_norm

    timeless: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.bound, Schedule) and not self.bound > 0:
            raise ThresherError(f"bound={self.bound} clips everything away: give a number above 0.")

    @property
    def reads_groups(self) -> bool:
        return True

    def __call__(self, evidence: Evidence) -> Tensor:
        norms = evidence.read(self.by)
        bound = evidence.value(self.bound)
        return torch.clamp_max(bound / norms.clamp_min(torch.finfo(norms.dtype).tiny), 1.0)
