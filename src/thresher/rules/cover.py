"""Medoids, their clusters, and how well they cover the examples."""

from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from thresher.rules.distances import UNITS, Points, squared_distances


class Coreset(NamedTuple):
    """Medoids and their clusters: `assignment` [n] holds places in `indices`, ties going to the medoid chosen first."""

    indices: Tensor  # [count] in the order of choice
    cluster_sizes: Tensor  # [count]
    assignment: Tensor  # [n]


@dataclass
class Cover:
    """How well the medoids chosen so far cover the examples."""

    squares: Tensor  # [n] squared distance to the nearest medoid
    reach: Tensor  # [n] the same in whole numbers: a medoid matters to an example if it is nearer than this
    owner: Tensor  # [n] place of that medoid in `chosen`
    chosen: list[int] = field(default_factory=list)

    @classmethod
    def empty(cls, points: Points) -> "Cover":
        """No medoid yet: everyone's is farther away than any distance."""
        far = torch.full((len(points),), 2 * UNITS, dtype=torch.float64, device=points.columns.device)
        return cls(torch.full_like(far, torch.inf), far, torch.zeros_like(far, dtype=torch.long))

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


def clusters(chosen: list[int], owner: Tensor) -> Coreset:
    """The medoids with their clusters; a medoid belongs to its own, even if another lies in the same place."""
    indices = torch.tensor(chosen, device=owner.device)
    assignment = owner.scatter(0, indices, torch.arange(len(chosen), device=owner.device))
    return Coreset(indices, assignment.bincount(minlength=len(chosen)), assignment)


def assigned(points: Points, chosen: list[int]) -> Coreset:
    """Everyone with the nearest of the chosen medoids."""
    medoids = points.columns[:, chosen]
    step = max(1, points.block * len(points) // len(chosen))
    owner = [
        points.whole(squared_distances(points.columns[:, rows], medoids)).argmin(1)
        for rows in torch.arange(len(points), device=points.columns.device).split(step)
    ]
    return clusters(chosen, torch.cat(owner))
