"""Greedy k-centre: examples that lie farthest from the labelled ones and from each other."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from thresher.core.evidence import Evidence, Signal
from thresher.core.rounds import Rounds, counted
from thresher.core.rule import Decision, Rule, check_count, checked_count
from thresher.core.signals import features
from thresher.rules.coresets.outer_products import Nearest, Products
from thresher.rules.coresets.picks import picked

AT_ONCE = 64  # labelled examples added as centres together


def k_centre(features: Tensor, count: int, labelled: Tensor | None = None, *, order: Tensor | None = None) -> Tensor:
    """`count` positions of features [n, d], each the farthest from the nearest of those before and of labelled [m, d].

    Greedy k-centre (Sener and Savarese 2018): the largest distance to the nearest is at most twice the least possible.
    Without labelled rows the first is the longest. Nothing of size n × m is made. Ties go to the lower position, or to
    the first in `order`.

    >>> k_centre(torch.tensor([[0.0], [1.0], [5.0], [9.0]]), 2, labelled=torch.tensor([[8.0]])).tolist()
    [0, 2]
    """
    products = Products.table(features)
    turns = torch.arange(len(products), device=features.device) if order is None else order
    checked_count(count, len(products))
    nearest, chosen = Nearest.empty(products), list[int]()
    if labelled is None:
        chosen.append(int(turns[products.squares[turns].argmax()]))
        nearest.add(products.at(turns.new_tensor(chosen)))
    else:
        for rows in torch.split(labelled.to(features), AT_ONCE):
            nearest.add(Products.table(rows))
    while len(chosen) < count:
        nearest.squares[chosen] = -1.0  # below all squared distances, so that none is chosen twice
        chosen.append(int(turns[nearest.squares[turns].argmax()]))
        nearest.add(products.at(turns.new_tensor(chosen[-1:])))
    return torch.tensor(chosen, device=features.device)


@dataclass(frozen=True)
class KCentre(Rule):
    """Weight 1 for `count` examples that lie farthest from the labelled ones and from each other, 0 for the rest.

    On a pool this is the coreset of Sener and Savarese (2018), by greedy steps.
    """

    by: Signal = features
    count: int = 100

    clocks: ClassVar[frozenset[str]] = frozenset({"round"})
    needs: ClassVar[frozenset[str]] = frozenset({"labelled"})

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count(self.count)

    def rounds(self, evidence: Evidence, parts: int) -> Rounds:
        return counted(self, self.count, len(evidence), parts)

    def __call__(self, evidence: Evidence) -> Decision:
        own, labelled = (each.read(self.by).reshape(len(each), -1) for each in (evidence, evidence.other("labelled")))
        order, count = evidence.ids.argsort(), min(self.count, len(evidence))
        return picked(k_centre(own, count, labelled, order=order), evidence)
