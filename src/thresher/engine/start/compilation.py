"""Whether a training is long enough for torch.compile to earn the time that it takes."""

import torch
from torch import nn

from thresher.core.examples import Examples
from thresher.core.seeding import preserved
from thresher.core.trees import Tree, call, leaves
from thresher.engine.start.checks import first_of
from thresher.engine.step.learner import evaluating

WORTH_COMPILING = 2e16  # operations of a training that earn the half minute: about 120 epochs of ResNet-18 on CIFAR-10


def is_worth_compiling(model: nn.Module, train: Examples, passes: float) -> bool:
    """Whether so many passes over each example of the training set take long enough."""
    return passes * len(train) * operations(model, first_of(train, 2).inputs) >= WORTH_COMPILING


def operations(model: nn.Module, inputs: Tree) -> float:
    """Floating-point operations of a training pass, per example: a forward pass, and twice as many backward.

    >>> operations(nn.Linear(3, 5), torch.zeros(4, 3))
    90.0
    """
    from torch.utils.flop_counter import FlopCounterMode  # takes a second

    counter = FlopCounterMode(display=False)
    first = leaves(inputs)[0]
    with preserved(first.device), evaluating(model), torch.no_grad(), counter:
        call(model, inputs)
    return 3 * counter.get_total_flops() / len(first)
