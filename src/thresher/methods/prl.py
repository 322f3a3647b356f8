"""Provable robust learning under agnostic corrupted supervision (PRL), and its baselines."""

from thresher.core.recipe import Recipe
from thresher.core.schedules import Schedule, ramp
from thresher.core.signals import gradient_norm, loss, output_gradient_norm
from thresher.methods.method import MethodFacts
from thresher.objectives import Bootstrap, Huber, SoftBootstrap
from thresher.rules import ClipNorm, Disagree, KeepSmallest, from_peer

RAMP_EPOCHS = 10  # T_k, as in the released code
BOUND = 1.0  # of a gradient's norm; the paper names none


def _falling(facts: MethodFacts) -> Schedule:
    """R(T) = 1 - min(T/T_k · noise rate, noise rate)."""
    return ramp(1.0, facts.keep(), epochs=RAMP_EPOCHS)


def standard(facts: MethodFacts) -> Recipe:  # noqa: ARG001
    """Plain training: every example counts the same."""
    return Recipe()


def normclip(facts: MethodFacts) -> Recipe:  # noqa: ARG001
    """Plain training with a bound on the norm of the whole gradient."""
    return Recipe(clip=BOUND)


def ignormclip(facts: MethodFacts) -> Recipe:  # noqa: ARG001
    """The mean of gradients that are each clipped to a bound: (1/n) Σ min(1, bound / ‖gᵢ‖) gᵢ."""
    return Recipe(each_batch=ClipNorm(BOUND), divide_by="batch")


def huber(facts: MethodFacts) -> Recipe:  # noqa: ARG001
    """Plain training with the Huber loss."""
    return Recipe(objective=Huber())


def bootstrap_hard(facts: MethodFacts) -> Recipe:  # noqa: ARG001
    """A fifth of each label is the class the network predicts (Reed et al. 2014)."""
    return Recipe(objective=Bootstrap())


def bootstrap_soft(facts: MethodFacts) -> Recipe:  # noqa: ARG001
    """A twentieth of each label is the network's own prediction (Reed et al. 2014)."""
    return Recipe(objective=SoftBootstrap())


def min_sgd(facts: MethodFacts) -> Recipe:  # noqa: ARG001
    """Only the single smallest loss of each batch (Shah et al. 2020)."""
    return Recipe(each_batch=KeepSmallest(by=loss, count=1))


def decouple(facts: MethodFacts) -> Recipe:  # noqa: ARG001
    """Two networks, each learning only where their predictions differ (Malach & Shalev-Shwartz 2017)."""
    return Recipe(peers=2, each_batch=Disagree())


def spl(facts: MethodFacts) -> Recipe:
    """Self-paced learning: keep the smallest losses of each batch (Kumar et al. 2010)."""
    return Recipe(each_batch=KeepSmallest(by=loss, fraction=facts.keep()))


def spl_ramp(facts: MethodFacts) -> Recipe:
    """Self-paced learning with the falling share of the released code."""
    return Recipe(each_batch=KeepSmallest(by=loss, fraction=_falling(facts)))


def prl_l(facts: MethodFacts) -> Recipe:
    """PRL(L), Algorithm 3: keep the smallest gradients of the loss layer."""
    return Recipe(each_batch=KeepSmallest(by=output_gradient_norm, fraction=facts.keep()))


def prl_l_ramp(facts: MethodFacts) -> Recipe:
    """PRL(L) with the falling share of the released code; Algorithm 3 has a fixed one."""
    return Recipe(each_batch=KeepSmallest(by=output_gradient_norm, fraction=_falling(facts)))


def prl_g(facts: MethodFacts) -> Recipe:
    """PRL(G), Algorithms 1 and 2: keep the smallest whole gradients."""
    return Recipe(each_batch=KeepSmallest(by=gradient_norm, fraction=facts.keep()))


def co_teaching(facts: MethodFacts) -> Recipe:
    """Two networks, each keeps the smallest losses for the other (Han et al. 2018)."""
    return Recipe(peers=2, each_batch=from_peer(KeepSmallest(by=loss, fraction=_falling(facts))))


def co_prl_l(facts: MethodFacts) -> Recipe:
    """Co-PRL(L), section 5: two networks, each keeps the smallest gradients of the loss layer for the other."""
    return Recipe(peers=2, each_batch=from_peer(KeepSmallest(by=output_gradient_norm, fraction=_falling(facts))))
