"""Provable robust learning under agnostic corrupted supervision (PRL), and what it is compared with."""

from thresher.recipe import Recipe
from thresher.recipes.method import Setting
from thresher.rules import KeepSmallest, from_peer
from thresher.schedules import ramp
from thresher.signals import gradient_norm, loss, output_gradient_norm

RAMP_EPOCHS = 10  # T_k of the paper


def standard(setting: Setting) -> Recipe:  # noqa: ARG001
    """Plain training: everyone counts the same."""
    return Recipe()


def spl(setting: Setting) -> Recipe:
    """Self-paced learning: keep the smallest losses of each batch (Kumar et al. 2010)."""
    return Recipe(each_batch=KeepSmallest(by=loss, fraction=setting.keep()))


def prl_l(setting: Setting) -> Recipe:
    """PRL(L), Algorithm 3: keep the smallest gradients of the loss layer."""
    return Recipe(each_batch=KeepSmallest(by=output_gradient_norm, fraction=setting.keep()))


def prl_g(setting: Setting) -> Recipe:
    """PRL(G), Algorithms 1 and 2: keep the smallest whole gradients."""
    return Recipe(each_batch=KeepSmallest(by=gradient_norm, fraction=setting.keep()))


def co_teaching(setting: Setting) -> Recipe:
    """Two networks, each keeps the smallest losses for the other (Han et al. 2018)."""
    share = ramp(1.0, setting.keep(), epochs=RAMP_EPOCHS)
    return Recipe(peers=2, each_batch=from_peer(KeepSmallest(by=loss, fraction=share)))
