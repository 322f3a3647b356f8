"""Mixing: train on blends of two examples."""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from thresher.engine.evidence import Evidence
from thresher.errors import ThresherError


@dataclass(frozen=True)
class Pairing:
    """Who is mixed with whom: example i with `partner[i]`, of which it keeps the share `share[i]` of itself."""

    partner: Tensor
    share: Tensor

    def blend(self, values: Tensor) -> Tensor:
        """share · values + (1 - share) · values[partner], along the first dimension."""
        share = self.share.reshape(-1, *[1] * (values.ndim - 1))
        return share * values + (1 - share) * values[self.partner]


class Mix(Protocol):
    """`mix(evidence) -> Pairing` for one batch."""

    def __call__(self, evidence: Evidence, /) -> Pairing: ...


@dataclass(frozen=True)
class Mixup:
    """Mixup (Zhang et al. 2018): λ ~ Beta(α, α) a batch, each example mixed with a random one."""

    alpha: float = 1.0

    def __post_init__(self) -> None:
        if not self.alpha > 0:
            raise ThresherError(f"Mixup(alpha={self.alpha}) is no Beta distribution: give alpha above 0.")

    def __call__(self, evidence: Evidence) -> Pairing:
        n, device = len(evidence), evidence.ids.device
        partner = torch.rand(n, generator=evidence.generator, device=device).argsort()
        share = beta(self.alpha, self.alpha, evidence.generator, device)
        return Pairing(partner, share.expand(n))


def beta(a: float, b: float, generator: torch.Generator | None, device: torch.device) -> Tensor:
    """One draw from Beta(a, b) as a device scalar, without host synchronisation."""
    # In float32 small a and b would often make both draws 0, and so a share of one half.
    both = [torch.full((), value, dtype=torch.float64, device=device) for value in (a, b)]
    gammas = torch._standard_gamma(torch.stack(both), generator=generator)
    gammas = gammas.clamp_min(torch.finfo(gammas.dtype).tiny)
    return (gammas[0] / gammas.sum()).float()


def as_mixable(targets: Tensor, classes: int | None) -> Tensor:
    """Targets that can be blended: one-hot rows for class ids, everything else as it is."""
    if classes is not None and targets.ndim == 1:
        return (targets[:, None] == torch.arange(classes, device=targets.device)).float()  # one_hot waits for the host
    return targets
