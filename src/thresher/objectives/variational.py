"""Variational information distillation: the student's layers predict the teacher's (VID, Ahn et al. 2019)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from thresher.core.errors import ThresherError
from thresher.core.evidence import Evidence
from thresher.objectives.distillation import Distillation

LEAST_VARIANCE = 1e-5
FIRST_VARIANCE = 5.0  # large enough that the labels dominate at first


@dataclass(frozen=True)
class LayerPair:
    """A layer of the student, the layer of the teacher it predicts, and how many channels each has."""

    student: str
    teacher: str
    student_width: int
    teacher_width: int


class Variational(Distillation):
    """ℓᵢ = Distillation + strength · Σ_pairs mean_c,x [log σ_c + (t_cx - μ_cx(s))² / (2 σ_c²)] (their Eqs. 2, 4 and 6).

    s and t are outputs of a pair of layers: vectors [n, channels], tokens [n, places, channels] or maps [n, channels,
    height, width]. μ is a head of two linear layers at each place x, and σ² a softplus for each of the teacher's
    channels c; they are trained with the student. The mean, where the paper sums, makes `strength` independent of the
    size of layers.
    """

    needs: ClassVar[frozenset[str]] = frozenset({"teacher"})
    timeless: ClassVar[bool] = True

    def __init__(self, pairs: Sequence[LayerPair], strength: float = 1.0, temperature: float = 1.0):
        super().__init__(temperature)
        if not pairs or not strength >= 0:
            raise ThresherError("Variational needs at least one pair of layers, and a strength of at least 0.")
        self.pairs, self.strength = tuple(pairs), strength
        self.layers = tuple(dict.fromkeys(pair.student for pair in pairs))
        self.teacher_layers = tuple(dict.fromkeys(pair.teacher for pair in pairs))
        self.heads = nn.ModuleList(_head(pair.student_width, pair.teacher_width) for pair in pairs)
        start = torch.tensor(FIRST_VARIANCE - LEAST_VARIANCE).expm1().log().item()
        self.variances = nn.ParameterList(torch.full((pair.teacher_width,), start) for pair in pairs)

    def forward(self, evidence: Evidence) -> Tensor:
        losses = super().forward(evidence)
        teacher = evidence.other("teacher")
        for pair, head, raw in zip(self.pairs, self.heads, self.variances, strict=True):
            own, theirs = _alike(evidence.layer(pair.student), teacher.layer(pair.teacher))
            variance = functional.softplus(raw) + LEAST_VARIANCE
            surprise = variance.log() / 2 + (theirs - head(own)).square() / (2 * variance)
            losses = losses + self.strength * surprise.flatten(1).mean(1)
        return losses

    def extra_repr(self) -> str:
        told = ", ".join(f"{pair.student} tells {pair.teacher}" for pair in self.pairs)
        return f"{super().extra_repr()}, strength={self.strength:g}, {told}"


def _head(width: int, wanted: int) -> nn.Module:
    return nn.Sequential(nn.Linear(width, wanted), nn.ReLU(), nn.Linear(wanted, wanted))


def _alike(own: Tensor, theirs: Tensor) -> tuple[Tensor, Tensor]:
    """Both layers as [n, places, channels]; of maps of different size the larger is averaged down to the smaller.

    Where places cannot be paired, as of a map and a vector, means over them are compared.
    """
    if own.ndim == 4 and theirs.ndim == 4:
        size = min(own.shape[2], theirs.shape[2]), min(own.shape[3], theirs.shape[3])
        own, theirs = (functional.adaptive_avg_pool2d(each.float(), size) for each in (own, theirs))
    own, theirs = by_place(own), by_place(theirs)
    if own.shape[1] != theirs.shape[1]:
        own, theirs = own.mean(1, keepdim=True), theirs.mean(1, keepdim=True)
    return own, theirs


def by_place(layer: Tensor) -> Tensor:
    """A vector [n, channels], tokens [n, places, channels] or a map [n, channels, ...] as [n, places, channels]."""
    if layer.ndim == 2:
        return layer[:, None].float()
    return (layer if layer.ndim == 3 else layer.flatten(2).transpose(1, 2)).float()
