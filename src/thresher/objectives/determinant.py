"""L_DMI: a loss with the same minimum under label noise that does not depend on the example."""

from typing import ClassVar

import torch
from torch import Tensor

from thresher.core.evidence import Evidence
from thresher.core.objective import Objective
from thresher.core.targets import one_hot_if_ids

DAMPING = 1e-3  # added to |det U|, as in the released code


class DeterminantLoss(Objective):
    """Σᵢ ℓᵢ / n = -log(|det U| + 0.001) with U = Σᵢ softmax(outputsᵢ) targetᵢᵀ over the batch (Xu et al. 2019).

    The gradient of -log|det U| is linear in each example's part of U: ∂/∂pᵢ = -U⁻ᵀ targetᵢ. So with U⁻¹ detached,
    ℓᵢ = -log(|det U| + 0.001) + damped · (classes - n · pᵢᵀ U⁻ᵀ targetᵢ) has its mean and its gradient.
    """

    tasks: ClassVar[tuple[str, ...]] = ("classification",)
    of_batch: ClassVar[bool] = True
    timeless: ClassVar[bool] = True

    def forward(self, evidence: Evidence) -> Tensor:
        classes = evidence.outputs.shape[1]
        chances = evidence.outputs.softmax(1)
        targets = one_hot_if_ids(evidence.targets, classes)
        with torch.no_grad():
            joint = chances.double().T @ targets.double()
            size: Tensor = torch.linalg.det(joint).abs()
            inverse: Tensor = torch.linalg.inv_ex(joint).inverse.nan_to_num(
                0.0, 0.0, 0.0
            )  # without a wait for the device
            damped = size / (size + DAMPING)
            pull = (
                damped * len(targets) * targets.double() @ inverse
            ).float()  # [n, classes]: rows of n · (U⁻ᵀ target)ᵀ
            level = (damped * classes - (size + DAMPING).log()).float()
        return level - (chances * pull).sum(1)
