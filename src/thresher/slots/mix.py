"""Mixing: train on blends of two examples."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from thresher.core.errors import ThresherError, refuse_other_fields
from thresher.core.evidence import Evidence
from thresher.core.recipe import MixFromSet, Pairing, Visits
from thresher.core.rule import Reader


@dataclass(frozen=True)
class Mixup(Reader):
    """Mixup (Zhang et al. 2018): λ ~ Beta(α, α) a batch, each example mixed with a random one."""

    alpha: float = 1.0

    timeless: ClassVar[bool] = True

    def __post_init__(self) -> None:
        refuse_other_fields(self)
        _check_beta("Mixup", alpha=self.alpha)

    def __call__(self, evidence: Evidence) -> Pairing:
        n, device = len(evidence), evidence.ids.device
        partner = torch.rand(n, generator=evidence.generator, device=device).argsort()
        share = beta(self.alpha, self.alpha, evidence.generator, device)
        return Pairing(partner, share.expand(n))


@dataclass(frozen=True)
class ClusterMixup(MixFromSet):
    """Each medoid with a random other member of its cluster, λ ~ Beta(α, α) each: CRUST, Algorithm 1 and Eq. 11.

    Inputs and targets are blended. An example that is alone in its cluster stays as it is. The paper gives no α.
    """

    alpha: float = 1.0

    decided: ClassVar[Mapping[str, str]] = {"cluster": "FacilityLocation(fraction=0.5)"}

    def __post_init__(self) -> None:
        refuse_other_fields(self)
        _check_beta("ClusterMixup", alpha=self.alpha)

    def draw(self, visits: Visits) -> Pairing | None:
        if "cluster" not in visits.decided:  # during a warm-up
            return None
        share = beta(self.alpha, self.alpha, visits.generator, torch.device("cpu"), visits.order.shape)
        return _within(visits.decided["cluster"], share, visits)


@dataclass(frozen=True)
class SameClassMixup(MixFromSet):
    """The inputs alone, each with a random other one of the same given class, λ ~ Beta(a, b) a batch.

    As in the code released with CRUST, after 5 epochs; λ is mostly near 1. Its Algorithm 1 is `ClusterMixup`.
    """

    a: float = 1.0
    b: float = 0.1

    tasks: ClassVar[tuple[str, ...]] = ("classification",)
    blends_targets: ClassVar[bool] = False

    def __post_init__(self) -> None:
        refuse_other_fields(self)
        _check_beta("SameClassMixup", a=self.a, b=self.b)

    def draw(self, visits: Visits) -> Pairing:
        steps, batch = visits.order.shape
        share = beta(self.a, self.b, visits.generator, torch.device("cpu"), (steps, 1))
        return _within(visits.examples.labels, share.expand(steps, batch), visits)


def _within(groups: Tensor, share: Tensor, visits: Visits) -> Pairing:
    """Partners within the same group [n]; an example without one is not mixed."""
    order = visits.order
    partner = random_partners(groups.cpu(), order.cpu(), visits.generator).to(order.device)
    return Pairing(partner, share.to(order.device).where(partner != order, 1.0))


def random_partners(groups: Tensor, positions: Tensor, generator: torch.Generator) -> Tensor:
    """For each position a random other one of the same group [n], all equally likely; itself where there is no other.

    >>> random_partners(torch.tensor([7, 3, 7, 5]), torch.tensor([[0, 1], [2, 0]]), torch.Generator()).tolist()
    [[2, 1], [0, 2]]
    """
    own: Tensor = torch.unique(groups, return_inverse=True)[1]
    members, sizes = own.argsort(stable=True), own.bincount()
    starts = sizes.cumsum(0) - sizes
    place = torch.empty_like(members).scatter_(0, members, torch.arange(len(members)) - starts[own[members]])
    at, others = own[positions], sizes[own[positions]] - 1
    drawn = (torch.rand(positions.shape, dtype=torch.float64, generator=generator) * others).long()
    drawn += ((drawn >= place[positions]) & (others > 0)).long()  # never itself, where there is another one
    return members[starts[at] + drawn]


def beta(
    a: float, b: float, generator: torch.Generator | None, device: torch.device, shape: tuple[int, ...] = ()
) -> Tensor:
    """Draws of this shape from Beta(a, b) on the device, without host synchronisation."""
    # In float32 small a and b would often make both draws 0, and so a share of one half.
    both = [torch.full(shape, value, dtype=torch.float64, device=device) for value in (a, b)]
    gammas = torch._standard_gamma(torch.stack(both), generator=generator)
    gammas = gammas.clamp_min(torch.finfo(gammas.dtype).tiny)
    return (gammas[0] / gammas.sum(0)).float()


def _check_beta(what: str, **numbers: float) -> None:
    for name, value in numbers.items():
        if not value > 0:
            raise ThresherError(f"{what}({name}={value}) is not a Beta distribution: give {name} above 0.")


NAMED_MIXES: Mapping[str, Mixup | None] = {"mixup": Mixup(), "none": None}
