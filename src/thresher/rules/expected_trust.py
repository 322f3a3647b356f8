"""Expected trust: how far the label of a pool example would be believed, by the labelled examples like it."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from thresher.core.chunks import rows_at_once
from thresher.core.errors import ThresherError
from thresher.core.evidence import Evidence, Signal
from thresher.core.rule import RuleLike
from thresher.core.signals import confidence, features, margin, scaled
from thresher.rules.coresets.k_means import KMeansPlusPlus
from thresher.rules.keep import KeepLargest, KeepSmallest

NEIGHBOURS = 10


@dataclass(frozen=True, eq=False)
class ExpectedTrust:
    """The mean trust of the labelled examples that are nearest by features [n].

    `ids` [m] are those of the labelled examples and `trust` [m] is theirs, as `run.trust()` gives both.
    """

    ids: Tensor
    trust: Tensor
    neighbours: int = NEIGHBOURS

    def __call__(self, evidence: Evidence) -> Tensor:
        labelled = evidence.other("labelled")
        order = labelled.ids.argsort()
        known = labelled.read(features)[order].float()
        trust = self.trust[self.ids.argsort()].to(known.device)
        if not torch.equal(labelled.ids[order].cpu(), self.ids.sort().values.cpu()):
            raise ThresherError("The trust is of other examples than those labelled: pass the trust of this run.")
        return mean_of_nearest_rows(known, trust, evidence.read(features).float(), self.neighbours)


def mean_of_nearest_rows(points: Tensor, values: Tensor, queries: Tensor, count: int) -> Tensor:
    """The mean [n] of the values [q] at the `count` points [q, d] nearest to each query [n, d].

    >>> points, values = torch.tensor([[0.0], [0.2], [9.0]]), torch.tensor([0.0, 1.0, 5.0])
    >>> mean_of_nearest_rows(points, values, torch.tensor([[0.1]]), 2)
    tensor([0.5000])
    """
    nearest = [
        torch.cdist(block, points).topk(min(count, len(points)), largest=False).indices
        for block in torch.split(queries, rows_at_once(len(points), queries))
    ]
    return values[torch.cat(nearest)].mean(1)


def scaled_by_trust(rule: RuleLike, ids: Tensor, trust: Tensor) -> RuleLike:
    """The rule with its signal times the expected trust, so that it avoids labels that cannot be learnt.

    k-means++ and rules that keep the largest read their signal times the trust. Rules that keep the least confidence
    or the least margin keep the largest 1 - signal, times the trust.

    >>> scaled_by_trust(KeepSmallest(by=margin, count=5), torch.arange(3), torch.ones(3)).by.name
    '(1 - margin) × expected_trust'
    """
    expected = Signal("expected_trust", ExpectedTrust(ids, trust), needs=frozenset({"labelled"}), made_of=(features,))
    if isinstance(rule, KMeansPlusPlus):
        return replace(rule, by=scaled(rule.by, expected))
    if isinstance(rule, KeepLargest):
        return replace(rule, by=scaled(rule.by, expected))
    if isinstance(rule, KeepSmallest) and rule.by in (confidence, margin):
        return KeepLargest(by=scaled(_complement(rule.by), expected), fraction=rule.fraction, count=rule.count)
    raise ThresherError(
        f"{type(rule).__name__} reads no signal that trust could scale: choose confidence, margin, badge or s-badge."
    )


def _complement(signal: Signal) -> Signal:
    """1 - signal, for a signal between 0 and 1."""
    return Signal(f"(1 - {signal.name})", lambda evidence: 1 - evidence.read(signal), signal.tasks, made_of=(signal,))
