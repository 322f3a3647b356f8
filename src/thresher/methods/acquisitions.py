"""How to choose what to label next, by name."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from thresher.core.errors import unknown
from thresher.core.signals import (
    average_divergence,
    confidence,
    entropy,
    gradient_embedding,
    hidden_difference,
    loss_difference,
    margin,
    mutual_information,
    scaled,
)
from thresher.methods.method import BOTH, CLASSES, Method
from thresher.rules import KCentre, KeepLargest, KeepSmallest, KMeansPlusPlus, RandomPicks, RuleLike

HETEROSKEDASTIC = "Neural active learning on heteroskedastic distributions (2022)"


@dataclass(frozen=True)
class Acquisition(Method):
    """A named way to choose from a pool: `acquisition.rule(100)` is the rule that `acquire` asks for a hundred."""

    make: Callable[[int], RuleLike]
    clock: str = "round"
    tasks: tuple[str, ...] = CLASSES

    instead: ClassVar[str] = "chooses from a pool and trains nothing: pass by={} to active_loop()."

    @property
    def kind(self) -> str:
        return "acquisition"

    def rule(self, count: int) -> RuleLike:
        """The rule for so many picks."""
        return self.make(count)


ACQUISITIONS: dict[str, Acquisition] = {
    each.name: each
    for each in (
        Acquisition("random", RandomPicks, "examples drawn at random, all equally likely", "baseline", tasks=BOTH),
        Acquisition(
            "confidence",
            lambda count: KeepSmallest(by=confidence, count=count),
            "the least probable predictions",
            "Wang and Shang (2014)",
        ),
        Acquisition(
            "margin",
            lambda count: KeepSmallest(by=margin, count=count),
            "the least difference between the two likeliest classes",
            "Roth and Small (2006)",
        ),
        Acquisition(
            "entropy",
            lambda count: KeepLargest(by=entropy, count=count),
            "the largest entropy of the prediction",
            "Settles (2010)",
        ),
        Acquisition(
            "coreset",
            lambda count: KCentre(count=count),
            "the farthest from everything labelled, by features",
            "Sener and Savarese (2018)",
            needs=("labelled",),
            tasks=BOTH,
        ),
        Acquisition(
            "badge",
            lambda count: KMeansPlusPlus(by=gradient_embedding, count=count),
            "large and different last-layer gradients",
            "Ash et al. (2020)",
        ),
        Acquisition(
            "s-badge",
            lambda count: KMeansPlusPlus(by=scaled(gradient_embedding, average_divergence), count=count),
            "badge, scaled by how much the features still change",
            HETEROSKEDASTIC,
            needs=("average",),
        ),
        Acquisition(
            "lhd",
            lambda count: KMeansPlusPlus(by=scaled(hidden_difference, loss_difference), count=count),
            "large and different changes of the features, scaled by the change of the loss",
            "Neural active learning on heteroskedastic distributions, published version (2023)",
            needs=("average",),
        ),
        Acquisition(
            "bald",
            lambda count: KeepLargest(by=mutual_information, count=count),
            "the most disagreement between passes with dropout",
            "Gal et al. (2017)",
        ),
    )
}


def acquisition(name: str) -> Acquisition:
    """The acquisition of this name.

    >>> sorted(acquisition("s-badge").needs), acquisition("margin").rule(10).count
    (['average'], 10)
    """
    if name not in ACQUISITIONS:
        raise unknown("acquisition", name, ACQUISITIONS)
    return ACQUISITIONS[name]
