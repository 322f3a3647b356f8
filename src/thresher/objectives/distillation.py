"""Distillation: learning a teacher's predictions (Hinton et al. 2015)."""

from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from thresher.core.errors import ThresherError
from thresher.core.evidence import Evidence
from thresher.core.objective import Objective


class Distillation(Objective):
    """ℓᵢ = T² · CE(softmax(log targetᵢ / T), softmax(outputsᵢ / T)): both sides at the temperature T.

    The targets are the teacher's predictions, soft or hard; a one-hot target is the same at every temperature. T² keeps
    the size of gradients; T = 1 is plain cross entropy.
    """

    tasks: ClassVar[tuple[str, ...]] = ("classification",)
    timeless: ClassVar[bool] = True

    def __init__(self, temperature: float = 1.0):
        super().__init__()
        if not 0 < temperature < float("inf"):
            raise ThresherError(f"temperature={temperature} cannot divide outputs: give a number above 0.")
        self.temperature = temperature

    def forward(self, evidence: Evidence) -> Tensor:
        losses = functional.cross_entropy(evidence.outputs / self.temperature, self._taught(evidence), reduction="none")
        return self.temperature**2 * losses

    def output_gradient(self, evidence: Evidence) -> Tensor:
        """T · (softmax(outputs / T) - target at T), which needs no graph."""
        chances, taught = (evidence.outputs.detach() / self.temperature).softmax(1), self._taught(evidence)
        if taught.ndim == 1:
            taught = torch.zeros_like(chances).scatter(1, taught[:, None], 1.0)
        return self.temperature * (chances - taught)

    def _taught(self, evidence: Evidence) -> Tensor:
        targets = evidence.targets
        return targets if targets.ndim == 1 or self.temperature == 1 else (targets.log() / self.temperature).softmax(1)

    def extra_repr(self) -> str:
        return f"temperature={self.temperature:g}"
