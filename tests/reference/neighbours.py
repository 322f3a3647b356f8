"""Votes of nearest neighbours, one example after the other."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def votes(embeddings: Array, labels: NDArray[np.int64], classes: int, count: int) -> Array:
    """Sort all others by their cosine; those as near as the last of the first `count` vote too."""
    found = np.zeros((len(embeddings), classes))
    units = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
    for i, own in enumerate(units):
        others = [(float(own @ other), int(labels[j])) for j, other in enumerate(units) if j != i]
        others.sort(key=lambda pair: -pair[0])
        for cosine, label in others:
            if cosine >= others[min(count, len(others)) - 1][0]:
                found[i, label] += 1
    return found
