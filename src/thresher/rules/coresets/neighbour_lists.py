"""Greedy steps over lists of the examples near each candidate: the second part of exact facility location."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from thresher.rules.coresets.coverage import Cover
from thresher.rules.coresets.distances import Points

Whole = NDArray[Any]
POOL = 512  # candidates considered together
PAIRS = 2**14  # pairs of candidates and examples considered for several medoids at once
LONGEST = 1024  # pairs of a list that is cached


class NeighbourLists(NamedTuple):
    """The examples that are nearer to each candidate than to their medoid, and their distances, concatenated."""

    sizes: Whole  # [m]
    example: Whole  # int32
    distance: Whole  # int32

    def some(self, places: Whole) -> "NeighbourLists":
        """The lists of the candidates in these places."""
        sizes = self.sizes[places]
        pairs = np.repeat(_summed(self.sizes)[places] - _summed(sizes)[:-1], sizes) + np.arange(sizes.sum())
        return NeighbourLists(sizes, self.example.take(pairs), self.distance.take(pairs))

    def by_candidate(self, candidates: Sequence[int]) -> dict[int, Whole]:
        """The list of each candidate, as a view [2, size]: examples, distances; ends with the shorter of both."""
        pairs, ends = np.stack(self[1:]), _summed(self.sizes).tolist()
        places = zip(candidates, ends, ends[1:], strict=False)
        return {candidate: pairs[:, first:last] for candidate, first, last in places}

    def within(self, reach: Whole) -> "NeighbourLists":
        """The lists without the pairs that are out of reach."""
        kept = self.distance < reach.take(self.example)
        return NeighbourLists(_totals(kept, self.sizes), self.example.compress(kept), self.distance.compress(kept))


@dataclass
class ListCache:
    """A cache of the candidates' lists; long ones are computed each time, because they soon shrink."""

    points: Points
    lists: dict[int, Whole] = field(default_factory=dict)  # [2, size] int32: the examples, the distances

    def of(self, candidates: Whole, reach: Whole) -> NeighbourLists:
        """The lists of the candidates; some of their pairs may be out of reach by now."""
        asked, known = candidates.tolist(), self.lists
        new = self._made([candidate for candidate in asked if candidate not in known], reach)
        found = [known[candidate] if candidate in known else new[candidate] for candidate in asked]
        self.keep(new)
        return NeighbourLists(np.array([pairs.shape[1] for pairs in found]), *np.concatenate(found, axis=1))

    def keep(self, lists: Mapping[int, Whole]) -> None:
        self.lists.update({candidate: pairs for candidate, pairs in lists.items() if pairs.shape[1] <= LONGEST})

    def _made(self, candidates: list[int], reach: Whole) -> dict[int, Whole]:
        made: dict[int, Whole] = {}
        if candidates:
            device = self.points.columns.device
            rows, near = torch.tensor(candidates, device=device), torch.from_numpy(reach).double().to(device)
            for sizes, example, distance in self.points.near(rows, near):
                here = NeighbourLists(*(each.cpu().numpy() for each in (sizes, example.int(), distance.int())))
                made |= here.by_candidate(candidates[len(made) :])
        return made


def choose_near(points: Points, cover: Cover, bounds: Tensor, count: int) -> None:
    """Choose medoids up to `count`, given upper bounds of the gains [n] (below 0 for medoids).

    Gains only ever fall, so an old gain is a bound. The candidates with the highest bounds form a pool; their gains are
    computed again, and those above all bounds outside become medoids, several at once where they share no examples.
    """
    reach, owner = cover.reach.int().cpu().numpy(), cover.owner.cpu().numpy().copy()
    highest, known = bounds.ceil().long().cpu().numpy(), ListCache(points)
    while len(cover.chosen) < count:
        size = min(POOL, len(highest))
        floor = max(0, np.partition(highest, -size)[-size])
        pool = np.flatnonzero(highest >= floor)
        while len(pool) and len(cover.chosen) < count:
            lists = known.of(pool, reach)
            gained = np.maximum(reach.take(lists.example) - lists.distance, 0)
            highest[pool] = gains = _totals(gained, lists.sizes)
            if 2 * np.count_nonzero(gained) < len(gained):
                lists = lists.within(reach)
                known.keep(lists.by_candidate(pool.tolist()))
            order = np.argsort(-gains, kind="stable")[: np.count_nonzero(gains >= floor)]
            order = order[: 1 + np.searchsorted(lists.sizes[order].cumsum(), PAIRS)]
            lists = lists.some(order).within(reach)
            taken = _in_a_row(lists, gains[order], reach)[: count - len(cover.chosen)]
            medoids, lists = pool[order[taken]], lists.some(taken)
            reach[lists.example] = lists.distance
            owner[lists.example] = np.repeat(len(cover.chosen) + np.arange(len(taken)), lists.sizes)
            cover.chosen += medoids.tolist()
            highest[medoids] = -1
            for medoid in medoids.tolist():
                known.lists.pop(medoid, None)
            pool = pool[highest[pool] >= floor]
    cover.owner = torch.from_numpy(owner).to(cover.owner.device)


def _in_a_row(lists: NeighbourLists, gains: Whole, reach: Whole) -> Whole:
    """The places of the candidates, in order of falling gains, that greedy would choose one after the other.

    A candidate that shares no example with an earlier one keeps its gain. One that does loses some of it; the row ends
    where what it has left may be more than the gain of the next one.
    """
    candidate, place = np.repeat(np.arange(len(gains)), lists.sizes), np.arange(len(lists.example))
    first = np.full(len(reach), len(place))
    np.minimum.at(first, lists.example, place)
    first = first[lists.example]
    shared = np.flatnonzero(first < place)
    disturbed = np.zeros(len(gains), dtype=bool)
    disturbed[candidate[shared]] = True
    left = np.where(disturbed, gains, -1)
    shared = shared[~disturbed[candidate[first[shared]]]]
    after = np.maximum(lists.distance[shared], lists.distance[first[shared]])
    np.subtract.at(left, candidate[shared], reach[lists.example[shared]] - after)
    row = np.flatnonzero(~disturbed)
    return row[np.logical_and.accumulate(gains[row] > np.maximum.accumulate(left)[row])]


def _summed(values: Whole) -> Whole:
    """The sums of the first 0, 1, 2, ... values."""
    sums = np.zeros(len(values) + 1, dtype=np.int64)
    np.cumsum(values, out=sums[1:])
    return sums


def _totals(values: Whole, sizes: Whole) -> Whole:
    """The sums of the first sizes[0] values, of the next sizes[1], ..."""
    return np.diff(_summed(values)[_summed(sizes)])
