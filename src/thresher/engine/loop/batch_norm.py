"""BatchNorm's statistics of an averaged model, which the average of the networks' statistics would not fit."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from thresher.core.examples import Examples
from thresher.core.trees import Tree, call
from thresher.engine.device.placement import Autocast, as_written

ENOUGH = 4096  # examples; in a convolution each gives a channel many values


def some_of(examples: Examples, batch: int) -> list[Tensor]:
    """Positions of about ENOUGH examples in batches, each from the whole set, which may be sorted."""
    places = torch.arange(0, len(examples), max(len(examples) // ENOUGH, 1), device=examples.targets.device)
    batches = -(-len(places) // batch)
    return [places[first::batches] for first in range(batches)]


@torch.no_grad()
def renew_norms(average: nn.Module, model: nn.Module, inputs: Iterable[Tree], autocast: Autocast) -> None:
    """Set the statistics of the average's BatchNorm layers to those of their own inputs, while it sees these `inputs`.

    Steps in many directions cancel in a mean: averaged weights are shorter than those they come from, and what they
    pass on is smaller. Divided by the deviations of the larger ones it fades from layer to layer, until the average of
    good networks predicts one class for everything. Layers that their owner froze in the model stay as they are.
    """
    norms = [
        mine
        for mine, theirs in zip(average.modules(), model.modules(), strict=True)
        if isinstance(mine, _BatchNorm) and mine.track_running_stats and theirs.training
    ]
    if not norms:
        return
    momenta = [layer.momentum for layer in norms]
    for layer in norms:
        layer.reset_running_stats()
        layer.momentum = None  # the plain mean over batches
        layer.train()
    for batch in inputs:
        with autocast(), as_written():
            call(average, batch)
    for layer, momentum in zip(norms, momenta, strict=True):
        layer.momentum = momentum
        layer.eval()
