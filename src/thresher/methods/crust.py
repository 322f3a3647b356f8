"""Coresets for robust training (CRUST, Mirzasoleiman et al. 2020) in three forms, and two of its baselines."""

from thresher.core.recipe import Recipe, shuffled
from thresher.core.signals import feature_gradient, given
from thresher.methods.method import MethodFacts
from thresher.rules import Centrality, Crowd, Dimensionality, FacilityLocation, per_class, product, warmup
from thresher.slots.draw import repeated
from thresher.slots.mix import ClusterMixup, Mixup, SameClassMixup
from thresher.slots.relabel import PredictedLabels

WARM_EPOCHS = 5  # on all examples, as in the released code; the paper names none
FRACTION = 0.5  # of each class
# Its radius of 2 is compared with gradients of the mean loss of 128 examples, which are 128 times as short.
RELEASED_RADIUS = 2.0 * 128
STRONG = 8.0  # the α of mixup: 1 is the usual one, 8 their choice for wrong labels


def crust(facts: MethodFacts, members: int = 1) -> Recipe:  # noqa: ARG001
    """Algorithm 1 as it is written: medoids of each predicted class, weighted by and mixed within their clusters.

    Each medoid is mixed with `members` random others of its cluster (|R_j|, 1 in the paper's experiments), one a visit:
    the weights |V_j| / |R_j| add up to the size of the cluster. A medoid alone in its cluster stays as it is.
    """
    rule = per_class(FacilityLocation(fraction=FRACTION))
    visits = shuffled if members == 1 else repeated(members)
    return Recipe(each_epoch=warmup(WARM_EPOCHS, rule), mix=ClusterMixup(), draw=visits)


def crust_released(facts: MethodFacts) -> Recipe:  # noqa: ARG001
    """What the released code does: the most central half of each given class, by gradients of the features.

    A kept example counts as many as lie within the radius; inputs are mixed from the epoch after the first selection.
    """
    kept = Centrality(by=feature_gradient, fraction=FRACTION)
    rule = per_class(product(kept, Crowd(RELEASED_RADIUS, by=feature_gradient)), of=given)
    return Recipe(each_epoch=warmup(WARM_EPOCHS, rule), mix=warmup(WARM_EPOCHS + 1, SameClassMixup()))


def crust_central(facts: MethodFacts) -> Recipe:  # noqa: ARG001
    """The most central half of each predicted class: the paper's classes, the code's selection, and no weights."""
    rule = per_class(Centrality(fraction=FRACTION))
    return Recipe(each_epoch=warmup(WARM_EPOCHS, rule), mix=warmup(WARM_EPOCHS, SameClassMixup()))


def mixup(facts: MethodFacts) -> Recipe:  # noqa: ARG001
    """Blends of random pairs, inputs and targets, as strong as Zhang et al. (2018) use against wrong labels."""
    return Recipe(mix=Mixup(STRONG))


def d2l(facts: MethodFacts, start: float = 0.1) -> Recipe:
    """Predictions replace labels once the dimensionality of the features rises (Ma et al. 2018).

    That is tested for from this share of the epochs on. The released code begins after 5 of 50 epochs on MNIST and
    after 40 of 120 on CIFAR-10.
    """
    return Recipe(each_epoch=Dimensionality(start=round(start * facts.epochs)), relabel=PredictedLabels())
