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


@dataclass
class Pairs:
    """All pairs nearer than the reach of one of the two: of example i those from starts[i] to starts[i + 1]."""

    starts: Whole  # [n + 1]
    other: Whole  # int32
    distance: Whole  # int32

    def shorten(self, reach: Whole) -> None:
        """Drop the pairs that have gone out of reach of both."""
        kept = self.distance < np.maximum(reach.take(self.other), np.repeat(reach, np.diff(self.starts)))
        self.starts = _summed(kept).take(self.starts)
        self.other, self.distance = self.other.compress(kept), self.distance.compress(kept)


def choose_near(points: Points, cover: Cover, count: int) -> None:
    """Choose the medoids that are missing to `count`; a step touches only pairs in reach."""
    pairs = _pairs(points, cover.reach)
    reach, owner = cover.reach.int().cpu().numpy(), cover.owner.cpu().numpy().copy()
    gains = _gains(pairs, reach)
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


def _gains(pairs: Pairs, reach: Whole) -> Whole:
    """gain(c) = Σ_i max(0, reach_i - distance(i, c)) [n]."""
    return np.diff(_summed(np.maximum(reach.take(pairs.other) - pairs.distance, 0)).take(pairs.starts))


def _summed(values: Whole) -> Whole:
    """The sums of the first 0, 1, 2, ... values."""
    sums = np.zeros(len(values) + 1, dtype=np.int64)
    np.cumsum(values, out=sums[1:])
    return sums


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
    places = np.repeat(starts - sizes.cumsum() + sizes, sizes)
    places += np.arange(len(places))
    low = np.maximum(pairs.distance.take(places), np.repeat(after, sizes))
    lost = np.maximum(np.repeat(before, sizes) - low, 0)
    np.subtract.at(gains, pairs.other.take(places), lost.astype(np.int64))  # its quick way wants the same type


def _pairs(points: Points, reach: Tensor) -> Pairs:
    """The pairs from blocks of distances."""
    parts: list[tuple[Whole, ...]] = []
    for rows in blocks(points):
        sizes, others, distances = points.near(rows, torch.maximum(reach[rows, None], reach))
        parts.append(tuple(each.cpu().numpy() for each in (sizes, others.int(), distances.int())))
    joined = [np.concatenate(each) for each in zip(*parts, strict=True)]
    return Pairs(_summed(joined[0]), joined[1], joined[2])
