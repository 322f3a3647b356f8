"""The nearest neighbours of every example in a feature space, block by block, and how they vote."""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[Any]
PAIRS = 2**24  # distances held at once
MOST_DIMENSIONS = 128  # more are projected onto their principal components
ENOUGH = 10_000  # examples are enough to find these components


class Nearest(NamedTuple):
    """The places [n, k] of the nearest neighbours among the known examples, nearest first, and their distances."""

    places: Array
    distances: Array


def feature_space(features: Array) -> Tensor:
    """Features [n, ...] as vectors of deviation 1 in each dimension, on at most 128 principal components.

    >>> feature_space(np.array([[1.0, 5.0], [3.0, 5.0]])).tolist()
    [[-1.0, 0.0], [1.0, 0.0]]
    """
    flat = torch.as_tensor(np.ascontiguousarray(features)).reshape(len(features), -1).float()
    deviation = flat.std(0, correction=0)
    scaled = (flat - flat.mean(0)) / torch.where(deviation > 1e-6 * flat.abs().amax(0), deviation, torch.inf)
    if scaled.shape[1] <= MOST_DIMENSIONS:
        return scaled
    some = scaled[:: max(1, len(scaled) // ENOUGH)]
    _, directions = torch.linalg.eigh(some.T @ some)
    projected: Tensor = scaled @ directions[:, -MOST_DIMENSIONS:]
    return projected


def nearest(space: Tensor, count: int, known: Tensor | None = None) -> Nearest:
    """The `count` nearest of the known vectors [m, d] for each vector [n, d]; without `known`, of all but itself.

    >>> nearest(torch.tensor([[0.0], [1.0], [5.0]]), 1).places.tolist()
    [[1], [0], [1]]
    """
    others = space if known is None else known
    count = min(count, len(others) - (known is None))
    lengths = others.square().sum(1)
    places, distances = [], []
    block = max(1, PAIRS // len(others))
    for start in range(0, len(space), block):
        some = space[start : start + block]
        squares = some.square().sum(1)[:, None] + lengths - 2 * some @ others.T
        if known is None:
            squares[torch.arange(len(some)), start + torch.arange(len(some))] = torch.inf
        found = squares.topk(count, largest=False)
        places.append(found.indices)
        # The expansion loses small distances to rounding, which is where duplicates are found.
        apart = torch.stack([(some - others[column]).square().sum(1) for column in found.indices.T], 1)
        distances.append(apart.sqrt())
    order = torch.cat(distances).argsort(dim=1, stable=True)
    return Nearest(torch.cat(places).gather(1, order).numpy(), torch.cat(distances).gather(1, order).numpy())


def votes(near: Nearest, labels: Array, classes: int) -> Array:
    """The share of each class among the neighbours' labels [n, classes], nearer ones counting more, never zero.

    Neighbour j counts exp(-(dⱼ/d̄)²), where d̄ is the mean distance of the example's neighbours; every class gets one
    vote of its frequency beside them.
    """
    typical = np.maximum(near.distances.mean(1, keepdims=True), 1e-12)
    strength = np.exp(-np.square(near.distances / typical))
    shares = np.bincount(labels, minlength=classes) / len(labels)
    counted = np.zeros((len(near.places), classes))
    np.add.at(counted, (np.arange(len(counted))[:, None], labels[near.places]), strength)
    prior = strength.mean(1, keepdims=True)
    return np.asarray((counted + prior * shares) / (counted.sum(1, keepdims=True) + prior))
