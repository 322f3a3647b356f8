"""The decision of rules that pick examples one after the other."""

import torch
from torch import Tensor

from thresher.core.evidence import Evidence
from thresher.core.rule import Decision


def picked(positions: Tensor, evidence: Evidence) -> Decision:
    """Weight 1 at these positions, 0 elsewhere; the column `pick` numbers them in order: 1, 2, ... (0: not picked)."""
    pick = torch.zeros(len(evidence), dtype=torch.long, device=positions.device)
    pick[positions] = torch.arange(1, len(positions) + 1, device=positions.device)
    return Decision((pick > 0).float(), {"pick": pick})
