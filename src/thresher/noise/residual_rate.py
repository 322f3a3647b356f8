"""The noise rate of real targets, from residuals: a wide group of them beside the rest."""

from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

from thresher.core.errors import ThresherError
from thresher.noise.estimate import Estimate, cannot_tell, wilson
from thresher.noise.mixture import share_of_wide

Array = np.ndarray[Any, Any]

# Chosen on digits-sized tables, generated targets and face key-points, so that clean sets lie below.
CLEAN = 0.02  # the share of wrong targets that heavy tails of a clean set have
LEAN = 0.02  # added, because assuming a little too much costs less than too little (PRL, Table 3)
SEPARATE = 12.0  # how many times as large the squared residuals of wrong targets are, at least
WIDEST = 0.4  # the widest interval that still says something
FLAT = 2.4  # the kurtosis below which residuals form two groups of one size
TWO_PEAKS = 5 / 9  # (skewness² + 1) / kurtosis above which they are of two sizes: that of residuals spread evenly
MOST_HIDDEN = 0.8  # of the wrong targets
FEWEST = 50  # residuals
ENOUGH = 20_000  # residuals are enough to estimate their distribution
OUTSIDE, INSIDE = 3.0, 2.5  # deviations at which a residual lies outside, and up to which it counts as an inlier


@dataclass(frozen=True)
class Separation:
    """How residuals separate: the share of large ones, its limits, and how many times as large their squares are.

    `flat`: two groups of them may lie side by side, each half of what passes for one wide group.
    """

    share: float
    low: float
    high: float
    times: float
    flat: bool

    def estimate(self, separate: float = SEPARATE, lean: float = 0.0) -> Estimate:
        """The rate to assume, with `lean` added; 0 where the residuals may be those of a clean set."""
        why = f"{self.share:.0%} of the residuals are too large for the rest (squared, by {self.times:.0f} times)"
        clean = self.share < CLEAN or self.times < separate
        if self.high - self.low > WIDEST or (clean and self.flat):
            return cannot_tell(f"{why}, and there is no gap between the two", self.low, self.high)
        if clean:
            return Estimate(0.0, 0.0, self.high, f"{why}, which the heavy tails of a clean set may be")
        return Estimate(min(max(self.share + lean, self.low), self.high), self.low, self.high, why)


def residual_rate(residuals: Array) -> Estimate:
    """The share of wrong real targets, from out-of-sample residuals [n, targets]; wrong ones may lie on one side.

    >>> draws = np.random.default_rng(0)
    >>> residuals = draws.normal(size=1000) + np.where(np.arange(1000) < 400, draws.uniform(8, 20, 1000), 0)
    >>> found = residual_rate((residuals - residuals.mean())[:, None])
    >>> found.low < 0.4 < found.high
    True
    """
    residuals = np.asarray(residuals, np.float64)
    if residuals.ndim != 2:
        raise ThresherError(f"Residuals of shape {residuals.shape} are not understood: give [n, targets].")
    if not np.isfinite(residuals).all():
        raise ThresherError("Some residuals are not finite: judge the examples again.")
    if len(residuals) < FEWEST:
        return cannot_tell(f"{len(residuals)} examples are too few")
    scale = inliers(residuals)[1]
    if bool((scale == 0).any()) and bool(np.any(residuals)):
        return cannot_tell("half of the residuals are equal, so the size of the others says nothing")
    return separation(residuals).estimate()


def separation(residuals: Array) -> Separation:
    """The share of a wide component beside normal inliers in residuals [n, d] (thresher.noise.mixture).

    Every column is measured from the middle of its inliers in their deviations, so that wrong targets may all lie on
    one side. The low limit is the share that surely lies outside, less the tails of a clean set; the high limit that
    of every residual that is not surely an inlier.
    """
    residuals = residuals[:: max(1, len(residuals) // ENOUGH)]
    middle, scale = inliers(residuals)
    squares = (((residuals - middle) / np.where(scale > 0, scale, 1.0)) ** 2).mean(1).astype(np.float64)
    wide = share_of_wide(squares)
    outer, inner = ((weights * squares).sum() / max(weights.sum(), 1e-12) for weights in (wide, 1 - wide))
    outside = 1 + (OUTSIDE**2 - 1) / sqrt(residuals.shape[1])
    surely, maybe, share = (float(each.mean()) for each in (wide > 0.9, wide > 0.5, wide))
    low = wilson(min(surely, float((squares > outside).mean())), len(squares))[0]
    high = min(wilson(max(maybe, share), len(squares))[1] / (1 - hidden(residuals, scale)), 1.0)
    return Separation(share, max(low - CLEAN, 0.0), high, float(outer / max(inner, 1e-300)), are_flat(residuals))


def are_flat(residuals: Array) -> bool:
    """Whether the tails of any column are clearly lighter than a normal distribution's, for how lopsided it is.

    So are those of two groups side by side: by Sarle's coefficient of bimodality, (skewness² + 1) / kurtosis, they lie
    above what is spread evenly. They do so without the few outermost ones too; a lone gross error does not.
    """
    if len(residuals) < FEWEST:
        return False
    least = np.quantile(residuals, CLEAN, axis=0, method="higher")
    most = np.quantile(residuals, 1 - CLEAN, axis=0, method="lower")
    (second, _, fourth), lopsided = (
        moments(residuals),
        two_peaks(residuals) & two_peaks(np.clip(residuals, least, most)),
    )
    return bool(((fourth < FLAT * second**2) | lopsided).any())


def two_peaks(residuals: Array) -> Array:
    """For each column [d] whether its coefficient of bimodality is above that of what is spread evenly."""
    second, third, fourth = moments(residuals)
    return np.asarray(third**2 + second**3 > TWO_PEAKS * fourth * second)


def moments(residuals: Array) -> Array:
    """The second to fourth central moment [3, d] of each column, in parts of its largest deviation."""
    centred = residuals - residuals.mean(0)
    largest = np.abs(centred).max(0, initial=0)
    centred = centred / np.where(largest > 0, largest, 1.0)
    return np.stack([(centred**power).mean(0) for power in (2, 3, 4)])


def hidden(residuals: Array, scale: Array) -> float:
    """The share of wrong targets that would look right by chance, were they spread evenly over the residuals."""
    spread = np.ptp(np.quantile(residuals, [0.005, 0.995], axis=0), axis=0)
    within = np.where(spread > 0, 2 * INSIDE * scale / np.where(spread > 0, spread, 1.0), 0.0)
    return float(np.clip(np.prod(np.minimum(within, 1.0)), 0.0, MOST_HIDDEN))


def shortest_half(values: Array) -> Array:
    """The ends [2, d] of the shortest interval that holds half of the values [n] of each column.

    >>> shortest_half(np.array([[0.0], [1.0], [1.1], [1.2], [5.0]])).T.tolist()
    [[1.0, 1.2]]
    """
    ordered, half = np.sort(values, axis=0), len(values) // 2
    start, columns = (ordered[half:] - ordered[: len(values) - half]).argmin(0), np.arange(values.shape[1])
    return np.stack([ordered[start, columns], ordered[start + half, columns]])


def inliers(values: Array, rounds: int = 30) -> tuple[Array, Array]:
    """The middle [d] and the deviation [d] of the inliers of each column, of which there must be more than half.

    From the shortest half of the values, which wrong ones cannot move; then from all values near its middle.

    >>> values = np.concatenate([np.random.default_rng(0).normal(size=600), np.full(400, 9.0)])[:, None]
    >>> [abs(round(float(each[0]), 1)) for each in inliers(values)]
    [0.0, 1.0]
    """
    first, last = shortest_half(values)
    near = (values >= first) & (values <= last)
    for _ in range(rounds):
        count = np.maximum(near.sum(0), 1)
        middle = np.where(near, values, 0).sum(0) / count
        deviation = np.sqrt(np.where(near, (values - middle) ** 2, 0).sum(0) / count)
        wider = np.abs(values - middle) <= INSIDE * deviation / 0.95  # of a normal cut at 2.5 deviations 0.95 is left
        if (wider == near).all():
            break
        near = wider
    return middle, deviation / 0.95
