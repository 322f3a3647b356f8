"""Which classes are labelled as which, and what accuracy against such labels says about the true ones."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from thresher.core.errors import ThresherError
from thresher.noise.audit_rate import NINETY, audit_rate
from thresher.noise.estimate import Estimate, wilson

Array = np.ndarray[Any, Any]

SUREST_OF_CLASS = 0.5  # the share of the examples predicted as a class whose labels say how that class is labelled
CLEAR = 10.0  # odds for the noise matrix where wrong labels are half alike
SINGULAR = 1e-3  # the least that a matrix or its rate must leave of a true label


def noise_matrix(probabilities: Array, labels: Array) -> Array:
    """How true classes are labelled [classes, classes]: row i has the shares of true class i that are labelled j.

    Read from the examples that out-of-sample probabilities [n, classes] put most surely into class i, then scaled so
    that all wrong labels together are as many as `audit_rate` says. A class without such examples has no wrong labels.

    >>> labels = np.array([0] * 80 + [1] * 20 + [1] * 100)
    >>> truth = np.repeat([0, 1], 100)
    >>> noise_matrix(np.eye(2)[truth] * 0.9 + 0.05, labels).round(2).tolist()
    [[0.8, 0.2], [0.0, 1.0]]
    """
    probabilities, labels = np.asarray(probabilities, np.float64), np.asarray(labels)
    counts = surest_counts(probabilities, labels)
    seen = counts.sum(1, keepdims=True)
    matrix = np.where(seen > 0, counts / np.maximum(seen, 1), np.eye(len(counts)))
    found = audit_rate(probabilities, labels)
    if found.rate is None:
        return matrix
    return scaled_to(matrix, found.rate, np.bincount(labels, minlength=len(counts)) / max(len(labels), 1))


def surest_counts(probabilities: Array, labels: Array) -> Array:
    """How the examples that are put most surely into class i are labelled [classes, classes]."""
    classes, predicted = probabilities.shape[1], probabilities.argmax(1)
    counts = np.zeros((classes, classes))
    for each in range(classes):
        own = np.flatnonzero(predicted == each)
        if len(own):
            order = own[np.argsort(-probabilities[own, each], kind="stable")]
            least = probabilities[order[round(SUREST_OF_CLASS * (len(own) - 1))], each]
            counts[each] = np.bincount(labels[own[probabilities[own, each] >= least]], minlength=classes)
    return counts


def agreement(counts: Array) -> float:
    """How far wrong labels of one class are alike: 1 where all are the same, 0 where they are spread over all others.

    The chance that two of them are equal, beyond that of labels drawn from all other classes.

    >>> agreement(np.array([[80, 0, 20], [20, 80, 0], [0, 20, 80]]))
    1.0
    """
    wrong = counts * (1 - np.eye(len(counts)))
    of_class, chance = wrong.sum(1), 1 / max(len(counts) - 1, 1)
    pairs = float((of_class * (of_class - 1)).sum())
    if chance == 1:
        return 1.0
    equal = float((wrong * (wrong - 1)).sum()) / pairs if pairs > 0 else chance
    return float(np.clip((equal - chance) / (1 - chance), 0, 1))


def cautious_matrix(probabilities: Array, labels: Array) -> Array:
    """The noise matrix as far as wrong labels are alike; for the rest they are drawn from all other classes.

    A few wrong labels, or errors of weak judges, then name no class that a label is mistaken for.
    """
    probabilities, labels = np.asarray(probabilities, np.float64), np.asarray(labels)
    matrix, alike = noise_matrix(probabilities, labels), agreement(surest_counts(probabilities, labels))
    classes = len(matrix)
    share = CLEAR * alike / (CLEAR * alike + 1 - alike)
    wrong = float(np.bincount(labels, minlength=classes) @ (1 - matrix.diagonal())) / max(len(labels), 1)
    spread = np.where(np.eye(classes, dtype=bool), 1 - wrong, wrong / max(classes - 1, 1))
    mixed: Array = share * matrix + (1 - share) * spread
    return mixed


def scaled_to(matrix: Array, rate: float, given: Array) -> Array:
    """The matrix with its wrong labels scaled so that they are this share of all; `given` [classes] is as labelled.

    >>> scaled_to(np.array([[0.8, 0.2], [0.2, 0.8]]), 0.1, np.array([0.5, 0.5])).round(3).tolist()
    [[0.9, 0.1], [0.1, 0.9]]
    """
    true = np.clip(np.linalg.lstsq(matrix.T, given, rcond=None)[0], 0, None)
    true = true / true.sum() if true.sum() > 0 else given
    wrong = 1 - matrix.diagonal()
    now = float((true * wrong).sum())
    if now <= 0:
        return matrix
    off = matrix * (1 - np.eye(len(matrix)))
    off *= np.minimum(rate / now, 1 / np.maximum(wrong, 1e-12))[:, None]  # no row has more wrong labels than labels
    scaled: Array = off + np.diag(1 - off.sum(1))
    return scaled


@dataclass(frozen=True)
class CorrectedAccuracy:
    """An accuracy against given labels, what it says about the true ones (None: nothing), and an interval for that.

    rate  the share of wrong labels that was assumed; None where it cannot be told
    """

    score: float
    accuracy: float | None
    low: float
    high: float
    rate: float | None


def corrected_accuracy(
    score: float,
    matrix: Array,
    *,
    confusion: Array | None = None,
    count: int | None = None,
    rate: Estimate | None = None,
) -> CorrectedAccuracy:
    """The accuracy against true labels, from that against given labels (`score`) and how they turn wrong (`matrix`).

    confusion  [classes, classes]: how many test examples are predicted as i and labelled j. Then predictions and true
               classes go together as confusion · matrix⁻¹; without it every error is assumed to be as likely
    count      test examples, for the sampling error
    rate       the estimate of the noise rate, whose ends give matrices of their own

    >>> found = corrected_accuracy(0.68, np.array([[0.75, 0.25], [0.25, 0.75]]), count=1000)
    >>> round(found.accuracy, 2), found.low < found.accuracy < found.high
    (0.86, True)
    """
    matrix = np.asarray(matrix, np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ThresherError(f"A noise matrix of shape {matrix.shape} is not square: give [classes, classes].")
    total = count if confusion is None else int(np.sum(confusion))
    given = np.full(len(matrix), 1 / len(matrix)) if confusion is None else np.sum(confusion, 0) / max(total or 0, 1)
    limits = (score, score) if total is None else wilson(score, total, NINETY)
    matrices = [matrix]
    if rate is not None:
        matrices = [scaled_to(matrix, each, given) for each in (rate.assumed, rate.low, rate.high)]
    told = rate is None or rate.rate is not None
    share = float((given * (1 - matrices[0].diagonal())).sum()) if told else None
    found = [_true_accuracy(at, each, confusion) for each in matrices for at in (score, *limits)]
    known = [each for each in found if each is not None]
    if found[0] is None or len(known) < len(found) or not told:
        return CorrectedAccuracy(score, None, min(known, default=0.0), 1.0, share)
    return CorrectedAccuracy(score, found[0], min(known), max(known), share)


def _true_accuracy(score: float, matrix: Array, confusion: Array | None) -> float | None:
    classes = len(matrix)
    right = float(matrix.diagonal().mean())
    by_chance = (1 - right) / max(classes - 1, 1)
    if right - by_chance < SINGULAR:
        return None
    if confusion is None:
        return min(max((score - by_chance) / (right - by_chance), 0.0), 1.0)
    confusion = np.asarray(confusion, np.float64)
    if np.linalg.cond(matrix) > 1 / SINGULAR:
        return None
    confusion = confusion / confusion.sum()
    shift = (score - float(np.trace(confusion))) / (right - by_chance)
    joint = np.linalg.solve(matrix.T, confusion.T).T
    return min(max(float(np.trace(joint)) + shift, 0.0), 1.0)
