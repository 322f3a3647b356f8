"""Medoids, their clusters, and how well they cover the examples."""

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from thresher.rules.coresets.distances import UNITS, Points

AT_ONCE = 64  # candidates whose bounds are tightened at once
MANY = 4  # all bounds are tightened when one step has tightened n / MANY of them
REMEMBERED = 32  # reaches; bounds of earlier ones are made anew


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
    gains = []
    for sizes, others, distances in points.near(candidates, reach):
        row = torch.repeat_interleave(sizes)
        gained = reach.index_select(0, others).sub_(distances).clamp_(min=0)
        gains.append(torch.zeros(len(sizes), dtype=reach.dtype, device=reach.device).index_add_(0, row, gained))
    return torch.cat(gains)


def gains_at_most(points: Points, candidates: Tensor, reach: Tensor) -> Tensor:
    """Upper bounds of the gains of the candidates (float64), close to them, in a fraction of the time."""
    sums, near = [], reach.to(points.rough[1].dtype)
    for _, squares in points.squares_at_least(candidates):
        lengths = squares.clamp_(min=0).sqrt_()
        sums.append(torch.sub(near, lengths, out=lengths).clamp_(min=0).sum(1))
    return _rounded_up(torch.cat(sums), reach)


def all_gains_at_most(points: Points, reach: Tensor) -> Tensor:
    """The same of all examples [n]; each pair is measured once, because a distance counts in both directions."""
    near, gains = reach.to(points.rough[1].dtype), torch.zeros_like(reach)
    room = near.new_empty(points.block * len(points))
    for first, squares in points.pairs_at_least():
        last, lengths = first + len(squares), squares.clamp_(min=0).sqrt_()
        gained = room[: lengths.numel()].view_as(lengths)
        gains[first:last] += torch.sub(near[first:], lengths, out=gained).clamp_(min=0).sum(1)
        torch.sub(near[first:last, None], lengths, out=gained).clamp_(min=0)
        gains[last:] += gained[:, len(squares) :].sum(0)
    return _rounded_up(gains, reach)


def _rounded_up(sums: Tensor, reach: Tensor) -> Tensor:
    """The sums of single precision, and what they may lack."""
    # Single precision rounds the reach, the length and their difference, and then the sum; whole numbers round by 1/2.
    rounding = len(reach) * (1 + 2.0**-22 * reach.max())
    return sums.double().mul_(1 + 2.0**-18).add_(rounding)


def losses_at_least(points: Points, candidates: Tensor, before: Tensor, now: Tensor) -> Tensor:
    """Lower bounds of how much lower the gains of the candidates are with the reach `now` than with the one before.

    Only examples whose reach fell count, each by max(0, before - d) - max(0, now - d) = before - clamp(d, now, before).
    """
    fell = (now < before).nonzero()[:, 0]
    if len(fell) == 0:
        return torch.zeros_like(candidates, dtype=now.dtype)
    before, now = before[fell], now[fell]
    near, least, most = (each.to(points.rough[1].dtype) for each in (before, now.square(), before.square()))
    sums = []
    for _, squares in points.squares_at_least(candidates, fell):
        lengths = torch.clamp(squares, least, most, out=squares).sqrt_()
        sums.append(torch.sub(near, lengths, out=lengths).sum(1))
    # A square that is too small by e makes a length too small by √e at most, and by e / length. The rest is as above.
    short = (points.rough_error / now.clamp(min=1)).clamp_(max=math.sqrt(points.rough_error))
    rounding = len(fell) * (2 + 2.0**-21 * before.max())
    return torch.cat(sums).double().mul_(1 - 2.0**-18).sub_(short.sum() + rounding).clamp_(min=0)


@dataclass
class GainBounds:
    """Upper bounds of the gains of candidates, each for the present reach or for an earlier one."""

    points: Points
    candidates: Tensor  # [m] positions
    reach: Tensor  # [n]
    highest: Tensor  # [m] float64; candidates below 0 are excluded
    age: Tensor  # [m] how many reaches ago the bound was made: above len(before) it is not remembered for which one
    before: list[Tensor] = field(default_factory=list)  # the reaches of which less than half has fallen, last one first

    @classmethod
    def of(cls, points: Points, candidates: Tensor, reach: Tensor) -> "GainBounds":
        return cls(points, candidates, reach, gains_at_most(points, candidates, reach), torch.zeros_like(candidates))

    @classmethod
    def of_all(cls, points: Points, reach: Tensor) -> "GainBounds":
        positions = points.positions
        return cls(points, positions, reach, all_gains_at_most(points, reach), torch.zeros_like(positions))

    def add(self, medoid: int, reach: Tensor) -> None:
        """Exclude this medoid, whose addition has made the reach fall."""
        self.before = [
            each for each in (self.reach, *self.before) if 2 * int((reach < each).sum()) < len(reach)
        ][:REMEMBERED]  # fmt: skip
        self.age = (self.age + 1).clamp_(max=len(self.before) + 1)
        self.reach = reach
        self.highest[medoid] = -1

    def tighten(self, some: Tensor, age: int) -> None:
        """Bound the gains of these candidates, whose bounds have this age, for the present reach."""
        candidates = self.candidates[some]
        if age <= len(self.before):
            losses = losses_at_least(self.points, candidates, self.before[age - 1], self.reach)
            self.highest[some] = (self.highest[some] - losses).clamp_(min=0)
        else:
            self.highest[some] = gains_at_most(self.points, candidates, self.reach)
        self.age[some] = 0

    def tighten_all(self) -> None:
        """The same of all."""
        self.highest = all_gains_at_most(self.points, self.reach).where(self.highest >= 0, -1)
        self.age.zero_()


def largest_gain(bounds: GainBounds) -> int:
    """The place of the first candidate with the largest gain, from bounds that are tightened until that is sure."""
    exact, tightened = torch.zeros_like(bounds.age, dtype=torch.bool), 0
    while not exact[top := int(bounds.highest.argmax())]:
        age = int(bounds.age[top])
        alike = (bounds.age == age) & ~exact
        highest = bounds.highest.where(alike, -1).topk(min(AT_ONCE if age else AT_ONCE // 8, len(alike)))
        some = highest.indices[highest.values >= 0]
        if age == 0:
            bounds.highest[some] = gains_of(bounds.points, bounds.candidates[some], bounds.reach)
            exact[some] = True
        elif MANY * tightened < len(exact):
            bounds.tighten(some, age)
            tightened += len(some)
        else:
            bounds.tighten_all()
            exact.zero_()
            tightened = 0
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
