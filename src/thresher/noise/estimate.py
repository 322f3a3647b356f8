"""An estimate of the noise rate: the share to assume, an interval, and the reason."""

from dataclasses import dataclass
from math import sqrt


@dataclass(frozen=True)
class Estimate:
    """The share of corrupt targets (0: the set looks clean; None: it cannot be told), an interval for it, and why."""

    rate: float | None
    low: float
    high: float
    why: str

    @property
    def assumed(self) -> float:
        """The share that a method assumes: the low end where the rate cannot be told, so that little is dropped."""
        return self.low if self.rate is None else self.rate


def cannot_tell(why: str, low: float = 0.0, high: float = 1.0) -> Estimate:
    """No rate, and the widest interval unless a narrower one is sure."""
    return Estimate(None, low, high, f"cannot tell: {why}")


def wilson(share: float, count: int, deviations: float = 2.0) -> tuple[float, float]:
    """The Wilson interval of a share that was found to be `share` among `count`.

    >>> [round(limit, 3) for limit in wilson(0.0, 96)]
    [0.0, 0.04]
    """
    square = deviations**2 / count
    middle = share + square / 2
    half = deviations * sqrt(share * (1 - share) / count + square / (4 * count))
    low, high = (middle - half) / (1 + square), (middle + half) / (1 + square)
    return 0.0 if share == 0 else max(0.0, low), 1.0 if share == 1 else min(1.0, high)  # free of rounding at the ends
