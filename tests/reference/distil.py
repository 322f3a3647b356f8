"""Weighted distillation, slowly: Algorithm 2 of the paper line by line, with Python numbers and sorted lists."""

from collections.abc import Sequence
from math import ceil, exp, inf, log, sqrt

import numpy as np

Pair = tuple[float, float]


def squared_distance(first: Pair, second: Pair) -> float:
    """In float32, so that what is equally near in the fast version is equally near here."""
    across, up = (np.float32(a) - np.float32(b) for a, b in zip(first, second, strict=True))
    return float(np.float32(across * across) + np.float32(up * up))


def estimate_weights(
    validation: Sequence[Pair], wrong: Sequence[bool], distortions: Sequence[float], queries: Sequence[Pair]
) -> list[float]:
    """ESTIMATEWEIGHTS: U from the validation examples, then the k nearest of U for each query."""
    k = ceil(sqrt(len(validation)) / 2)
    known = [
        (pair, (1.0, distortion) if is_wrong else (0.0, 1.0))
        for pair, is_wrong, distortion in zip(validation, wrong, distortions, strict=True)
    ]
    weights = []
    for query in queries:
        order = sorted(range(len(known)), key=lambda place, q=query: (squared_distance(known[place][0], q), place))
        answers = [known[place][1] for place in order[:k]]
        p = sum(answer[0] for answer in answers) / k
        d = sum(answer[1] for answer in answers) / k
        below = 1.0 if p == 0 else 1 + p * (d - 1)
        weights.append(0.0 if below == inf else 1.0 if below == 0 else min(1.0, 1 / below))
    return weights


def fidelity(entropies: Sequence[float]) -> list[float]:
    """exp(-entropy / mean entropy) of each."""
    mean = sum(entropies) / len(entropies)
    return [1.0 if mean == 0 else exp(-each / mean) for each in entropies]


def softened(chances: Sequence[float], temperature: float) -> list[float]:
    """p^(1/T), made to sum 1."""
    powers = [chance ** (1 / temperature) for chance in chances]
    return [power / sum(powers) for power in powers]


def distillation(outputs: Sequence[float], taught: Sequence[float], temperature: float) -> float:
    """T² Σ_c taught_c^(1/T) · -log softmax(outputs / T)_c, of one example."""
    scaled = [exp(output / temperature) for output in outputs]
    chances = [each / sum(scaled) for each in scaled]
    labels = softened(taught, temperature)
    return -(temperature**2) * sum(q * log(p) for q, p in zip(labels, chances, strict=True) if q > 0)


def variational(means: Sequence[float], theirs: Sequence[float], variances: Sequence[float]) -> float:
    """The mean over the teacher's numbers of log σ + (t - μ)² / (2 σ²), of one example."""
    surprises = [
        log(sqrt(variance)) + (t - mean) ** 2 / (2 * variance)
        for mean, t, variance in zip(means, theirs, variances, strict=True)
    ]
    return sum(surprises) / len(surprises)
