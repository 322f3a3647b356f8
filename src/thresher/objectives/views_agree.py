"""Objectives without labels: two views of an example should look alike, and unlike those of other examples.

The outputs of the other view are `evidence.other("view")`; in a sweep, which has one view, each is its own other.
Losses are of single examples, but the outputs of the others in the batch are part of them and learn from them too.
"""

from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from thresher.core.errors import ThresherError
from thresher.core.evidence import Evidence
from thresher.core.objective import Objective


def contrastive(outputs: Tensor, others: Tensor, temperature: float, decoupled: bool = True) -> Tensor:
    """-s(i, i')/τ + log Σ_{j ≠ i} (exp(s(i, j)/τ) + exp(s(i, j')/τ)) [n], s the cosine and ' the other view.

    Decoupled (Yeh et al. 2022) the sum lacks exp(s(i, i')/τ), which NT-Xent (Chen et al. 2020) has.

    >>> rows = torch.eye(2)
    >>> [round(contrastive(rows, rows, 1.0, decoupled)[0].exp().item(), 4) for decoupled in (True, False)]
    [0.7358, 1.7358]
    """
    own, other = functional.normalize(outputs, dim=1), functional.normalize(others, dim=1)
    same = torch.eye(len(own), dtype=torch.bool, device=own.device)
    least = torch.finfo(own.dtype).min / 4  # a finite one, so that a batch of one has a loss
    within, across = own @ own.T / temperature, own @ other.T / temperature
    against = torch.cat([within.masked_fill(same, least), across.masked_fill(same, least) if decoupled else across], 1)
    return against.logsumexp(1) - across.diagonal()


def cross_correlation(outputs: Tensor, others: Tensor, strength: float) -> Tensor:
    """Terms [n] whose mean has the value and the gradient of Σ_d (1 - C_dd)² + strength · Σ_{d ≠ e} C_de².

    C = Σᵢ zᵢ z'ᵢᵀ / n, with z standardised over the batch (Barlow Twins, Zbontar et al. 2021). With G = ∂L/∂C they are
    L + zᵢᵀ G z'ᵢ - ⟨G, C⟩, where L, G and the last term are constants.

    >>> rows = torch.tensor([[1.0], [-1.0]])
    >>> cross_correlation(rows, rows, 1.0).mean().abs() < 1e-6
    tensor(True)
    """
    own, other = _standardised(outputs), _standardised(others)
    with torch.no_grad():
        found = own.T @ other / len(own)
        wanted = torch.eye(len(found), device=found.device)
        weights = wanted + strength * (1 - wanted)
        gap = found - wanted
        value, slope = (weights * gap.square()).sum(), 2 * weights * gap
        constant = value - (slope * found).sum()
    return constant + ((own @ slope) * other).sum(1)


def _standardised(outputs: Tensor) -> Tensor:
    spread = outputs.var(0, correction=0, keepdim=True)
    return (outputs - outputs.mean(0, keepdim=True)) * (spread + 1e-5).rsqrt()


class Contrastive(Objective):
    """ℓᵢ = `contrastive`: the other view of an example is closer than every view of the others."""

    needs: ClassVar[frozenset[str]] = frozenset({"view"})
    timeless: ClassVar[bool] = True

    def __init__(self, temperature: float = 0.1, *, decoupled: bool = True):
        super().__init__()
        if not temperature > 0:
            raise ThresherError(f"temperature={temperature} compares nothing: give a number above 0.")
        self.temperature, self.decoupled = temperature, decoupled

    def forward(self, evidence: Evidence) -> Tensor:
        other = evidence.others.get("view", evidence)
        return contrastive(evidence.outputs, other.outputs, self.temperature, self.decoupled)

    def extra_repr(self) -> str:
        return f"temperature={self.temperature:g}, decoupled={self.decoupled}"


class CrossCorrelation(Objective):
    """ℓᵢ = `cross_correlation`: views agree, outputs are uncorrelated; no example is pushed away from another."""

    needs: ClassVar[frozenset[str]] = frozenset({"view"})
    timeless: ClassVar[bool] = True

    def __init__(self, strength: float = 0.005):
        super().__init__()
        if not strength >= 0:
            raise ThresherError(f"strength={strength} wants correlated outputs: give a number of at least 0.")
        self.strength = strength

    def forward(self, evidence: Evidence) -> Tensor:
        other = evidence.others.get("view", evidence)
        return cross_correlation(evidence.outputs, other.outputs, self.strength)

    def extra_repr(self) -> str:
        return f"strength={self.strength:g}"
