"""Objectives for several labels at once, and for a class at every position."""

from typing import ClassVar

from torch import Tensor
from torch.nn import functional

from thresher.core.evidence import Evidence
from thresher.core.objective import Objective
from thresher.core.tasks import LABELS, POSITIONS, position_losses


class BinaryCrossEntropy(Objective):
    """ℓᵢ = the mean over labels of -(t log σ(o) + (1 - t) log(1 - σ(o))), for targets [n, labels] of 0 and 1."""

    tasks: ClassVar[tuple[str, ...]] = (LABELS,)
    timeless: ClassVar[bool] = True

    def forward(self, evidence: Evidence) -> Tensor:
        each = functional.binary_cross_entropy_with_logits(evidence.outputs, evidence.targets, reduction="none")
        return each.mean(1)

    def output_gradient(self, evidence: Evidence) -> Tensor:
        """(σ(outputs) - target) / labels, which needs no graph."""
        return (evidence.outputs.detach().sigmoid() - evidence.targets) / evidence.targets.shape[1]


class PositionCrossEntropy(Objective):
    """ℓᵢ = the mean cross entropy over an example's own tokens or pixels; negative targets, such as -100, are left out.

    outputs [n, T, classes] and targets [n, T], or outputs [n, classes, h, w] and targets [n, h, w]. A language model's
    targets are its inputs moved by one place.
    """

    tasks: ClassVar[tuple[str, ...]] = (POSITIONS,)
    timeless: ClassVar[bool] = True

    def forward(self, evidence: Evidence) -> Tensor:
        losses, counts = position_losses(evidence.outputs, evidence.targets)
        return losses.sum(1) / counts.sum(1).clamp_min(1)

    def output_gradient(self, evidence: Evidence) -> Tensor:
        """(softmax - onehot) / tokens that count, for tokens; it needs no graph, and one copy of the outputs."""
        targets = evidence.targets[:, : evidence.outputs.shape[1]]
        if targets.ndim > 2:
            return super().output_gradient(evidence)
        gradient, counts = evidence.outputs.detach().softmax(2), (targets >= 0).float()
        gradient.scatter_add_(2, targets.clamp_min(0)[..., None], gradient.new_full((*targets.shape, 1), -1.0))
        return gradient.mul_((counts / counts.sum(1, keepdim=True).clamp_min(1))[..., None])
