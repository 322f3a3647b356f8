"""The objectives of plain training, and what a recipe without an objective gets."""

import copy
from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor, nn
from torch.nn import functional

from thresher.core.evidence import Evidence
from thresher.core.objective import Objective, ObjectiveLike, Plain
from thresher.core.tasks import CLASSES, LABELS, POSITIONS, REAL
from thresher.objectives.several import BinaryCrossEntropy, PositionCrossEntropy


class CrossEntropy(Objective):
    """ℓᵢ = -Σ_c targetᵢc log softmax(outputsᵢ)_c, for class ids and for soft labels."""

    tasks: ClassVar[tuple[str, ...]] = ("classification",)
    timeless: ClassVar[bool] = True

    def forward(self, evidence: Evidence) -> Tensor:
        return functional.cross_entropy(evidence.outputs, evidence.targets, reduction="none")

    def output_gradient(self, evidence: Evidence) -> Tensor:
        """softmax(outputs) - target, which needs no graph."""
        chances, targets = evidence.outputs.detach().softmax(1), evidence.targets
        if targets.ndim == 2:
            return chances * targets.sum(1, keepdim=True) - targets
        return chances.scatter_add_(1, targets[:, None], chances.new_full((len(chances), 1), -1.0))


class SquaredError(Objective):
    """ℓᵢ = ½ Σ_d (outputsᵢd - targetᵢd)², so that its output gradient is outputs - target."""

    tasks: ClassVar[tuple[str, ...]] = ("regression",)
    timeless: ClassVar[bool] = True

    def forward(self, evidence: Evidence) -> Tensor:
        return (evidence.outputs - evidence.targets).square().sum(1) / 2

    def output_gradient(self, evidence: Evidence) -> Tensor:
        """outputs - target."""
        return evidence.outputs.detach() - evidence.targets


DEFAULTS: Mapping[str, type[Objective]] = {
    CLASSES: CrossEntropy,
    REAL: SquaredError,
    LABELS: BinaryCrossEntropy,
    POSITIONS: PositionCrossEntropy,
}


def as_objective(given: ObjectiveLike | None, task: str) -> Objective:
    """A copy of the given objective, a wrapped function, or the task's default."""
    if given is None:
        return DEFAULTS[task]()
    own = copy.deepcopy(given) if isinstance(given, nn.Module) else given
    return own if isinstance(own, Objective) else Plain(own)
