"""The noise rate of real targets, from residuals of predictions that were made without them."""

from typing import Any

import numpy as np

from thresher.core.errors import ThresherError
from thresher.noise.estimate import Estimate, cannot_tell, wilson
from thresher.noise.mixture import share_of_wide

Array = np.ndarray[Any, Any]

FEWEST = 50  # residuals
ENOUGH = 20_000  # residuals are enough to estimate their distribution


def residual_rate(residuals: Array) -> Estimate:
    """The share of wrong real targets, from out-of-sample residuals [n, d]."""
    residuals = np.asarray(residuals, np.float64)
    if residuals.ndim != 2:
        raise ThresherError(f"Residuals of shape {residuals.shape} are not understood: give [n, targets].")
    if not np.isfinite(residuals).all():
        raise ThresherError("Some residuals are not finite: judge the examples again.")
    if len(residuals) < FEWEST:
        return cannot_tell(f"{len(residuals)} examples are too few")
    residuals = residuals[:: max(1, len(residuals) // ENOUGH)]
    middle, scale = shortest_half(residuals)
    squares = (((residuals - middle) / np.where(scale > 0, scale, 1.0)) ** 2).mean(1)
    wide = share_of_wide(squares)
    share = float(wide.mean())
    low, high = wilson(share, len(squares))
    return Estimate(share, low, high, f"{share:.0%} of the residuals are too large for the rest")


def shortest_half(values: Array) -> tuple[Array, Array]:
    """The middle [d] and the deviation [d] of the shortest half of each column, which half of wrong values cannot move.

    >>> values = np.concatenate([np.random.default_rng(0).normal(size=600), np.full(400, 9.0)])[:, None]
    >>> [round(float(each[0]), 1) for each in shortest_half(values)]
    [0.0, 2.0]
    """
    ordered, half = np.sort(values, axis=0), len(values) // 2
    widths = ordered[half:] - ordered[: len(values) - half]
    start = widths.argmin(0)
    columns = np.arange(values.shape[1])
    low, high = ordered[start, columns], ordered[start + half, columns]
    return (low + high) / 2, (high - low) / (2 * 0.6745)
