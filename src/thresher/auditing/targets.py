"""Real targets: the value that judges expect, how far off a target may lie, and which lie further."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.auditing.neighbours import Nearest
from thresher.noise import Estimate
from thresher.noise.residual_rate import are_flat, inliers, shortest_half
from thresher.record.issues import DIMENSION

Array = NDArray[Any]
COVERED = 0.9  # of the targets that are right lie inside the interval
LIMIT = 3.0  # deviations at which trust is a half
SHARPNESS = 8  # of the judges' weights: one whose residuals are twice as large counts 1/256


class Expected(NamedTuple):
    """Of every example: the expected values [n, d], their deviations [n, d], and the half width of the interval."""

    values: Array
    deviations: Array
    widths: Array


def regressors(seed: int) -> dict[str, Any]:
    """Judges that wrong targets do not pull far: boosting by absolute error, trees of large leaves, Huber's line."""
    from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor
    from sklearn.linear_model import HuberRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return {
        "boosting": HistGradientBoostingRegressor(loss="absolute_error", max_iter=100, random_state=seed),
        "forest": ExtraTreesRegressor(100, min_samples_leaf=5, random_state=seed),
        "linear": make_pipeline(StandardScaler(), HuberRegressor(max_iter=300, alpha=1.0)),
    }


def combined_values(judged: Mapping[str, Array], targets: Array) -> tuple[Array, dict[str, float]]:
    """The judges' mean [n, d], each weighted by 1 / (median |residual|)⁸, and these weights."""
    sizes = np.array([np.median(np.abs(targets - each)) for each in judged.values()])
    sizes = np.maximum(sizes, 1e-9 + 1e-6 * sizes.max())
    weights = (sizes.min() / sizes) ** SHARPNESS
    weights /= weights.sum()
    mean = np.tensordot(weights, np.stack(list(judged.values())), 1)
    return mean, dict(zip(judged, weights.round(3).tolist(), strict=True))


def centred(values: Array, targets: Array) -> Array:
    """The values [n, d] moved to where the targets that look right lie: wrong ones on one side pull every judge.

    Where residuals lie in two groups, to the middle of the denser one.
    """
    residuals = targets - values
    return values + (shortest_half(residuals).mean(0) if are_flat(residuals) else inliers(residuals)[0])


def expected(values: Array, targets: Array, near: Nearest | None, wrong: float = 0.0) -> Expected:
    """With deviations from the residuals of all examples and, by half, of each one's neighbours.

    Where a share of the targets is wrong, and their residuals are larger than all others, the median of the right ones
    is the quantile (1 - wrong) / 2 of all. The width covers 90% of the residuals, each in its deviations, that lie
    within `LIMIT` of them.
    """
    residuals, middle = np.abs(targets - values), (1 - wrong) / 2
    overall = 1.4826 * np.quantile(residuals, middle, axis=0)
    scale = np.broadcast_to(np.maximum(overall, 1e-12), residuals.shape)
    if near is not None:
        local = 1.4826 * np.quantile(residuals[near.places], middle, axis=1)
        scale = np.sqrt((np.square(scale) + np.square(local)) / 2)
    sizes = residuals / scale
    inside = np.where(sizes <= LIMIT, sizes, np.nan)
    return Expected(values, scale, np.nanquantile(inside, COVERED, axis=0) * scale)


def trust_of_targets(found: Expected, targets: Array) -> Array:
    """1 / (1 + (r / 3)²) of the residual r, in deviations, of the worst target [n]."""
    sizes = np.abs(targets - found.values) / found.deviations
    return np.asarray(1 / (1 + np.square(sizes.max(1) / LIMIT)))


def suspect_targets(trust: Array, rate: Estimate) -> Array:
    """Which targets [n] look wrong: as many of the least trusted as the rate says, if they lie beyond the limit."""
    count = len(trust) if rate.rate is None else round(rate.rate * len(trust))
    among = np.zeros(len(trust), bool)
    among[np.argsort(trust, kind="stable")[:count]] = True
    return among & (trust < 0.5)


def columns_of(found: Expected, targets: Array, scale: Any) -> dict[str, Array]:
    """label, expected, low and high of the worst target of each example, in the unit of the data."""
    worst = (np.abs(targets - found.values) / found.deviations).argmax(1)
    rows = np.arange(len(worst))
    parts = {
        "label": targets,
        "expected": found.values,
        "low": found.values - found.widths,
        "high": found.values + found.widths,
    }
    columns = {name: np.asarray(scale(values))[rows, worst].astype(np.float64) for name, values in parts.items()}
    return {**columns, DIMENSION: worst} if targets.shape[1] > 1 else columns
