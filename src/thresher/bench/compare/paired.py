"""Differences of two methods paired over seeds, with an interval."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev

from thresher.bench.compare.rows import Row, in_table_units

LEVEL = 0.95  # of the interval


@dataclass(frozen=True)
class Difference:
    """The mean of paired differences and the 95% interval of Student's t; a single seed has no interval."""

    mean: float
    margin: float | None
    seeds: int

    @property
    def verdict(self) -> str:
        """Whether the first method is above the second: "holds", "not", or "undecided"."""
        if self.margin is None or abs(self.mean) <= self.margin:
            return "undecided"
        return "holds" if self.mean > 0 else "not"

    def words(self, digits: int) -> str:
        if self.margin is None:
            return (
                f"{self.mean:+.{digits}f}, one seed" if self.seeds == 1 else f"{self.mean:+.{digits}f}, no common seed"
            )
        return f"{self.mean:+.{digits}f} ± {self.margin:.{digits}f}, {self.seeds} seeds"


def difference(values: Sequence[float]) -> Difference:
    """Of differences, one a seed.

    >>> difference([1.0, 2.0, 3.0]).words(1), difference([1.0, 2.0, 3.0]).verdict
    ('+2.0 ± 2.5, 3 seeds', 'undecided')
    >>> difference([1.0]).verdict
    'undecided'
    """
    from scipy.special import stdtrit

    if len(values) < 2:
        return Difference(fmean(values), None, len(values))
    quantile = float(stdtrit(len(values) - 1, 0.5 + LEVEL / 2))
    return Difference(fmean(values), quantile * stdev(values) / sqrt(len(values)), len(values))


def scores_by_seed(row: Row) -> dict[int, float]:
    """The last score of each seed, as tables print it."""
    return {result["seed"]: in_table_units(result["metric"], result["last"]) for result in row.results}


def paired(pairs: Sequence[tuple[Mapping[int, float], Mapping[int, float]]]) -> Difference:
    """Of the mean over cells, for the seeds that both methods have in every cell.

    Each pair holds the scores by seed of two methods in one cell.
    """
    common = set.intersection(*(set(high) & set(low) for high, low in pairs))
    if not common:
        means = [fmean(high.values()) - fmean(low.values()) for high, low in pairs]
        return Difference(fmean(means), None, 0)
    return difference([fmean(high[seed] - low[seed] for high, low in pairs) for seed in sorted(common)])
