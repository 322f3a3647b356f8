"""Several judges' probabilities as one, weighted by how well each foretells labels that it did not see."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
FAINT = 0.1  # what judges count that foretell nothing
LEAST = 1e-4  # a judge is never surer than this
DYNAMICS = 0.15  # the share of training dynamics in trust
MARGIN = 0.5  # and that of the margin
MARGIN_IN_COUNTS = 2 / 3  # where doubted labels are counted: errors of people, which judges share, look less wrong


class Combined(NamedTuple):
    """Probabilities [n, classes] of all judges together, and how far each of them counts."""

    probabilities: Array
    strengths: dict[str, float]


def combined(judged: Mapping[str, Array], labels: Array) -> Combined:
    """softmax(Σⱼ sⱼ log pⱼ) with the strengths s ≥ 0 that make the given labels likeliest.

    The probabilities are out of sample, so that a judge cannot win by memorising; labels that are wrong at random cost
    all judges alike. Strengths below 1 in sum make over-confident judges milder.

    >>> right, guess = np.array([[0.9, 0.1], [0.1, 0.9]] * 50), np.full((100, 2), 0.5)
    >>> sorted(combined({"right": right, "guess": guess}, np.array([0, 1] * 50)).strengths)
    ['guess', 'right']
    """
    from scipy.optimize import minimize

    logs = np.stack([log_of(each) for each in judged.values()])  # [judges, n, classes]
    given = np.eye(logs.shape[2])[labels]

    def loss(strengths: Array) -> tuple[float, Array]:
        together = _softmax(np.tensordot(strengths, logs, 1))
        slope = np.tensordot(logs, together - given, 2) / len(labels)
        return float(-np.log(np.maximum(given_of(together, labels), 1e-12)).mean()), slope

    start = np.full(len(logs), 1 / len(logs))
    found = minimize(loss, start, jac=True, bounds=[(0.0, 3.0)] * len(logs)).x
    if not found.any():  # no judge foretells the labels: an order of suspicion is left, and no confidence
        found = FAINT * start
    named = dict(zip(judged, found.round(3).tolist(), strict=True))
    return Combined(_softmax(np.tensordot(found, logs, 1)), named)


def trust_of(
    probabilities: Array, labels: Array, matrix: Array, dynamics: Array | None = None, by_margin: float = MARGIN
) -> Array:
    """From 0 to 1: the mean of the probability that the given label is right, and of its margin over the others.

    The probability: p(given) T(given|given) / Σ_c p(c) T(given|c), where T is the noise matrix [true, given]; a class
    that is never mistaken for the given one casts no doubt on it. The margin, which has the share `by_margin`:
    (1 + p(given) - max p(another)) / 2. With `dynamics` [n], a training's belief in the given labels, 15% of trust are
    their rank.

    >>> trust_of(np.array([[0.7, 0.3], [0.2, 0.8]]), np.array([0, 0]), np.full((2, 2), 0.5)).round(2)
    array([0.7, 0.2])
    """
    others = probabilities.copy()
    others[np.arange(len(labels)), labels] = -np.inf
    given = given_of(probabilities, labels)
    margin = (1 + given - others.max(1)) / 2
    mistaken = np.einsum("nc,cn->n", probabilities, matrix[:, labels])
    right = given * matrix.diagonal()[labels] / np.maximum(mistaken, 1e-12)
    trust = by_margin * margin + (1 - by_margin) * right
    if dynamics is None:
        return np.asarray(trust)
    # Beliefs take the places that trust has, so that both are of one scale.
    same_scale = np.sort(trust)[np.argsort(np.argsort(dynamics, kind="stable"), kind="stable")]
    return np.asarray((1 - DYNAMICS) * trust + DYNAMICS * same_scale)


def likelier(probabilities: Array, labels: Array, suggested: Array, matrix: Array) -> Array:
    """How likely the suggested label [n] is the true one, if either it or the given one is.

    q(s) T(g|s) / (q(s) T(g|s) + q(g) T(g|g)) with the noise matrix T [true, given], and the probabilities q = p T⁻¹,
    no less than 0, of true labels, where p [n, classes] foretells given ones. Above a half a change is likelier right
    than wrong. Without wrong labels, T = 1, none is.

    >>> unsure, sure = [0.3, 0.7], [0.15, 0.85]
    >>> matrix = np.array([[0.9, 0.1], [0.1, 0.9]])
    >>> likelier(np.array([unsure, sure]), np.array([0, 0]), np.array([1, 1]), matrix).round(2)
    array([0.25, 0.63])
    """
    true = np.clip(probabilities @ np.linalg.pinv(matrix), 0, None)
    change = given_of(true, suggested) * matrix[suggested, labels]
    stay = given_of(true, labels) * matrix.diagonal()[labels]
    both = change + stay
    return np.asarray(np.divide(change, both, out=np.zeros(len(labels)), where=both > 0))


def given_of(values: Array, labels: Array) -> Array:
    """The value of the given label [n]."""
    return np.asarray(values[np.arange(len(labels)), labels])


def log_of(probabilities: Array) -> Array:
    """Logarithms of probabilities, none of which is 0."""
    known = np.maximum(probabilities, LEAST)
    return np.asarray(np.log(known / known.sum(1, keepdims=True)))


def _softmax(values: Array) -> Array:
    powers = np.exp(values - values.max(1, keepdims=True))
    return np.asarray(powers / powers.sum(1, keepdims=True))
