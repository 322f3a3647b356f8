"""BatchNorm's statistics of an averaged model, which are not the average of anybody's statistics."""

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from thresher.engine.look import autocast
from thresher.engine.sweep import Sweeper
from thresher.examples import Examples

ENOUGH = 4096  # examples; in a convolution each gives a channel many values


@torch.no_grad()
def renew_norms(average: nn.Module, model: nn.Module, examples: Examples, sweeper: Sweeper) -> None:
    """Set the statistics of the average's BatchNorm layers to those of their own inputs, over part of a set.

    Steps in many directions cancel in a mean: averaged weights are shorter than those they come from, and what they
    pass on is smaller. Divided by the deviations of the larger ones it fades from layer to layer, until the average of
    good networks predicts one class for everything. Layers that their owner froze in the model stay as they are.
    """
    norms = [
        mine
        for mine, theirs in zip(average.modules(), model.modules(), strict=True)
        if isinstance(mine, _BatchNorm) and mine.track_running_stats and theirs.training
    ]
    if not norms or len(examples) < 2:
        return
    momenta = [layer.momentum for layer in norms]
    for layer in norms:
        layer.reset_running_stats()
        layer.momentum = None  # the plain mean over batches
        layer.train()
    places = torch.arange(0, len(examples), max(len(examples) // ENOUGH, 1), device=examples.targets.device)
    batches = -(-len(places) // sweeper.batch)
    rows = [places[first::batches] for first in range(batches)]  # each from the whole set, which may be sorted
    for inputs in examples.batches(rows, workers=sweeper.workers):
        with autocast(examples.targets.device, sweeper.precision):
            average(inputs)
    for layer, momentum in zip(norms, momenta, strict=True):
        layer.momentum = momentum
        layer.eval()
