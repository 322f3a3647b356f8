"""Objectives: what each example should teach."""

import copy
from collections.abc import Callable

from torch import Tensor, nn

from thresher.objectives.bootstrap import Bootstrap, SoftBootstrap
from thresher.objectives.determinant import DeterminantLoss
from thresher.objectives.huber import Huber, huber
from thresher.objectives.noise_layer import NoiseLayer, smoothed_confusion, smoothed_identity
from thresher.objectives.objective import Objective, Plain
from thresher.objectives.standard import CrossEntropy, SquaredError
from thresher.objectives.transition import ForwardCorrection, Reweighted, transition_from_anchors

ObjectiveLike = nn.Module | Callable[[Tensor, Tensor], Tensor]

__all__ = [
    "Bootstrap",
    "CrossEntropy",
    "DeterminantLoss",
    "ForwardCorrection",
    "Huber",
    "NoiseLayer",
    "Objective",
    "ObjectiveLike",
    "Plain",
    "Reweighted",
    "SoftBootstrap",
    "SquaredError",
    "as_objective",
    "huber",
    "smoothed_confusion",
    "smoothed_identity",
    "transition_from_anchors",
]


def as_objective(given: ObjectiveLike | None, classes: int | None) -> Objective:
    """An objective of one's own: a copy of the one given, a wrapped function, or the task's default."""
    if given is None:
        return SquaredError() if classes is None else CrossEntropy()
    own = copy.deepcopy(given) if isinstance(given, nn.Module) else given
    return own if isinstance(own, Objective) else Plain(own)
