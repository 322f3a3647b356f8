"""A mixture of inliers and a wide component, fitted to squared residuals."""

import math
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

LEAST_SHAPE = 0.5  # of the inliers' Gamma distribution: that of a squared normal number


def share_of_wide(squares: Array, rounds: int = 300) -> Array:
    """The probability that each of the positive numbers [n] comes from the wide component.

    Inliers: Gamma(shape ≥ ½), a scaled χ², as squared norms of normal residuals are. Wide: log-uniform from twice the
    median to the largest number, for wrong targets of any size. Fitted by EM.

    >>> inliers = np.random.default_rng(0).chisquare(3, 900)
    >>> float(share_of_wide(np.concatenate([inliers, np.full(100, 200.0)])).mean().round(2))
    0.13
    """
    squares = np.maximum(squares, 1e-12 * max(float(squares.max()), 1e-200))  # well above what float64 rounds to 0
    logs, start = np.log(squares), 2 * float(np.median(squares))
    width = max(math.log(float(squares.max()) / start), 1e-6)
    wide = np.where(squares >= start, -logs - math.log(width), -np.inf)
    shares = np.where(squares >= 2 * start, 0.9, 0.05)
    for _ in range(rounds):
        before = shares
        shape, scale = _gamma(squares, logs, 1 - shares)
        inner = (shape - 1) * logs - squares / scale - math.lgamma(shape) - shape * math.log(scale)
        part = min(max(float(shares.mean()), 1e-9), 1 - 1e-9)
        odds = math.log(part) + wide - math.log(1 - part) - inner
        shares = 1 / (1 + np.exp(-np.clip(odds, -500, 500)))
        if np.abs(shares - before).max() < 1e-6:
            break
    return shares


def _gamma(values: Array, logs: Array, weights: Array) -> tuple[float, float]:
    """Shape and scale of a Gamma distribution fitted to the weighted values (the first step of Minka's method)."""
    total = max(float(weights.sum()), 1e-12)
    mean = float((weights * values).sum()) / total
    spread = max(math.log(mean) - float((weights * logs).sum()) / total, 1e-9)
    shape = (3 - spread + math.sqrt((spread - 3) ** 2 + 24 * spread)) / (12 * spread)
    shape = max(shape, LEAST_SHAPE)
    return shape, mean / shape
