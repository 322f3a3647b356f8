"""BatchNorm's statistics of an averaged model, which the average of the networks' statistics would not fit."""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from thresher.core.examples import Examples
from thresher.core.recipe import View, seen_through
from thresher.core.seeding import preserved, seed_global
from thresher.core.trees import Tree, call
from thresher.engine.device.placement import Autocast, as_written
from thresher.engine.plan import Plan
from thresher.engine.step.learner import Learner

ENOUGH = 4096  # examples; in a convolution each gives a channel many values


def some_of(examples: Examples, batch: int) -> list[Tensor]:
    """Positions of about ENOUGH examples in batches, each from the whole set, which may be sorted."""
    places = torch.arange(0, len(examples), max(len(examples) // ENOUGH, 1), device=examples.targets.device)
    batches = -(-len(places) // batch)
    return [places[first::batches] for first in range(batches)]


def renew_averages(
    learners: Sequence[Learner],
    train: Examples,
    views: Sequence[View],
    plan: Plan,
    draws: torch.Generator,
    batch: int,
    epoch: int,
) -> None:
    """Let every average that moves see part of the training set, in batches, as batch rules read signals on it."""
    for learner in learners:
        if learner.average is None or learner.rate == 0 or len(train) == 1:
            continue
        with preserved(plan.device):
            seed_global(plan.device, plan.seed, "norms", epoch)
            inputs = train.batches(some_of(train, batch), workers=plan.workers)
            seen = (seen_through(views[0], each, draws) for each in inputs) if views else inputs
            renew_norms(learner.average, learner.model, seen, plan.autocast)


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
