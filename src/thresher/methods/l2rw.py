"""Learning to reweight examples (L2RW, Ren et al. 2018), and its baselines."""

from thresher.core.recipe import Recipe
from thresher.core.schedules import ramp
from thresher.methods.method import MethodFacts
from thresher.objectives import NoiseLayer, smoothed_identity
from thresher.rules import (
    CleanShare,
    Curriculum,
    HardestOfMajority,
    InverseFrequency,
    LearnedCurriculum,
    MetaGradient,
    RandomWeights,
    warmup,
)
from thresher.slots.draw import class_balanced

BURN_IN, SOFT_FROM = 0.19, 0.9  # shares of the run, as in the predefined curriculum of MentorNet's released code


def l2rw(facts: MethodFacts) -> Recipe:  # noqa: ARG001
    """Algorithm 1: an example counts as far as its gradient agrees with the clean set's."""
    return Recipe(each_batch=MetaGradient())


def proportion(facts: MethodFacts) -> Recipe:  # noqa: ARG001
    """Weights inversely proportional to how frequent the given label is."""
    return Recipe(each_epoch=InverseFrequency())


def resample(facts: MethodFacts) -> Recipe:  # noqa: ARG001
    """Batches in which every class is equally frequent."""
    return Recipe(draw=class_balanced)


def hard_mining(facts: MethodFacts) -> Recipe:  # noqa: ARG001
    """Of the majority class only the largest losses."""
    return Recipe(each_batch=HardestOfMajority())


def random_weights(facts: MethodFacts) -> Recipe:  # noqa: ARG001
    """Eq. 16: rectified Gaussian weights."""
    return Recipe(each_batch=RandomWeights())


def s_model(facts: MethodFacts) -> Recipe:
    """A noise adaptation layer that starts near the identity (Goldberger & Ben-Reuven 2017)."""
    return Recipe(objective=NoiseLayer(smoothed_identity(facts.classes or 1)))


def mentornet(facts: MethodFacts) -> Recipe:
    """MentorNet's predefined curriculum (PD, Jiang et al. 2018): all examples, then a cut, then a slope of width 1."""
    soft = ramp(0.0, 1.0, epochs=1, after=round(SOFT_FROM * facts.epochs) - 1)  # from one epoch to the next
    return Recipe(each_batch=warmup(round(BURN_IN * facts.epochs), Curriculum(fraction=facts.keep(), width=soft)))


def mentornet_learned(facts: MethodFacts) -> Recipe:
    """MentorNet with a mentor: a small network that was taught the predefined curriculum (Jiang et al. 2018)."""
    over = ramp(0.0, 1.0, epochs=facts.epochs)
    return Recipe(each_batch=LearnedCurriculum(facts.keep(), over, facts.classes or 1))


def weighted_oracle(facts: MethodFacts) -> Recipe:  # noqa: ARG001
    """Each class weighted by the share of clean examples in it, which only an oracle knows."""
    return Recipe(each_epoch=CleanShare())
