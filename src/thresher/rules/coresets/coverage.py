"""Medoids, their clusters, and how well they cover the examples."""

from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from thresher.rules.coresets.distances import UNITS, Points

AT_ONCE = 128  # candidates whose bounds are tightened at once


class Coreset(NamedTuple):
    """Medoids and their clusters: `assignment` [n] holds places in `indices`; ties go to the medoid chosen first."""

    indices: Tensor  # [count] in the order of choice
    cluster_sizes: Tensor  # [count]
    assignment: Tensor  # [n]


@dataclass
class Cover:
    """How well the medoids chosen so far cover the examples."""

    reach: Tensor  # [n] whole distance to the nearest medoid; only nearer candidates gain anything
    owner: Tensor  # [n] place of that medoid in `chosen`
    chosen: list[int] = field(default_factory=list)

    @classmethod
    def empty(cls, points: Points) -> "Cover":
        """No medoid yet: every reach is larger than any distance."""
        far = torch.full((len(points),), 2.0 * UNITS, dtype=torch.float64, device=points.rows.device)
        return cls(far, torch.zeros_like(far, dtype=torch.long))

    def add(self, points: Points, medoid: int) -> None:
        """Add a medoid, and assign it the examples to which it is nearer than their medoid so far."""
        distances = points.distances(torch.tensor([medoid], device=self.reach.device))[0]
        self.owner[distances < self.reach] = len(self.chosen)
        self.reach = torch.minimum(self.reach, distances)
        self.chosen.append(medoid)


def gains_of(points: Points, candidates: Tensor, reach: Tensor) -> Tensor:
    """gain(c) = Σ_i max(0, reach_i - distance(i, c)) of the candidates (float64): whole numbers below 2⁵³, so exact."""
    parts = torch.split(candidates, points.block)
    return torch.cat([(reach - points.distances(some)).clamp_(min=0).sum(1) for some in parts])


def gains_at_most(points: Points, candidates: Tensor, reach: Tensor) -> Tensor:
    """Upper bounds of the gains of the candidates (float64), close to them, in a fraction of the time."""
    sums, near = [], reach.to(points.rough[1].dtype)
    for _, squares in points.squares_at_least(candidates):
        lengths = squares.clamp_(min=0).sqrt_()
        sums.append(torch.sub(near, lengths, out=lengths).clamp_(min=0).sum(1))
    # Single precision rounds the reach, the length and their difference, and then the sum; whole numbers round by 1/2.
    rounding = len(points) * (1 + 2.0**-22 * reach.max())
    return torch.cat(sums).double().mul_(1 + 2.0**-18).add_(rounding)


def largest_gain(points: Points, candidates: Tensor, reach: Tensor, bounds: Tensor, stale: Tensor) -> int:
    """The place of the first candidate with the largest gain, from bounds that are tightened until that is sure.

    Where `stale`, the bounds [m] are of an earlier reach; bounds below 0 exclude a candidate. Both are updated.
    """
    exact = torch.zeros_like(stale)
    while not exact[top := int(bounds.argmax())]:
        alike = stale if stale[top] else ~(stale | exact)
        size, tighten = (AT_ONCE, gains_at_most) if stale[top] else (AT_ONCE // 16, gains_of)
        highest = bounds.where(alike, -1).topk(min(size, len(bounds)))
        some = highest.indices[highest.values >= 0]
        exact[some] = ~stale[some]
        stale[some] = False
        bounds[some] = tighten(points, candidates[some], reach)
    return top


def clusters(chosen: list[int], owner: Tensor) -> Coreset:
    """The medoids with their clusters; a medoid belongs to its own one, even if another lies in the same place."""
    indices = torch.tensor(chosen, device=owner.device)
    assignment = owner.scatter(0, indices, torch.arange(len(chosen), device=owner.device))
    return Coreset(indices, assignment.bincount(minlength=len(chosen)), assignment)


def assigned(points: Points, chosen: list[int]) -> Coreset:
    """Every example with the nearest of the chosen medoids."""
    medoids = torch.tensor(chosen, device=points.rows.device)
    parts = torch.split(points.positions, max(1, points.block * len(points) // len(chosen)))
    return clusters(chosen, torch.cat([points.distances(rows, medoids).argmin(1) for rows in parts]))
