"""The noise rate as a run estimates it, once, at the end of its warm-up."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np

from thresher.core.errors import ThresherError
from thresher.core.examples import Examples
from thresher.core.schedules import Schedule
from thresher.noise.estimate import Estimate, wilson
from thresher.noise.mixture import share_of_wide

Array = np.ndarray[Any, Any]

# Chosen on digits, MNIST, small tables, generated targets and face key-points, so that clean sets lie below;
# benchmarks/noise_rate.py reports on some of the same sets. Where clean and corrupt sets look alike, a set passes for
# clean, so that no data is dropped without a reason.
CLEAN = 0.02  # the share of wrong targets
SEPARATE = 8.0  # how many times as large the squared residuals of wrong targets are, at least
LEAN = 0.02  # added, because assuming a little too much costs less than too little (PRL, Table 3)
SUREST = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0)
ENOUGH = 20_000  # residuals are enough to estimate their distribution


def from_predictions(wrong: Array, confidence: Array) -> Estimate:
    """From how far predictions contradict the given labels [n], and their confidence [n].

    A network errs least where it is most confident, so labels that it contradicts there are mostly wrong; its own
    errors only add to that. Of several shares of the most confident examples the one with the smallest upper limit (by
    two deviations) counts, and that limit, with `LEAN` added, is the rate.

    >>> from_predictions(np.arange(1000) % 5 == 0, np.ones(1000)).why
    'of the 1000 labels the networks are surest about they contradict 20%'
    """
    surest = wrong[np.argsort(-confidence, kind="stable")]
    counts = sorted({max(1, round(share * len(surest))) for share in SUREST})
    shares = [float(surest[:count].mean()) for count in counts]
    limits = [wilson(share, count) for share, count in zip(shares, counts, strict=True)]
    best = min(range(len(counts)), key=lambda place: limits[place][1])
    low, high = limits[best][0], min(limits[best][1] + LEAN, 1.0)
    why = f"of the {counts[best]} labels the networks are surest about they contradict {shares[best]:.0%}"
    if shares[best] < CLEAN:
        return Estimate(0.0, 0.0, high, f"{why}, which passes for clean")
    return Estimate(high, low, high, why)


@dataclass(frozen=True)
class Separation:
    """How residuals separate: the share of large ones, its limits, and how many times as large their squares are."""

    share: float
    low: float
    high: float
    times: float

    def estimate(self, separate: float = SEPARATE) -> Estimate:
        """The rate to assume, with `LEAN` added; 0 where the residuals may be those of a clean set."""
        why = f"{self.share:.0%} of the residuals are too large for the rest (squared, by {self.times:.0f} times)"
        if self.share < CLEAN or self.times < separate:
            return Estimate(0.0, 0.0, self.high, f"{why}, which the heavy tails of a clean set may be")
        return Estimate(min(self.share + LEAN, max(self.high, self.share)), self.low, self.high, why)


def separation(residuals: Array) -> Separation:
    """The share of a wide component beside half-normal inliers in residuals [n, d] (thresher.noise.mixture).

    Every column is divided by its robust deviation, 1.48 · median |r|. The limits are the shares with a probability
    above 0.9 and above 0.1.
    """
    residuals = residuals[:: max(1, len(residuals) // ENOUGH)]
    scale = 1.4826 * np.median(np.abs(residuals), axis=0)
    squares = ((residuals / np.where(scale > 0, scale, 1.0)) ** 2).mean(1).astype(np.float64)
    wide = share_of_wide(squares)
    outer, inner = ((weights * squares).sum() / max(weights.sum(), 1e-12) for weights in (wide, 1 - wide))
    surely, maybe = float((wide > 0.9).mean()), float((wide > 0.1).mean())
    return Separation(float(wide.mean()), surely, maybe, float(outer / max(inner, 1e-300)))


class NoiseRate:
    """The observer of the noise rate: one estimate at the end of the warm-up."""

    def __init__(self, asked: Sequence[Schedule], train: Examples, epochs: float):
        if len(asked) > 1:
            listed = list(asked)
            raise ThresherError(f"A recipe estimates its noise rate once, not by {listed}: use one of them everywhere.")
        self.train = train
        self.after = next(schedule.after for schedule in asked if isinstance(schedule, estimated))
        self.clearest: Separation | None = None
        self.estimate: Estimate | None = None
        if epochs <= self.after:
            raise ThresherError(
                f"The noise rate is found in {self.after} epochs and used afterwards, and this run has {epochs:g}: "
                "train longer, or give a number as noise_rate= (--noise-rate)."
            )

    def fill_in(self, schedule: Schedule) -> Schedule:
        """The schedule with the rate that was found, if any, in every place that waits for it."""
        if isinstance(schedule, estimated) and self.estimate is not None:
            return replace(schedule, found=self.estimate.assumed)
        inner = {each.name: getattr(schedule, each.name) for each in fields(schedule)}  # type: ignore[arg-type]
        changed = {name: self.fill_in(value) for name, value in inner.items() if isinstance(value, Schedule)}
        return replace(schedule, **changed) if changed else schedule  # type: ignore[type-var]

    def observe(self, epoch: int, networks: Sequence[Mapping[str, Array]]) -> None:
        """Read an epoch (from 1) of the warm-up: the mean over the networks of their columns [n].

        Labels are judged at its end. Real targets are judged by the epoch in which they separate most clearly: a small
        network needs some epochs to learn anything, and squared error soon fits the wrong values too.
        """
        if epoch > self.after:
            return
        if self.train.is_regression:
            outputs = np.mean([columns["prediction"] for columns in networks], axis=0)
            seen = separation(self.train.targets.cpu().numpy() - outputs)
            if self.clearest is None or seen.times > self.clearest.times:
                self.clearest = seen
            if epoch == self.after:
                self.estimate = self.clearest.estimate()
        elif epoch == self.after:
            labels = self.train.labels.cpu().numpy()
            wrong = np.mean([columns["prediction"][:, 0] != labels for columns in networks], axis=0)
            self.estimate = from_predictions(wrong, np.mean([columns["confidence"] for columns in networks], axis=0))

    def record(self) -> dict[str, Any]:
        """The fields it adds to the history."""
        return {"noise_rate": None if self.estimate is None else asdict(self.estimate)}

    def columns(self) -> dict[str, Array]:
        """The columns it adds to the ledger, from the epoch in which the rate was found."""
        found = self.estimate
        return {} if found is None else {"noise_rate": np.full(len(self.train), found.assumed, np.float32)}

    def state(self) -> dict[str, Any]:
        known = {"clearest": self.clearest, "estimate": self.estimate}
        return {name: None if value is None else asdict(value) for name, value in known.items()}

    def load_state(self, saved: Mapping[str, Any]) -> None:
        self.clearest = None if saved["clearest"] is None else Separation(**saved["clearest"])
        self.estimate = None if saved["estimate"] is None else Estimate(**saved["estimate"])


@dataclass(frozen=True)
class estimated(Schedule):  # noqa: N801  # used like a function: KeepSmallest(by=loss, fraction=estimated())
    """The share to keep, 1 - noise rate, where the run finds the rate itself in its first `after` epochs.

    Until then it is 1: every example counts. A later estimate would be too low, because the network memorises wrong
    targets; an earlier one too high. The engine fills in `found`.

    >>> estimated()(2, 50), estimated(found=0.4)(3, 50)
    (1.0, 0.6)
    """

    after: int = 3
    found: float | None = None

    observer: ClassVar[type[NoiseRate]] = NoiseRate

    def __post_init__(self) -> None:
        if self.after < 1:
            raise ThresherError(f"estimated(after={self.after}) has no epoch to estimate from: give at least 1.")

    def __call__(self, epoch: float, epochs: float) -> float:  # noqa: ARG002
        return 1.0 if self.found is None else 1 - self.found
