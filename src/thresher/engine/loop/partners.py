"""The partners from the whole training set with which a mix blends every visit of an epoch."""

from collections.abc import Mapping

from torch import Tensor

from thresher.core.examples import Examples
from thresher.core.recipe import MixFromSet, MixLike, Pairing, Visits
from thresher.core.rule import in_epoch
from thresher.core.seeding import generator


def drawn_partners(
    mix: MixLike, train: Examples, order: Tensor, decided: Mapping[str, Tensor], epoch: int, seed: int
) -> Pairing | None:
    """Partners and shares [steps, batch] for an epoch in this order, or None where none come from the whole set."""
    now = in_epoch(epoch, mix)
    if not isinstance(now, MixFromSet):
        return None
    return now.draw(Visits(order, train, decided, epoch, generator(seed, "mix", epoch)))
