"""Relabelling: what an example should teach, where its given target is not trusted."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from thresher.engine.evidence import Evidence
from thresher.errors import ThresherError
from thresher.mix import as_mixable
from thresher.rules.rule import Reader
from thresher.signals import given, predicted


class Relabel(Reader, ABC):
    """`relabel(evidence) -> targets`: the targets to train on in this step; the ledger keeps the given ones."""

    @abstractmethod
    def __call__(self, evidence: Evidence) -> Tensor: ...


@dataclass(frozen=True)
class AverageLabels(Relabel):
    """Believe the averaged model: where it predicts the given label, trust · given + (1 - trust) · p, else sharp p.

    p is the averaged model's prediction; sharp p ∝ p^(1/temperature).
    """

    trust: float = 0.8
    temperature: float = 0.5

    needs: ClassVar[frozenset[str]] = frozenset({"average"})

    def __post_init__(self) -> None:
        if not 0 <= self.trust <= 1 or not self.temperature > 0:
            raise ThresherError("AverageLabels needs trust between 0 and 1 and a temperature above 0.")

    def __call__(self, evidence: Evidence) -> Tensor:
        if evidence.classes is None:
            return self._blend_real(evidence)
        average = evidence.other("average")
        probabilities = average.outputs.softmax(1)
        sharp = (average.outputs / self.temperature).softmax(1)
        kept = self.trust * as_mixable(evidence.targets, evidence.classes) + (1 - self.trust) * probabilities
        agrees = average.read(predicted) == evidence.read(given)
        return torch.where(agrees[:, None], kept, sharp)

    def _blend_real(self, evidence: Evidence) -> Tensor:
        """Real targets have no agreement to test, so everyone gets trust · given + (1 - trust) · prediction."""
        return self.trust * evidence.targets + (1 - self.trust) * evidence.other("average").outputs


@dataclass(frozen=True)
class PredictedLabels(Relabel):
    """share · given + (1 - share) · the predicted class, where the epoch's rule says the share: column `given_share`.

    With `Dimensionality` in each_epoch this is D2L (Ma et al. 2018, Eq. 6).
    """

    reads: ClassVar[frozenset[str]] = frozenset({"given_share"})

    def __call__(self, evidence: Evidence) -> Tensor:
        if evidence.classes is None:
            raise ThresherError("PredictedLabels needs classes to predict: choose another relabel for regression.")
        share = evidence.columns["given_share"][:, None]
        guesses = as_mixable(evidence.read(predicted), evidence.classes)
        return share * as_mixable(evidence.targets, evidence.classes) + (1 - share) * guesses
