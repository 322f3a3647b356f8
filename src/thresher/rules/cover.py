"""Medoids, their clusters, and how well they cover the examples."""

from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from thresher.rules.distances import UNITS, Points


class Coreset(NamedTuple):
    """Medoids and their clusters: `assignment` [n] holds places in `indices`, ties going to the medoid chosen first."""

    indices: Tensor  # [count] in the order of choice
    cluster_sizes: Tensor  # [count]
    assignment: Tensor  # [n]


@dataclass
class Cover:
    """How well the medoids chosen so far cover the examples."""

    reach: Tensor  # [n] whole distance to the nearest medoid: another matters to an example if it is nearer than this
    owner: Tensor  # [n] place of that medoid in `chosen`
    chosen: list[int] = field(default_factory=list)

    @classmethod
    def empty(cls, points: Points) -> "Cover":
        """No medoid yet: everyone's is farther away than any distance."""
        far = torch.full((len(points),), 2 * UNITS, dtype=torch.float64, device=points.rows.device)
        return cls(far, torch.zeros_like(far, dtype=torch.long))

    def add(self, points: Points, medoid: int) -> tuple[Tensor, Tensor]:
        """Take in a medoid: the examples that it is nearest to now, and how far their medoid was before."""
        distances = points.distances(torch.tensor([medoid], device=self.reach.device))[0]
        rows = (distances < self.reach).nonzero()[:, 0]
        before = self.reach[rows]
        self.owner[rows] = len(self.chosen)
        self.reach[rows] = distances[rows]
        self.chosen.append(medoid)
        return rows, before


def gains_of(points: Points, candidates: Tensor, reach: Tensor) -> Tensor:
    """gain(c) = Σ_i max(0, reach_i - distance(i, c)) of the candidates (float64): whole numbers below 2⁵³, so exact."""
    bound, gains = points.bound(reach), []
    for some in torch.split(candidates, points.block):
        sizes, others, distances = points.near(some, bound)
        row = torch.arange(len(some), device=some.device).repeat_interleave(sizes)
        gained = reach.index_select(0, others).sub_(distances).clamp_(min=0)
        gains.append(torch.zeros_like(reach[: len(some)]).index_add_(0, row, gained))
    return torch.cat(gains)


def clusters(chosen: list[int], owner: Tensor) -> Coreset:
    """The medoids with their clusters; a medoid belongs to its own, even if another lies in the same place."""
    indices = torch.tensor(chosen, device=owner.device)
    assignment = owner.scatter(0, indices, torch.arange(len(chosen), device=owner.device))
    return Coreset(indices, assignment.bincount(minlength=len(chosen)), assignment)


def assigned(points: Points, chosen: list[int]) -> Coreset:
    """Everyone with the nearest of the chosen medoids."""
    medoids = torch.tensor(chosen, device=points.rows.device)
    parts = torch.split(points.everyone, max(1, points.block * len(points) // len(chosen)))
    return clusters(chosen, torch.cat([points.distances(rows, medoids).argmin(1) for rows in parts]))
