"""Coresets for robust training (CRUST, Mirzasoleiman et al. 2020), and two of its baselines."""

from thresher.core.recipe import Recipe
from thresher.methods.method import MethodFacts
from thresher.rules import Centrality, Dimensionality, FacilityLocation, per_class, warmup
from thresher.slots.mix import ClusterMixup, Mixup, SameClassMixup
from thresher.slots.relabel import PredictedLabels

WARM_EPOCHS = 5  # on all examples, as in the released code; the paper names none
FRACTION = 0.5  # of each class
STRONG = 8.0  # the α of mixup: 1 is the usual one, 8 their choice for wrong labels


def crust(facts: MethodFacts) -> Recipe:  # noqa: ARG001
    """The most central half of each predicted class, every epoch: the selection of the released code.

    The code groups by the given label; by the predicted one, as in the paper, the half is cleaner under heavy noise.
    """
    rule = per_class(Centrality(fraction=FRACTION))
    return Recipe(each_epoch=warmup(WARM_EPOCHS, rule), mix=warmup(WARM_EPOCHS, SameClassMixup()))


def crust_facility(facts: MethodFacts) -> Recipe:  # noqa: ARG001
    """Algorithm 1 to the letter: medoids of each predicted class, weighted by and mixed within their clusters."""
    rule = per_class(FacilityLocation(fraction=FRACTION))
    return Recipe(each_epoch=warmup(WARM_EPOCHS, rule), mix=ClusterMixup())


def mixup(facts: MethodFacts) -> Recipe:  # noqa: ARG001
    """Blends of random pairs, inputs and targets, as strong as Zhang et al. (2018) use against wrong labels."""
    return Recipe(mix=Mixup(STRONG))


def d2l(facts: MethodFacts) -> Recipe:
    """Predictions replace labels once the dimensionality of the features rises (Ma et al. 2018).

    The released code begins to test for that after 5 of 50 epochs on MNIST and after 40 of 120 on CIFAR-10.
    """
    return Recipe(each_epoch=Dimensionality(start=round(0.1 * facts.epochs)), relabel=PredictedLabels())
