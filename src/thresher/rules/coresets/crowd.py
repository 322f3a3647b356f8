"""How crowded it is around each example."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from thresher.core.chunks import rows_at_once
from thresher.core.errors import ThresherError
from thresher.core.evidence import Evidence, Signal
from thresher.core.rule import Rule
from thresher.core.signals import output_gradient
from thresher.rules.coresets.distances import checked_rows


def neighbours_within(embeddings: Tensor, distance: float) -> Tensor:
    """How many rows of embeddings [n, d] lie nearer than `distance` to each of them [n], itself included.

    >>> neighbours_within(torch.tensor([[0.0], [1.0], [2.0], [9.0]]), 1.5).tolist()
    [2, 3, 2, 1]
    """
    rows = checked_rows(embeddings)
    parts = torch.split(rows, rows_at_once(len(rows), rows))
    return torch.cat([(torch.cdist(part, rows) < distance).sum(1) for part in parts])


@dataclass(frozen=True)
class Crowd(Rule):
    """The number of examples nearer than `distance`, itself included: the weights of the code released with CRUST."""

    distance: float
    by: Signal = output_gradient

    clocks: ClassVar[frozenset[str]] = frozenset({"epoch", "round"})

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.distance > 0:
            raise ThresherError(f"Crowd(distance={self.distance}) has no inside: give a distance above 0.")

    def __call__(self, evidence: Evidence) -> Tensor:
        return neighbours_within(evidence.read(self.by).reshape(len(evidence), -1), self.distance).float()
