"""Generalized cross entropy: between cross entropy, which learns quickly, and absolute error, which resists noise."""

from typing import ClassVar

import torch
from torch import Tensor

from thresher.core.errors import ThresherError
from thresher.core.evidence import Evidence
from thresher.core.objective import Objective
from thresher.core.targets import one_hot_if_ids


class GeneralizedCrossEntropy(Objective):
    """ℓᵢ = Σ_c targetᵢc (1 - pᵢc^q) / q with p = softmax(outputs): at most 1/q (Zhang & Sabuncu 2018).

    q → 0 is cross entropy, and q = 1 is 1 - p, half the absolute error.
    """

    tasks: ClassVar[tuple[str, ...]] = ("classification",)
    timeless: ClassVar[bool] = True

    def __init__(self, q: float = 0.7):
        super().__init__()
        if not 0 < q <= 1:
            raise ThresherError(f"q={q} gives no bounded loss: give a number above 0 and at most 1.")
        self.q = q

    def forward(self, evidence: Evidence) -> Tensor:
        losses = -torch.expm1(self.q * evidence.outputs.log_softmax(1)) / self.q  # [n, classes], exact for small q too
        return (one_hot_if_ids(evidence.targets, losses.shape[1]) * losses).sum(1)

    def extra_repr(self) -> str:
        return f"q={self.q:g}"
