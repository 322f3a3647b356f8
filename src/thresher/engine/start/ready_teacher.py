"""A teacher that is a network, made ready for a training: a copy of it, so that the caller's stays as it is."""

import copy
from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from thresher.core.examples import Examples
from thresher.core.one_output import adapt, one_output
from thresher.core.seeding import preserved
from thresher.core.trees import call
from thresher.engine.device.placement import placed, plain
from thresher.engine.plan import Plan
from thresher.engine.start.checks import first_of
from thresher.engine.step.learner import evaluating
from thresher.engine.step.teacher import TEACHER_OUTPUT


def ready_teacher(teacher: nn.Module, train: Examples, plan: Plan) -> nn.Module:
    """A copy where the training is; if it gives one logit for two classes, or one real number, it gives columns."""
    made = placed(copy.deepcopy(plain(teacher)), plan.device, plan.channels_last)
    first = first_of(train, 2)
    with torch.no_grad(), preserved(first.ids.device), evaluating(made):
        adapter = one_output(call(made, first.inputs), train.task, train.classes)
    if adapter is not None:
        adapt(made, adapter)
    return made


def with_teacher_output(sets: Mapping[str, Examples], outputs_of: Callable[[Examples], Tensor]) -> dict[str, Examples]:
    """The sets to learn from and to validate on, with a column of the teacher's outputs if they have none of it.

    It is asked once, because it does not change.
    """
    lacking = [name for name in ("train", "validation") if name in sets and TEACHER_OUTPUT not in sets[name].columns]
    return {name: sets[name].with_columns(**{TEACHER_OUTPUT: outputs_of(sets[name])}) for name in lacking}
