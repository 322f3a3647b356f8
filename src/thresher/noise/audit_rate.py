"""The noise rate of labels from predictions that were made without them, by judges that may disagree."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from thresher.core.errors import ThresherError
from thresher.noise.estimate import Estimate, cannot_tell, wilson

Array = np.ndarray[Any, Any]

SUREST = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0)
NINETY = 1.645  # deviations on either side of a 90% interval
# Chosen on the development cells of benchmarks/noise_rate.py, whose page says how often the others are covered.
OWN_ERRORS = 0.15  # of the contradictions beyond the surest ones: how many of the surest may be errors of the judge
LEARNED_ERRORS = 0.1  # of the surest contradictions: how many may be errors that the judge learned from wrong labels
HARD_ERRORS = 0.2  # of all contradictions: how many more wrong labels there may be that a judge has learned,
MOST_HARD_ERRORS = 0.04  # and of all labels
TOWARDS_ALL = 0.3  # how far the rate lies from the surest judge's share towards that of all judges together
WEAK = 0.2  # the least agreement with the labels, beyond chance, of a judge that is listened to
DISAGREE = 0.3  # the most by which the shares of contradictions may differ
WIDEST = 0.4  # the widest interval that still says something
WIDEST_FROM_NONE = 0.3  # and the widest that begins at 0
FEWEST = 50  # examples


@dataclass(frozen=True)
class Contradictions:
    """How often a judge contradicts the labels: among the examples it is surest about, with limits, and everywhere."""

    surest: float
    low: float
    high: float
    count: int
    everywhere: float


def audit_rate(probabilities: Array, labels: Array, votes: Array | None = None, trust: Array | None = None) -> Estimate:
    """The share of wrong labels [n], from out-of-sample probabilities [n, classes] and neighbours' votes [n, classes].

    A judge (the probabilities; the votes) errs least where it is surest, so the labels it contradicts there are mostly
    wrong: that share is the low side. Errors of people lie among the hard examples, of which judges are not sure, and
    are partly learned: there may be as many as the better judge contradicts anywhere, and a fifth more (at most 4% of
    all labels), which is the high side. The rate lies between, towards the labels that every judge contradicts and
    whose trust [n], if given, is below ½. The interval (90%) spans both sides and the sampling error of each; the rate
    is None where the judges hardly predict the labels or the two sides lie far apart.

    >>> labels = np.arange(1000) % 2
    >>> sure = np.eye(2)[np.where(np.arange(1000) % 10 < 2, 1 - labels, labels)]
    >>> found = audit_rate(0.98 * sure + 0.01, labels)
    >>> round(found.rate, 2), found.low < 0.2 < found.high
    (0.2, True)
    """
    probabilities, labels = np.asarray(probabilities), np.asarray(labels)
    judges = [probabilities] if votes is None else [probabilities, np.asarray(votes)]
    _refuse_other_shapes(judges, labels, trust)
    if len(labels) < FEWEST:
        return cannot_tell(f"{len(labels)} examples are too few")
    seen = [contradictions(each.argmax(1) != labels, each.max(1)) for each in judges]
    fewest = min(each.everywhere for each in seen)
    if max(beyond_chance(each.argmax(1), labels) for each in judges) < WEAK:
        return cannot_tell(
            f"out of sample only {1 - fewest:.0%} of the labels are predicted, hardly more than by chance"
        )
    every = np.all([each.argmax(1) != labels for each in judges], axis=0)
    if trust is not None:
        every &= np.asarray(trust) < 0.5
    return _joined(min(seen, key=lambda each: each.high), fewest, float(every.mean()), len(labels))


def _joined(best: Contradictions, fewest: float, every: float, count: int) -> Estimate:
    """One estimate from the surest judge's contradictions, all of the better judge's, and those of every judge."""
    beyond, both = max(fewest - best.surest, 0.0), max(every - best.surest, 0.0)
    own = OWN_ERRORS * beyond + LEARNED_ERRORS * best.surest
    low = max(best.low - own, 0.0)
    high = min(max(best.high + both, at_most(fewest, count)), 1.0)
    why = (
        f"of the {best.count} labels that are predicted most surely {best.surest:.0%} are contradicted, of all "
        f"{fewest:.0%}"
    )
    if beyond > DISAGREE or too_wide(low, high):
        return cannot_tell(f"{why}, which may be errors of the labels or of the model", low, min(high, fewest))
    return Estimate(min(best.surest + TOWARDS_ALL * both, high), low, high, why)


def at_most(everywhere: float, count: int) -> float:
    """How many labels may be wrong where a judge contradicts this share of so many: some errors it has learned."""
    most = wilson(everywhere, count, NINETY)[1]
    return most + min(HARD_ERRORS * most, MOST_HARD_ERRORS)


def too_wide(low: float, high: float) -> bool:
    """Whether an interval is too wide to be of use.

    >>> too_wide(0.0, 0.35), too_wide(0.05, 0.4)
    (True, False)
    """
    return high - low > (WIDEST if low > 0 else WIDEST_FROM_NONE)


def contradictions(wrong: Array, confidence: Array) -> Contradictions:
    """From how far predictions contradict the given labels [n], and their confidence [n].

    Of several shares of the most confident examples the one with the smallest upper limit counts; examples of equal
    confidence stay together.

    >>> contradictions(np.arange(1000) % 5 == 0, np.ones(1000)).surest
    0.2
    """
    order = np.argsort(-confidence, kind="stable")
    surest, ordered = np.asarray(wrong, np.float64)[order], confidence[order]
    ends = np.searchsorted(-ordered, -ordered[[max(1, round(s * len(order))) - 1 for s in SUREST]], side="right")
    found = []
    for count in sorted({int(end) for end in ends}):
        share = float(surest[:count].mean())
        found.append(Contradictions(share, *wilson(share, count, NINETY), count, float(surest.mean())))
    return min(found, key=lambda each: each.high)


def beyond_chance(predicted: Array, labels: Array) -> float:
    """The agreement of predictions [n] with labels [n] as a share of what chance leaves open (Cohen's kappa).

    >>> beyond_chance(np.array([0, 0, 1, 1]), np.array([0, 0, 1, 0]))
    0.5
    """
    classes = int(max(predicted.max(), labels.max())) + 1
    first, second = (np.bincount(each, minlength=classes) / len(labels) for each in (predicted, labels))
    chance = float((first * second).sum())
    return 0.0 if chance == 1.0 else (float((predicted == labels).mean()) - chance) / (1 - chance)


def _refuse_other_shapes(judges: list[Array], labels: Array, trust: Array | None) -> None:
    if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer):
        raise ThresherError("The labels are no whole numbers [n]: give one class from 0 on for every example.")
    for each in judges:
        if each.ndim != 2 or len(each) != len(labels):
            raise ThresherError(
                f"There are {len(labels)} labels and probabilities of shape {each.shape}: give [n, classes]."
            )
        if len(labels) and not 0 <= labels.min() <= labels.max() < each.shape[1]:
            raise ThresherError(
                f"The labels go from {labels.min()} to {labels.max()}, and there are probabilities of {each.shape[1]} "
                "classes: give both for the same classes."
            )
        if not np.isfinite(each).all():
            raise ThresherError("Some probabilities are not finite: judge the examples again.")
    if trust is not None and np.shape(trust) != labels.shape:
        raise ThresherError(f"There are {len(labels)} labels and trust of shape {np.shape(trust)}: give [n].")
