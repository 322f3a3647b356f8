"""Objectives for several labels at once, and for a class at every position."""

from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from thresher.core.chunks import rows_at_once
from thresher.core.evidence import Evidence, FindsNorms
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


class PositionCrossEntropy(Objective, FindsNorms):
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
        return _differences(evidence.outputs.detach(), targets).mul_(_shares(targets)[..., None])

    def output_gradient_norm(self, evidence: Evidence) -> Tensor:
        """For tokens from a few examples at a time: all gradients at once would be another copy of the outputs."""
        outputs, targets = evidence.outputs.detach(), evidence.targets[:, : evidence.outputs.shape[1]]
        if targets.ndim > 2:
            whole: Tensor = torch.linalg.vector_norm(self.output_gradient(evidence).flatten(1), dim=1)
            return whole
        size = rows_at_once(outputs[0].numel(), outputs)
        blocks = zip(torch.split(outputs, size), torch.split(targets, size), strict=True)
        each = [torch.linalg.vector_norm(_differences(*block), dim=2) for block in blocks]  # [n, T]
        norms: Tensor = torch.linalg.vector_norm(torch.cat(each) * _shares(targets), dim=1)
        return norms


def _differences(outputs: Tensor, targets: Tensor) -> Tensor:
    """softmax - onehot at every token [n, T, classes]."""
    found = outputs.softmax(2)
    return found.scatter_add_(2, targets.clamp_min(0)[..., None], found.new_full((*targets.shape, 1), -1.0))


def _shares(targets: Tensor) -> Tensor:
    """One over the number of tokens that count, and 0 where a token does not [n, T]."""
    counts = (targets >= 0).float()
    return counts / counts.sum(1, keepdim=True).clamp_min(1)
