"""A term that keeps the mean prediction of a batch near uniform, so that no class is given up."""

from typing import ClassVar

import torch
from torch import Tensor

from thresher.core.errors import ThresherError
from thresher.core.evidence import Evidence
from thresher.core.objective import Objective
from thresher.objectives.standard import CrossEntropy


def near_uniform(outputs: Tensor) -> Tensor:
    """Terms [n] whose mean has the value and the gradient of KL(uniform ‖ m), m the mean prediction of the batch.

    tᵢ = KL(u ‖ m) + 1 - Σ_c u_c pᵢc / m_c, with m and the first term detached: each depends on its own outputs only.

    >>> near_uniform(torch.tensor([[0.75, 0.25], [0.25, 0.75]]).log())
    tensor([0., 0.])
    """
    chances = outputs.softmax(1)
    mean = chances.mean(0).detach().clamp_min(torch.finfo(chances.dtype).tiny)
    uniform = 1 / outputs.shape[1]
    divergence = uniform * (uniform / mean).log().sum()
    return divergence + 1 - (chances * (uniform / mean)).sum(1)


class NearUniform(Objective):
    """ℓᵢ = the objective's loss + strength · tᵢ, which keeps the mean prediction of a batch near uniform.

    In evaluation mode, as in a sweep, the losses are the objective's own.
    """

    tasks: ClassVar[tuple[str, ...]] = ("classification",)
    of_batch: ClassVar[bool] = True
    timeless: ClassVar[bool] = True

    def __init__(self, strength: float, objective: Objective | None = None):
        super().__init__()
        if not strength >= 0:
            raise ThresherError(f"strength={strength} pushes the mean prediction away: give a number of at least 0.")
        self.strength, self.objective = strength, objective or CrossEntropy()
        for declared in ("needs", "columns", "layers", "teacher_layers"):
            setattr(self, declared, getattr(self.objective, declared))

    def forward(self, evidence: Evidence) -> Tensor:
        losses: Tensor = self.objective(evidence)
        return losses + self.strength * near_uniform(evidence.outputs) if self.training else losses

    def output_gradient(self, evidence: Evidence) -> Tensor:
        """That of the objective and, in training, of the term."""
        return super().output_gradient(evidence) if self.training else self.objective.output_gradient(evidence)

    def extra_repr(self) -> str:
        return f"strength={self.strength:g}"
