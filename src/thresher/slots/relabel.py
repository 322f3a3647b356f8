"""Relabelling: the targets to train on, where the given ones are not trusted."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from thresher.core.errors import ThresherError, refuse_other_fields
from thresher.core.evidence import Evidence
from thresher.core.recipe import Relabel
from thresher.core.signals import given, predicted
from thresher.core.targets import one_hot_if_ids


def blended_targets(
    given_targets: Tensor, outputs: Tensor, trusted: Tensor, trust: float, temperature: float
) -> Tensor:
    """trust · given + (1 - trust) · p where trusted [n], else p^(1/temperature) scaled to sum 1; p = softmax(outputs).

    >>> rows = torch.tensor([[0.75, 0.25], [0.75, 0.25]]).log()
    >>> blended_targets(torch.eye(2), rows, torch.tensor([True, False]), 0.8, 0.5)
    tensor([[0.9500, 0.0500],
            [0.9000, 0.1000]])
    """
    kept = trust * given_targets + (1 - trust) * outputs.softmax(1)
    return torch.where(trusted[:, None], kept, (outputs / temperature).softmax(1))


@dataclass(frozen=True)
class AverageLabels(Relabel):
    """Labels by the averaged model: where it predicts the given one, trust · given + (1 - trust) · p, else sharp p.

    p is the averaged model's prediction for the batch's first view; sharp p ∝ p^(1/temperature).
    """

    trust: float = 0.8
    temperature: float = 0.5

    needs: ClassVar[frozenset[str]] = frozenset({"average"})
    timeless: ClassVar[bool] = True

    def __post_init__(self) -> None:
        refuse_other_fields(self)
        if not 0 <= self.trust <= 1 or not self.temperature > 0:
            raise ThresherError(f"{type(self).__name__} needs trust between 0 and 1 and a temperature above 0.")

    def __call__(self, evidence: Evidence) -> Tensor:
        average = evidence.other("average")
        if evidence.classes is None:  # real targets cannot agree, so all are blended
            return self.trust * evidence.targets + (1 - self.trust) * average.outputs
        agrees = average.read(predicted) == evidence.read(given)
        return blended_targets(
            one_hot_if_ids(evidence.targets, evidence.classes), average.outputs, agrees, *self._shares()
        )

    def _shares(self) -> tuple[float, float]:
        return self.trust, self.temperature


@dataclass(frozen=True)
class TeacherLabels(AverageLabels):
    """The labels of `AverageLabels`, once an epoch for the whole set; the epoch rule (`trusting`) says which to trust.

    In epochs in which that rule gives no column `trusted`, such as its warm-up, the given targets are kept.
    """

    clock: ClassVar[str] = "epoch"
    tasks: ClassVar[tuple[str, ...]] = ("classification",)
    timeless: ClassVar[bool] = True
    decided: ClassVar[Mapping[str, str]] = {"trusted": "trusting(Agree(), ...)"}

    def __call__(self, evidence: Evidence) -> Tensor:
        targets = one_hot_if_ids(evidence.targets, evidence.classes)
        if "trusted" not in evidence.columns:
            return targets
        trusted = evidence.columns["trusted"] > 0
        return blended_targets(targets, evidence.other("average").outputs, trusted, *self._shares())


@dataclass(frozen=True)
class VoteLabels(TeacherLabels):
    """For the first `epochs` epochs those that are not trusted learn what their neighbours voted for; then as before.

    A network that has seen its inputs but no label yet predicts nothing, while its neighbours know something.
    """

    epochs: int = 0

    decided: ClassVar[Mapping[str, str]] = {**TeacherLabels.decided, "voted": "trusting(NeighbourVote(), ...)"}
    timeless: ClassVar[bool] = True  # on the epoch clock no step asks it

    def __call__(self, evidence: Evidence) -> Tensor:
        targets = super().__call__(evidence)
        if "voted" not in evidence.columns or evidence.epoch >= self.epochs:
            return targets
        winners = one_hot_if_ids(evidence.columns["voted"].long(), evidence.classes)
        return torch.where(evidence.columns["trusted"][:, None] > 0, targets, winners)


@dataclass(frozen=True)
class labels_of_peer(Relabel):  # noqa: N801  # used like a function: labels_of_peer(TeacherLabels())
    """The labels that the relabelling gives by the other network's evidence: each labels for the other.

    Which labels are trusted is decided by the rule of the network itself.
    """

    relabel: Relabel

    clock: ClassVar[str] = "epoch"
    needs: ClassVar[frozenset[str]] = frozenset({"peer"})
    timeless: ClassVar[bool] = True

    def __post_init__(self) -> None:
        refuse_other_fields(self)
        if self.relabel.clock != "epoch":
            raise ThresherError("labels_of_peer asks once an epoch: give it TeacherLabels() or VoteLabels().")

    def __call__(self, evidence: Evidence) -> Tensor:
        return self.relabel(evidence.other("peer").replace(columns=evidence.columns))


@dataclass(frozen=True)
class PredictedLabels(Relabel):
    """share · given + (1 - share) · the predicted class, by the column `given_share` of the epoch's rule.

    With `Dimensionality` in each_epoch this is D2L (Ma et al. 2018, Eq. 6).
    """

    tasks: ClassVar[tuple[str, ...]] = ("classification",)
    timeless: ClassVar[bool] = True
    decided: ClassVar[Mapping[str, str]] = {"given_share": "Dimensionality()"}

    def __call__(self, evidence: Evidence) -> Tensor:
        if "given_share" not in evidence.columns:  # during a warm-up
            return one_hot_if_ids(evidence.targets, evidence.classes)
        share = evidence.columns["given_share"][:, None]
        guesses = one_hot_if_ids(evidence.read(predicted), evidence.classes)
        return share * one_hot_if_ids(evidence.targets, evidence.classes) + (1 - share) * guesses
