"""How many labels are wrong, from probabilities out of sample."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from thresher.noise import Estimate, confident_joint
from thresher.noise.folds import SEPARATE
from thresher.noise.noise_rate import separation, wilson

Array = NDArray[Any]
LEAST_LIFT = 0.1  # of the way from the commonest class to certainty: weaker judges cannot tell


def audit_rate(probabilities: Array, labels: Array, votes: Array | None = None, trust: Array | None = None) -> Estimate:
    """The share of wrong labels, with limits; a rate of None says that it cannot be told.

    The confident joint (Northcutt et al. 2021) of the probabilities, and of the neighbours' votes where there are some:
    the limits span what they find. `trust` is not read.
    """
    del trust
    commonest = np.bincount(labels).max() / len(labels)
    agree = float((probabilities.argmax(1) == labels).mean())
    if agree < commonest + LEAST_LIFT * (1 - commonest):
        why = f"the judges foretell {agree:.0%} of the labels, hardly more than the commonest class has"
        return Estimate(None, 0.0, 1.0, why)  # type: ignore[arg-type]
    found = [_off_diagonal(each, labels) for each in (probabilities, votes) if each is not None]
    limits = [wilson(share, len(labels)) for share in found]
    why = "by the labels that judges contradict though they never saw them"
    return Estimate(found[0], min(low for low, _ in limits), max(high for _, high in limits), why)


def noise_matrix(probabilities: Array, labels: Array) -> Array:
    """The share [classes, classes] of true class i that has been labelled j, by the confident joint."""
    joint = _joint(probabilities, labels).T  # true class by given label
    totals = joint.sum(1, keepdims=True)
    return np.where(totals > 0, joint / np.maximum(totals, 1e-12), np.eye(len(joint)))


def residual_rate(residuals: Array) -> Estimate:
    """The share of real targets that are wrong, by residuals [n, d] out of sample that are too large for the rest."""
    return separation(residuals).estimate(SEPARATE)


def _off_diagonal(probabilities: Array, labels: Array) -> float:
    return float(1 - np.trace(_joint(probabilities, labels)))


def _joint(probabilities: Array, labels: Array) -> Array:
    """The share of all examples [label, class], the rows scaled to the frequencies of the labels."""
    counts = confident_joint(torch.as_tensor(probabilities), torch.as_tensor(labels)).double().numpy()
    classes = len(counts)
    counts = np.where(counts.sum(1, keepdims=True) > 0, counts, np.eye(classes))
    frequencies = np.bincount(labels, minlength=classes) / len(labels)
    return np.asarray(counts / counts.sum(1, keepdims=True) * frequencies[:, None])
