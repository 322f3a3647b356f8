"""Ordered SGD, by which the theory of active learning on heteroskedastic distributions trains."""

from thresher.core.recipe import Recipe
from thresher.core.signals import loss
from thresher.methods.method import MethodFacts
from thresher.rules import KeepLargest

SHARE = 0.5  # q / s; the paper leaves it open


def top_q(facts: MethodFacts) -> Recipe:  # noqa: ARG001
    """Ordered SGD: only the q largest losses of each batch of s (Kawaguchi & Lu 2020), here half of them."""
    return Recipe(each_batch=KeepLargest(by=loss, fraction=SHARE))
