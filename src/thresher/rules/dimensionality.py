"""D2L: how far given labels are believed, by the local dimensionality of the learnt features."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from thresher.core.errors import ThresherError
from thresher.core.evidence import Evidence, Signal
from thresher.core.rule import Decision, Rule
from thresher.core.signals import features

SAMPLES, TOGETHER = 1280, 128  # as in the released code: examples drawn, and the size of the groups compared


def local_dimensionality(points: Tensor, neighbours: int = 20) -> Tensor:
    """The local intrinsic dimensionality [m] of points [m, d]: -(mean over k neighbours of log(rⱼ / r_k))⁻¹.

    rⱼ is the distance to the j-th nearest other point (Amsaleg et al. 2015).

    >>> line = torch.arange(200.0)[:, None] ** 1.01
    >>> bool(local_dimensionality(line).median() < 1.5 < local_dimensionality(torch.randn(200, 5)).median())
    True
    """
    count = min(neighbours, len(points) - 1)
    if count < 2:
        raise ThresherError(f"{len(points)} points are too few for a dimensionality: give at least 3.")
    near = torch.cdist(points.double(), points.double()).topk(count + 1, largest=False).values[:, 1:]
    near = near.clamp_min(torch.finfo(torch.float32).tiny)
    return (-(near / near[:, -1:]).log().mean(1)).clamp_min(1e-6).reciprocal().to(points.dtype)


@dataclass(frozen=True)
class Dimensionality(Rule):
    """Weight 1 for all, and the column `given_share`: α = exp(-progress · LID / least LID so far) (D2L, Eq. 7).

    α is 1 until the turning point, where the mean LID of the features rises above the mean of the last `window` epochs
    by twice their deviation, though not before `start` + `window` epochs (Ma et al. 2018). The released code also
    restores the parameters of the epoch before; this does not.
    """

    start: int = 5
    window: int = 5
    neighbours: int = 20
    by: Signal = features

    clocks: ClassVar[frozenset[str]] = frozenset({"epoch"})
    gives: ClassVar[frozenset[str]] = frozenset({"given_share", "dimensionality"})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.start < 0 or self.window < 2 or self.neighbours < 2:
            raise ThresherError("Dimensionality needs a start of at least 0, a window and neighbours of at least 2.")

    def __call__(self, evidence: Evidence) -> Decision:
        now = self._measured(evidence)
        before = evidence.memory.get("measured", now.new_empty(0))
        turned = evidence.memory.get("turned", torch.zeros((), dtype=torch.bool, device=now.device))
        if len(before) >= self.start + self.window:
            last = before[-self.window :]
            turned = turned | (now - last.mean() > 2 * last.std(correction=0))
        measured = torch.cat([before, now[None]])
        belief = torch.exp(-evidence.epoch / evidence.epochs * now / measured.min())
        share = torch.where(turned, belief, 1.0)
        n = len(evidence)
        columns = {"given_share": share.expand(n).float(), "dimensionality": now.expand(n).float()}
        return Decision(torch.ones(n, device=now.device), columns, {"measured": measured, "turned": turned})

    def _measured(self, evidence: Evidence) -> Tensor:
        """The mean dimensionality of random examples, drawn by id, within groups as large as a batch."""
        points = evidence.read(self.by)[evidence.ids.argsort()]
        if len(points) < 3:
            return points.new_ones(())
        drawn = torch.rand(len(points), generator=evidence.generator, device=points.device).argsort()[:SAMPLES]
        groups = [group for group in torch.split(drawn, TOGETHER) if len(group) > self.neighbours] or [drawn]
        return torch.cat([local_dimensionality(points[group], self.neighbours) for group in groups]).mean()
