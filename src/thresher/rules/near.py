"""Greedy steps over a list of the pairs still in reach: the second part of exact facility location, on the host."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from thresher.rules.cover import Cover
from thresher.rules.distances import Points, blocks

Whole = NDArray[Any]
SHORTEN = 4  # the list is shortened whenever there are so many times as many medoids as the last time
AT_ONCE = 2**17  # pairs looked at together


@dataclass
class Pairs:
    """All pairs nearer than the reach of one of the two: of example i those from starts[i] to starts[i + 1]."""

    starts: Whole  # [n + 1]
    other: Whole  # int32
    distance: Whole  # int32

    def shorten(self, reach: Whole) -> None:
        """Drop the pairs that have gone out of reach of both; in place, because the list is the largest thing here."""
        n, sizes, end = len(reach), np.diff(self.starts), 0
        rows = max(1, AT_ONCE * n // max(1, len(self.other)))
        for first in range(0, n, rows):
            some = slice(first, first + rows)
            span = slice(self.starts[first], self.starts[min(first + rows, n)])
            other, distance = self.other[span], self.distance[span]
            kept = distance < np.maximum(reach.take(other), np.repeat(reach[some], sizes[some]))
            sizes[some] = _totals(kept, sizes[some])
            start, end = end, end + int(kept.sum())
            self.other[start:end], self.distance[start:end] = other.compress(kept), distance.compress(kept)
        self.starts, self.other, self.distance = _summed(sizes), self.other[:end], self.distance[:end]


def choose_near(points: Points, cover: Cover, count: int, expected: int) -> None:
    """Choose the medoids that are missing to `count`; a step touches only pairs in reach, about as many as expected."""
    reach, owner = cover.reach.int().cpu().numpy(), cover.owner.cpu().numpy().copy()
    pairs, gains = _listed(points, cover.reach, expected)
    gains[cover.chosen] = -1
    shorten_at = SHORTEN * len(cover.chosen)
    for place in range(len(cover.chosen), count):
        medoid = int(gains.argmax())
        rows, before = _take(pairs, medoid, reach)
        owner[rows] = place
        _lose(pairs, gains, rows, before, reach[rows])
        gains[medoid] = -1
        cover.chosen.append(medoid)
        if place >= shorten_at:
            pairs.shorten(reach)
            shorten_at = SHORTEN * place
    cover.owner = torch.from_numpy(owner).to(cover.owner.device)


def _summed(values: Whole) -> Whole:
    """The sums of the first 0, 1, 2, ... values."""
    sums = np.zeros(len(values) + 1, dtype=np.int64)
    np.cumsum(values, out=sums[1:])
    return sums


def _totals(values: Whole, sizes: Whole) -> Whole:
    """The sums of the first sizes[0] values, of the next sizes[1], ..."""
    return np.diff(_summed(values).take(_summed(sizes)))


def _take(pairs: Pairs, medoid: int, reach: Whole) -> tuple[Whole, Whole]:
    """Lower the reach of the examples that the medoid is nearest to now: these, and their reach before."""
    span = slice(pairs.starts[medoid], pairs.starts[medoid + 1])
    rows, distances = pairs.other[span], pairs.distance[span]
    nearer = distances < reach.take(rows)
    rows = rows.compress(nearer)
    before = reach.take(rows)
    reach[rows] = distances.compress(nearer)
    return rows, before


def _lose(pairs: Pairs, gains: Whole, rows: Whole, before: Whole, after: Whole) -> None:
    """Take from every candidate's gain what it loses as the reach of these rows falls."""
    starts = pairs.starts.take(rows)
    sizes = pairs.starts.take(rows + 1) - starts
    if len(rows) > 1 and sizes.sum() > AT_ONCE:
        for half in (slice(None, len(rows) // 2), slice(len(rows) // 2, None)):
            _lose(pairs, gains, rows[half], before[half], after[half])
        return
    places = np.repeat(starts - sizes.cumsum() + sizes, sizes)
    places += np.arange(len(places))
    low = np.maximum(pairs.distance.take(places), np.repeat(after, sizes))
    lost = np.maximum(np.repeat(before, sizes) - low, 0)
    np.subtract.at(gains, pairs.other.take(places), lost.astype(np.int64))  # its quick way wants the same type


def _listed(points: Points, reach: Tensor, expected: int) -> tuple[Pairs, Whole]:
    """The pairs from blocks of distances, and gain(c) = Σ_i max(0, reach_i - distance(i, c)) [n]."""
    n, end, bound, near = len(points), 0, points.bound(reach), reach.int().cpu().numpy()
    other, distance = (np.empty(expected, dtype=np.int32) for _ in range(2))
    sizes, gains = (np.zeros(n, dtype=np.int64) for _ in range(2))
    for rows in blocks(points):
        found = points.near(rows, torch.maximum(bound[rows, None], bound))
        counts, others, distances = (each.int().cpu().numpy() for each in found)
        start, end = end, end + len(others)
        if end > len(other):
            other, distance = (np.resize(each, end + end // 4) for each in (other, distance))
        other[start:end], distance[start:end] = others, distances
        some = slice(int(rows[0]), int(rows[-1]) + 1)
        sizes[some], gains[some] = counts, _totals(np.maximum(near.take(others) - distances, 0), counts)
    return Pairs(_summed(sizes), other[:end], distance[:end]), gains
