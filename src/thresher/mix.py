"""Mixing: train on blends of two examples."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from thresher.engine.evidence import Evidence
from thresher.errors import ThresherError
from thresher.examples import Examples
from thresher.rules.rule import Reader


@dataclass(frozen=True)
class Pairing:
    """Who is mixed with whom: example i with `partner[i]`, of which it keeps the share `share[i]` of itself."""

    partner: Tensor
    share: Tensor

    def blend(self, values: Tensor) -> Tensor:
        """share · values + (1 - share) · values[partner], along the first dimension."""
        return blend(self.share, values, values[self.partner])

    def blend_counted(self, labels: Tensor, weights: Tensor) -> Tensor:
        """Labels [n, classes] by share · weight, which makes λwᵢℓ(yᵢ) + (1 - λ)wⱼℓ(yⱼ): a dropped one teaches nothing.

        Where neither counts, it is the plain blend of both.

        >>> half = Pairing(torch.tensor([1, 0]), torch.tensor([0.5, 0.5]))
        >>> half.blend_counted(torch.eye(2), torch.tensor([3.0, 0.0])).tolist()
        [[1.0, 0.0], [1.0, 0.0]]
        """
        total = self.blend(weights)[:, None]
        counted = self.blend(weights[:, None] * labels) / total.clamp_min(torch.finfo(total.dtype).tiny)
        return torch.where(total > 0, counted, self.blend(labels))


class Mix(Protocol):
    """`mix(evidence) -> Pairing` for one batch: partners are positions within it."""

    def __call__(self, evidence: Evidence, /) -> Pairing: ...


@dataclass(frozen=True)
class Visits:
    """What an epoch is about to visit: positions [steps, batch] of the examples, and what its rules decided [n]."""

    order: Tensor
    examples: Examples
    decided: Mapping[str, Tensor]
    epoch: int
    generator: torch.Generator  # on the host


class MixFromSet(Reader, ABC):
    """Mixing with partners from the whole training set, drawn when an epoch begins, so that a stream can fetch them.

    A mixed example has the weight of its first part: the partner only lends itself, and may have none.
    """

    tasks: ClassVar[tuple[str, ...]] = ("classification", "regression")
    blends_targets: ClassVar[bool] = True

    @abstractmethod
    def draw(self, visits: Visits) -> Pairing | None:
        """Partners (positions in the set) and shares, both [steps, batch]; None: nothing is mixed in this epoch."""


@dataclass(frozen=True)
class after:  # noqa: N801  # used like a function: after(15, Mixup())
    """A mix that begins after so many epochs, before which nothing is mixed.

    Blends slow down the learning of what there is to learn, and hinder the learning of wrong labels by heart. In the
    first epochs, when little is learnt by heart, a network may do without them.
    """

    epochs: int
    mix: Mix | MixFromSet

    def __post_init__(self) -> None:
        counted = isinstance(self.epochs, int | float) and self.epochs >= 0
        if not counted or isinstance(self.mix, after) or not (callable(self.mix) or isinstance(self.mix, MixFromSet)):
            raise ThresherError(f"after({self.epochs}, {self.mix}) needs a number of epochs from 0 on, and then a mix.")


MixLike = Mix | MixFromSet | after


def mix_in(epoch: float, mix: MixLike | None) -> Mix | MixFromSet | None:
    """What mixes in this epoch.

    >>> mix_in(14, after(15, Mixup())), mix_in(15, after(15, Mixup())), mix_in(0, Mixup())
    (None, Mixup(alpha=1.0), Mixup(alpha=1.0))
    """
    if isinstance(mix, after):
        return None if epoch < mix.epochs else mix.mix
    return mix


@dataclass(frozen=True)
class Mixup:
    """Mixup (Zhang et al. 2018): λ ~ Beta(α, α) a batch, each example mixed with a random one."""

    alpha: float = 1.0

    def __post_init__(self) -> None:
        _refuse_no_beta("Mixup", alpha=self.alpha)

    def __call__(self, evidence: Evidence) -> Pairing:
        n, device = len(evidence), evidence.ids.device
        partner = torch.rand(n, generator=evidence.generator, device=device).argsort()
        share = beta(self.alpha, self.alpha, evidence.generator, device)
        return Pairing(partner, share.expand(n))


@dataclass(frozen=True)
class ClusterMixup(MixFromSet):
    """Each medoid with a random other member of its cluster, λ ~ Beta(α, α) each: CRUST, Algorithm 1 and Eq. 11.

    Inputs and targets are blended. Whoever is alone in a cluster stays as it is. The paper gives no α.
    """

    alpha: float = 1.0

    reads: ClassVar[frozenset[str]] = frozenset({"cluster"})

    def __post_init__(self) -> None:
        _refuse_no_beta("ClusterMixup", alpha=self.alpha)

    def draw(self, visits: Visits) -> Pairing | None:
        if "cluster" not in visits.decided:  # a warm-up has none
            return None
        share = beta(self.alpha, self.alpha, visits.generator, torch.device("cpu"), visits.order.shape)
        return _within(visits.decided["cluster"], share, visits)


@dataclass(frozen=True)
class SameClassMixup(MixFromSet):
    """The inputs alone, each with a random other one of the same given class, λ ~ Beta(a, b) a batch.

    The code released with CRUST does this, where λ is mostly near 1, after 5 epochs; Algorithm 1 is `ClusterMixup`.
    """

    a: float = 1.0
    b: float = 0.1

    tasks: ClassVar[tuple[str, ...]] = ("classification",)
    blends_targets: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _refuse_no_beta("SameClassMixup", a=self.a, b=self.b)

    def draw(self, visits: Visits) -> Pairing:
        steps, batch = visits.order.shape
        share = beta(self.a, self.b, visits.generator, torch.device("cpu"), (steps, 1))
        return _within(visits.examples.labels, share.expand(steps, batch), visits)


def _within(groups: Tensor, share: Tensor, visits: Visits) -> Pairing:
    """Partners within the same group [n]; whoever has none keeps all of itself."""
    order = visits.order
    partner = another_of(groups.cpu(), order.cpu(), visits.generator).to(order.device)
    return Pairing(partner, share.to(order.device).where(partner != order, 1.0))


def another_of(groups: Tensor, positions: Tensor, generator: torch.Generator) -> Tensor:
    """For each position a random other one of the same group [n], all equally likely; a lone one gets itself.

    >>> another_of(torch.tensor([7, 3, 7, 5]), torch.tensor([[0, 1], [2, 0]]), torch.Generator()).tolist()
    [[2, 1], [0, 2]]
    """
    own: Tensor = torch.unique(groups, return_inverse=True)[1]
    members, sizes = own.argsort(stable=True), own.bincount()
    starts = sizes.cumsum(0) - sizes
    place = torch.empty_like(members).scatter_(0, members, torch.arange(len(members)) - starts[own[members]])
    at, others = own[positions], sizes[own[positions]] - 1
    drawn = (torch.rand(positions.shape, dtype=torch.float64, generator=generator) * others).long()
    drawn += ((drawn >= place[positions]) & (others > 0)).long()  # never oneself, where there is somebody else
    return members[starts[at] + drawn]


def blend(share: Tensor, values: Tensor, others: Tensor) -> Tensor:
    """share · values + (1 - share) · others, with one share [n] for each row.

    >>> blend(torch.tensor([0.25]), torch.tensor([[4.0, 0.0]]), torch.tensor([[0.0, 4.0]])).tolist()
    [[1.0, 3.0]]
    """
    share = share.reshape(-1, *[1] * (values.ndim - 1))
    return share * values + (1 - share) * others


def beta(
    a: float, b: float, generator: torch.Generator | None, device: torch.device, shape: tuple[int, ...] = ()
) -> Tensor:
    """Draws of this shape from Beta(a, b) on the device, without host synchronisation."""
    # In float32 small a and b would often make both draws 0, and so a share of one half.
    both = [torch.full(shape, value, dtype=torch.float64, device=device) for value in (a, b)]
    gammas = torch._standard_gamma(torch.stack(both), generator=generator)
    gammas = gammas.clamp_min(torch.finfo(gammas.dtype).tiny)
    return (gammas[0] / gammas.sum(0)).float()


def as_mixable(targets: Tensor, classes: int | None) -> Tensor:
    """Targets that can be blended: one-hot rows for class ids, everything else as it is."""
    if classes is not None and targets.ndim == 1:
        return (targets[:, None] == torch.arange(classes, device=targets.device)).float()  # one_hot waits for the host
    return targets


def _refuse_no_beta(what: str, **numbers: float) -> None:
    for name, value in numbers.items():
        if not value > 0:
            raise ThresherError(f"{what}({name}={value}) is no Beta distribution: give {name} above 0.")
