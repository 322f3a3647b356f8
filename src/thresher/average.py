"""The rate of a moving average that begins as a plain mean."""

from dataclasses import dataclass

from thresher.errors import ThresherError


@dataclass(frozen=True)
class Growing:
    """min(1 - 1/(t + 1), rate) at step t = 0, 1, ...: the mean of all steps so far, until the rate is reached.

    A fixed rate of 0.999 remembers the random start for thousands of steps; this forgets it after the first. The
    released code of the heteroskedastic active-learning paper averages so.

    >>> [Growing(0.999).at(step) for step in (0, 1, 3, 5000)]
    [0.0, 0.5, 0.75, 0.999]
    """

    rate: float = 0.999

    def __post_init__(self) -> None:
        if not 0 <= self.rate < 1:
            raise ThresherError(f"average=Growing({self.rate}) never moves: give a rate from 0 up to, but below, 1.")

    def at(self, step: int) -> float:
        return min(1 - 1 / (step + 1), self.rate)
