"""Reclaim: the five papers as one loop, in which labels that are not trusted are replaced instead of dropped.

Every epoch the moving average of the model is evaluated on the whole set. A rule selects the examples whose labels are
trusted (PRL, CRUST, or agreement); the average labels the rest (the averaged model of the active-learning paper as the
teacher of the distillation paper), weighted by how far it can be believed. A batch rule may correct the weights by
clean examples (L2RW).
"""

from collections.abc import Callable

from thresher.core.recipe import MixLike, Recipe, View
from thresher.core.rule import parts
from thresher.core.schedules import ramp
from thresher.core.signals import confidence, given, loss, output_gradient_norm
from thresher.methods.method import MethodFacts
from thresher.objectives import NearUniform
from thresher.rules import (
    Agree,
    Centrality,
    Debias,
    HoldOut,
    KeepAbove,
    KeepLargest,
    KeepSmallest,
    RuleLike,
    average_teaches,
    average_teaches_held_out,
    either,
    from_average,
    from_peer,
    if_predicted,
    per_class,
    product,
    trusting,
    warmup,
)
from thresher.slots.average import over
from thresher.slots.mix import Mixup
from thresher.slots.relabel import TeacherLabels, labels_of_peer

Trusted = Callable[[MethodFacts], RuleLike]
WARM, SURE = 15 / 115, 10 / 115  # shares of the run: 15 and 10 of the 115 epochs for which they were found
SMALL = 0.4  # of each given class, the share trusted by its small losses
CONFIDENT = from_average(KeepAbove(by=confidence, bound=0.8))
DEBIASED = average_teaches(Debias())
DEBIASED_HELD_OUT = average_teaches_held_out(Debias(), held_out=HoldOut(0.1))


def warm_epochs(facts: MethodFacts, share: float = WARM) -> int:
    """How many epochs train on all labels as they are, at least one.

    >>> warm_epochs(MethodFacts(None, 10, 115)), warm_epochs(MethodFacts(None, 10, 35))
    (15, 5)
    """
    return max(1, round(share * facts.epochs))


def agreeing(facts: MethodFacts) -> RuleLike:
    """Labels that are predicted, and in the first epochs after the warm-up the smallest losses of each given class."""
    small = per_class(KeepSmallest(by=loss, fraction=SMALL), of=given)
    return warmup(warm_epochs(facts, WARM + SURE), Agree(), before=either(Agree(), small))


def central(facts: MethodFacts) -> RuleLike:
    """The most central output gradients within each predicted class, which is what CRUST's code selects."""
    return per_class(Centrality(fraction=facts.keep()))


def short(facts: MethodFacts) -> RuleLike:
    """The smallest output gradients within each given class, as in PRL(L)."""
    return per_class(KeepSmallest(by=output_gradient_norm, fraction=facts.keep()), of=given)


def joint(
    facts: MethodFacts, *, enough: float = 0.8, balanced: float = 0.5, otherwise: Trusted | None = agreeing
) -> RuleLike:
    """Labels that are predicted, and those of the smallest output gradients: as many as are clean.

    For the share `balanced` of the run they are counted within each given class, which keeps classes that the average
    predicts too seldom; later over the whole set. As long as the average predicts less than `enough` of what is clean,
    all labels are trusted where the noise rate is given. Where the run has to find it, those of `otherwise` are: a run
    that cannot tell the rate, or finds one that is too low, would trust all labels to its end.
    """
    later = either(Agree(), KeepSmallest(by=output_gradient_norm, fraction=facts.keep()))
    split = warmup(round(balanced * facts.epochs), later, before=either(Agree(), short(facts)))
    untold = None if facts.rate_is_given or otherwise is None else otherwise(facts)
    return if_predicted(facts.keep(), split, enough, otherwise=untold)


def growing(facts: MethodFacts, *, begin: float = WARM, span: float = 0.5) -> RuleLike:
    """For `rest` of `reclaim`: the surest fifth of each predicted class of the averaged model, growing to nine tenths.

    It grows for the share `span` of the run, after the share `begin`. Where most labels are wrong few confidences
    reach 0.8 for long, but the surest are mostly right.
    """
    share = ramp(0.2, 0.9, epochs=max(span * facts.epochs, 1), after=warm_epochs(facts, begin))
    return from_average(per_class(KeepLargest(by=confidence, fraction=share)))


def reclaim(
    facts: MethodFacts,
    *,
    trusted: Trusted = joint,
    rest: RuleLike | None = CONFIDENT,
    correct: RuleLike | None = None,
    trust: float = 0.8,
    temperature: float = 0.5,
    uniform: float = 0.1,
    mix: MixLike | None = Mixup(1.0),  # noqa: B008  # a frozen value
    views: tuple[View, ...] = (),
    average: float | over = over(1),  # noqa: B008  # a frozen value
    peers: int = 1,
) -> Recipe:
    """Trust some labels, let the averaged model label the rest, and train on both.

    trusted   the rule that selects, by the averaged model once an epoch: joint, agreeing, central, short
    rest      the weights of the others under the averaged model's labels: 1 where its confidence is above 0.8
              (CONFIDENT), the surest of each class (growing(facts)), by Debias on a validation set or on held-out
              trusted examples (DEBIASED, DEBIASED_HELD_OUT), or not at all (None)
    correct   a batch rule on top, after the warm-up, such as MetaGradient() where there are clean examples
    trust, temperature  trusted ones learn trust · given + (1 - trust) · p, the rest p^(1/temperature)
    uniform   the strength of the term that keeps the mean prediction near uniform
    mix       the mix after the warm-up, which learns faster without; warmup(0, Mixup()) mixes from the beginning
    views     weak and strong copies, if the training has none for all methods alike
    peers     2: two networks that select and label for each other
    """
    warm = warm_epochs(facts)
    rule: RuleLike = warmup(warm, trusting(from_average(trusted(facts)), rest))
    held_out = [part for part in parts(rest) if isinstance(part, HoldOut)]
    rule = product(*held_out, rule) if held_out else rule
    labels = TeacherLabels(trust, temperature)
    return Recipe(
        each_epoch=from_peer(rule) if peers > 1 else rule,
        each_batch=None if correct is None else warmup(warm, correct),
        relabel=labels_of_peer(labels) if peers > 1 else labels,
        objective=NearUniform(uniform),
        mix=mix if mix is None or isinstance(mix, warmup) else warmup(warm, mix),
        views=views,
        average=average,
        peers=peers,
    )


def patient(facts: MethodFacts) -> Recipe:
    """Reclaim where most labels are wrong: learn from all of them for longer, then reclaim the surest, slowly.

    With ten classes an average that predicts 0.8 of what is clean is right on 78% of the examples if 40% of the labels
    are wrong, but on at most 64% if 80% are, and its errors reinforce themselves. So in the first half of the run it
    has to predict 0.9.
    """

    def late(facts: MethodFacts) -> RuleLike:
        first, then = (joint(facts, enough=enough, balanced=0.75) for enough in (0.9, 0.8))
        return warmup(round(facts.epochs / 2), then, before=first)

    return reclaim(facts, trusted=late, rest=growing(facts, begin=1 / 3, span=5 / 12))
