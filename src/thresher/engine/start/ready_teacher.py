"""A teacher that is a network, made ready for a training: a copy of it, so that the caller's stays as it is."""

import copy

import torch
from torch import nn

from thresher.core.examples import Examples
from thresher.core.one_output import adapt, one_output
from thresher.core.seeding import preserved
from thresher.core.trees import call
from thresher.engine.device.placement import placed, plain
from thresher.engine.plan import Plan
from thresher.engine.start.checks import first_of
from thresher.engine.step.learner import evaluating


def ready_teacher(teacher: nn.Module, train: Examples, plan: Plan) -> nn.Module:
    """A copy where the training is; if it gives one logit for two classes, or one real number, it gives columns."""
    made = placed(copy.deepcopy(plain(teacher)), plan.device, plan.channels_last)
    first = first_of(train, 2)
    with torch.no_grad(), preserved(first.ids.device), evaluating(made):
        adapter = one_output(call(made, first.inputs), train.task, train.classes)
    if adapter is not None:
        adapt(made, adapter)
    return made
