"""The noise rate as a run estimates it, once, at the end of its warm-up."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np

from thresher.core.errors import ThresherError, refuse_other_fields
from thresher.core.examples import Examples
from thresher.core.schedules import Schedule
from thresher.core.tasks import CLASSES, REAL
from thresher.noise.audit_rate import (
    LEARNED_ERRORS,
    WEAK,
    WIDEST,
    Contradictions,
    contradictions,
)
from thresher.noise.estimate import Estimate, cannot_tell
from thresher.noise.residual_rate import CLEAN, LEAN, Separation, separation

Array = np.ndarray[Any, Any]

# Chosen on digits, MNIST, small tables, generated targets and face key-points, so that clean sets lie below;
# benchmarks/noise_rate.py reports on some of the same sets. Where clean and corrupt sets look alike, a set passes for
# clean, so that no data is dropped without a reason.
OWN_ERRORS = 0.25  # of the contradictions beyond the surest ones: how many of the surest may be errors of the networks
HALF_AS_GOOD = 0.5  # how well the networks of an epoch must predict, beside those of the best epoch
FALLS_TO = 0.5  # of the share of contradictions an epoch before: less may be wrong labels that were memorised
SEPARATE = 8.0  # of squared residuals in the warm-up, whose networks have not fitted all targets yet


def from_epochs(seen: Sequence[Contradictions], commonest: float) -> Estimate:
    """From how the predictions of each epoch contradict the labels, of which the commonest has the share `commonest`.

    The first epoch's predictions were made before their examples were learned from, by networks that know less: its
    share is rather too high, and counts where they predict at least half as well as later, or where the share falls to
    less than half of itself in the last epoch, as it does when wrong labels are memorised. The last epoch's may be
    memorised: its share is rather too low. The interval spans the epochs and, on either side, some of the
    contradictions beyond the surest ones; the middle epoch's upper limit is the rate, because assuming a little too
    much costs less than too little (PRL, Table 3).
    """
    learned = [0.0 if commonest == 1.0 else (1 - each.everywhere - commonest) / (1 - commonest) for each in seen]
    if max(learned) < WEAK:
        last = min(each.everywhere for each in seen)
        return cannot_tell(
            f"the networks predict {1 - last:.0%} of the labels, and always saying the commonest gives {commonest:.0%}"
        )
    good = [each for each, much in zip(seen, learned, strict=True) if much >= HALF_AS_GOOD * max(learned)]
    middle = sorted(good, key=lambda each: each.high)[(len(good) - 1) // 2]
    beyond = max(min(each.everywhere for each in good) - middle.surest, 0.0)
    low = max(min(each.low for each in good) - OWN_ERRORS * beyond - LEARNED_ERRORS * middle.surest, 0.0)
    high = min(max(each.high for each in (seen if _memorised(seen) else good)) + OWN_ERRORS * beyond, 1.0)
    why = f"of the {middle.count} labels the networks are surest about they contradict {middle.surest:.0%}"
    if high - low > WIDEST:
        epochs = ", ".join(f"{each.surest:.0%}" for each in seen)
        return cannot_tell(f"of the labels the networks are surest about they contradict {epochs} in turn", low, high)
    if middle.surest < CLEAN:
        return Estimate(0.0, 0.0, high, f"{why}, which passes for clean")
    return Estimate(middle.high, low, high, why)


def _memorised(seen: Sequence[Contradictions]) -> bool:
    """Whether the share of contradictions falls so quickly that wrong labels may have been learned."""
    before = seen[-2].surest if len(seen) > 1 else 0.0
    return before >= CLEAN and seen[-1].surest < FALLS_TO * before


class NoiseRate:
    """The observer of the noise rate: one estimate at the end of the warm-up."""

    def __init__(self, asked: Sequence[Schedule], train: Examples, epochs: float):
        if len(asked) > 1:
            listed = list(asked)
            raise ThresherError(f"A recipe estimates its noise rate once, not by {listed}: use one of them everywhere.")
        if train.task not in (CLASSES, REAL):
            raise ThresherError(
                f"A run cannot find the noise rate of {train.task} targets: give a number as noise_rate=."
            )
        self.train = train
        self.after = next(schedule.after for schedule in asked if isinstance(schedule, estimated))
        self.clearest: Separation | None = None
        self.seen: list[Contradictions] = []
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

        Labels are judged by all of its epochs. Real targets are judged by the epoch in which they separate most
        clearly: a small network needs some epochs to learn anything, and squared error soon fits the wrong values too.
        """
        if epoch > self.after:
            return
        if self.train.is_regression:
            outputs = np.mean([columns["prediction"] for columns in networks], axis=0)
            seen = separation(self.train.targets.cpu().numpy() - outputs)
            flat = seen.flat or (self.clearest is not None and self.clearest.flat)  # in any epoch
            if self.clearest is None or seen.times > self.clearest.times:
                self.clearest = seen
            self.clearest = replace(self.clearest, flat=flat)
            if epoch == self.after:
                self.estimate = self.clearest.estimate(SEPARATE, LEAN)
        else:
            labels = self.train.labels.cpu().numpy()
            wrong = np.mean([columns["prediction"][:, 0] != labels for columns in networks], axis=0)
            self.seen.append(contradictions(wrong, np.mean([columns["confidence"] for columns in networks], axis=0)))
            if epoch == self.after:
                self.estimate = from_epochs(self.seen, float(np.bincount(labels).max()) / len(labels))

    def record(self) -> dict[str, Any]:
        """The fields it adds to the history."""
        return {"noise_rate": None if self.estimate is None else asdict(self.estimate)}

    def columns(self) -> dict[str, Array]:
        """The columns it adds to the ledger, from the epoch in which the rate was found."""
        found = self.estimate
        return {} if found is None else {"noise_rate": np.full(len(self.train), found.assumed, np.float32)}

    def state(self) -> dict[str, Any]:
        known = {"clearest": self.clearest, "estimate": self.estimate}
        saved = {name: None if value is None else asdict(value) for name, value in known.items()}
        return {**saved, "seen": [asdict(each) for each in self.seen]}

    def load_state(self, saved: Mapping[str, Any]) -> None:
        self.clearest = None if saved["clearest"] is None else Separation(**saved["clearest"])
        self.seen = [Contradictions(**each) for each in saved["seen"]]
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
        refuse_other_fields(self)
        if self.after < 1:
            raise ThresherError(f"estimated(after={self.after}) has no epoch to estimate from: give at least 1.")

    def __call__(self, epoch: float, epochs: float) -> float:  # noqa: ARG002
        return 1.0 if self.found is None else 1 - self.found
