"""The rule of decoupling: learn only where two networks disagree."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from thresher.core.evidence import Evidence, Signal
from thresher.core.rule import Rule
from thresher.core.signals import predicted


@dataclass(frozen=True)
class Disagree(Rule):
    """Weight 1 where this network's value of `of` differs from the peer's, 0 elsewhere (Malach & Shalev-Shwartz 2017).

    Where the networks agree about a whole batch all weights are 0, and the step is skipped.
    """

    of: Signal = predicted

    needs: ClassVar[frozenset[str]] = frozenset({"peer"})
    timeless: ClassVar[bool] = True

    @property
    def reads_groups(self) -> bool:
        return True

    def __call__(self, evidence: Evidence) -> Tensor:
        return (evidence.read(self.of) != evidence.other("peer").read(self.of)).float()
