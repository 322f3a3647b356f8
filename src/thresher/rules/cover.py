"""Medoids, their clusters, and how well they cover the examples."""

from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from thresher.rules.distances import Points


class Coreset(NamedTuple):
    """Medoids and their clusters: `assignment` [n] holds places in `indices`, ties going to the medoid chosen first."""

    indices: Tensor  # [count] in the order of choice
    cluster_sizes: Tensor  # [count]
    assignment: Tensor  # [n]


def coreset(chosen: list[int], owner: Tensor) -> Coreset:
    """The medoids with their clusters; a medoid belongs to its own, even if another lies in the same place."""
    indices = torch.tensor(chosen, device=owner.device)
    assignment = owner.scatter(0, indices, torch.arange(len(chosen), device=owner.device))
    return Coreset(indices, assignment.bincount(minlength=len(chosen)), assignment)


@dataclass
class Cover:
    """How well the medoids chosen so far cover the examples."""

    squares: Tensor  # [n] squared distance to the nearest medoid
    reach: Tensor  # [n] the same in whole numbers: a medoid matters to an example if it is nearer than this
    owner: Tensor  # [n] place of that medoid in `chosen`
    chosen: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, points: Points, first: int) -> "Cover":
        squares = points.squared(torch.tensor([first]))[0]
        return cls(squares, points.whole(squares.clone()), torch.zeros_like(squares, dtype=torch.long), [first])

    def add(self, points: Points, medoid: int) -> tuple[Tensor, Tensor]:
        """Take in a medoid: the examples that it is nearest to now, and how far their medoid was before."""
        squares = points.squared(torch.tensor([medoid]))[0]
        distances = points.whole(squares.clone())
        rows = (distances < self.reach).nonzero()[:, 0]
        before = self.reach[rows]
        self.owner[rows] = len(self.chosen)
        self.reach[rows] = distances[rows]
        self.squares = torch.minimum(self.squares, squares)
        self.chosen.append(medoid)
        return rows, before
