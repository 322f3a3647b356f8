"""Exact means over the nearest neighbours in the plane, for many queries at once, on the host.

Tiles of queries share their candidates, which is quicker than a tree for millions of queries and keeps ties exact.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[Any]
TILE = 256  # queries answered together, on average
# Shifts and masks that spread the 32 lower bits of a number over its even bits.
SPREAD = (
    (16, 0x0000FFFF0000FFFF), (8, 0x00FF00FF00FF00FF), (4, 0x0F0F0F0F0F0F0F0F), (2, 0x3333333333333333),
    (1, 0x5555555555555555),
)  # fmt: skip


def mean_of_nearest(points: Tensor, values: Tensor, queries: Tensor, count: int) -> Tensor:
    """The mean [n, v] of the values [q, v] at the `count` points [q, 2] nearest to each query [n, 2].

    Ties go to the first points.

    >>> places, worth = torch.tensor([[2.0, 0.0], [0.0, 0.0], [0.0, 0.0]]), torch.tensor([[5.0], [6.0], [7.0]])
    >>> mean_of_nearest(places, worth, torch.zeros(1, 2), 1)
    tensor([[6.]], dtype=torch.float64)
    """
    order, starts = _tiles(queries.cpu().numpy())
    asked = np.ascontiguousarray(queries.cpu().numpy()[order].T)  # [2, n]
    there, worth = np.ascontiguousarray(points.cpu().numpy().T), values.cpu().double().numpy()
    sums = np.empty((len(order), worth.shape[1]))
    for start, end in zip(starts, [*starts[1:], len(order)], strict=True):
        some = asked[:, start:end]
        near = _within_reach(there, some, count)
        sums[start:end] = _nearest(there.take(near, 1), some, count) @ worth.take(near, 0)
    means = np.empty_like(sums)
    means[order] = sums / count
    return torch.from_numpy(means).to(queries.device)


def _tiles(queries: Array) -> tuple[Array, list[int]]:
    """The order of the queries along Morton's space-filling curve, and where its tiles start.

    Queries of a tile lie close together unless the curve jumps, so every tile starts at the farthest jump.
    """
    above = queries - queries.min(0).astype(np.float64)
    cells = (above * ((2**32 - 1) / (above.max() or 1.0))).astype(np.uint64)
    for shift, mask in SPREAD:
        cells = (cells | cells << np.uint64(shift)) & np.uint64(mask)
    keys = cells[:, 0] | cells[:, 1] << np.uint64(1)
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    jumps = keys[1:] ^ keys[:-1]
    rows = jumps[: len(jumps) // TILE * TILE].reshape(-1, TILE)
    return order, [0, *(rows.argmax(1) + np.arange(len(rows)) * TILE + 1).tolist()]


def _within_reach(there: Array, some: Array, count: int) -> Array:
    """The places, in order, of all points [2, q] that can be among the `count` nearest to any of these queries [2, n].

    At least `count` points lie no further from any query than the bound, so points further from the rectangle around
    the queries are left out. Rounding keeps the order of distances, so that it loses no point.
    """
    below, above = some.min(1, keepdims=True) - there, there - some.max(1, keepdims=True)
    farthest = np.square(np.minimum(below, above)).sum(0)
    closest = np.square(np.maximum(np.maximum(below, above), 0)).sum(0)
    return np.flatnonzero(closest <= np.partition(farthest, count - 1)[count - 1])


def _nearest(there: Array, some: Array, count: int) -> Array:
    """Which points [2, q] are among the `count` nearest to each query [2, n], as booleans [n, q]."""
    squares, up = (some[axis][:, None] - there[axis] for axis in (0, 1))
    squares *= squares
    up *= up
    squares += up
    last = np.partition(squares, count - 1, axis=1)[:, count - 1 : count]
    near: Array = squares <= last
    if np.count_nonzero(near) > len(near) * count:  # ties with the last
        tied = squares == last
        room = count - np.count_nonzero(squares < last, axis=1, keepdims=True)
        near &= ~tied | (tied.cumsum(1) <= room)
    return near
