"""Generalized cross entropy for training deep neural networks with noisy labels (Zhang & Sabuncu 2018)."""

from thresher.core.recipe import Recipe
from thresher.methods.method import MethodFacts
from thresher.objectives import GeneralizedCrossEntropy


def gce(facts: MethodFacts) -> Recipe:  # noqa: ARG001
    """Plain training by the generalized cross entropy with the paper's q = 0.7."""
    return Recipe(objective=GeneralizedCrossEntropy())
