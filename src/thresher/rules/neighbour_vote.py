"""Votes of the nearest neighbours: an example is trusted where its label wins among those that look like it."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from thresher.core.chunks import rows_at_once
from thresher.core.errors import ThresherError
from thresher.core.evidence import Evidence, Signal
from thresher.core.rounds import Rounds
from thresher.core.rule import Decision, Rule
from thresher.core.signals import confidence, features, given, predicted
from thresher.core.targets import one_hot_if_ids


def _voted(evidence: Evidence) -> Tensor:
    return _column(evidence, "voted").long()


def _vote_share(evidence: Evidence) -> Tensor:
    return _column(evidence, "vote_share")


def _column(evidence: Evidence, name: str) -> Tensor:
    if name not in evidence.columns:
        raise ThresherError(f"The signal {name} is of a vote: read it in the rest of trusting(NeighbourVote(), rest).")
    return evidence.columns[name]


CLASSES = ("classification",)
voted = Signal("voted", _voted, CLASSES, of_targets=True, made_of=(given,), timeless=True)
"""The class that most neighbours voted for, inside the `rest` of trusting(NeighbourVote(), rest)."""
vote_share = Signal("vote_share", _vote_share, CLASSES, of_targets=True, made_of=(given,), timeless=True)
"""Its share of the votes."""
NEIGHBOURS = "neighbours"  # of each example, in the memory of the rule
BLOCKS = 8  # times as many rows as other rules compute at once: each takes a selection beside the product


def neighbour_votes(embeddings: Tensor, labels: Tensor, classes: int, count: int) -> Tensor:
    """How many of the `count` nearest others of each example [n, width], by cosine, have each label [n, classes].

    Others that are as near as the last of them vote too. Distances are computed in blocks of rows.

    >>> places = torch.tensor([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [0.1, 1.0]])
    >>> neighbour_votes(places, torch.tensor([0, 1, 1, 1]), 2, 1).tolist()
    [[0.0, 1.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]
    """
    n = len(embeddings)
    near = min(count, n - 1)
    if near < 1:
        return embeddings.new_zeros(n, classes)
    directions, voters = functional.normalize(embeddings.float(), dim=1), one_hot_if_ids(labels, classes)
    votes = []
    at_once = BLOCKS * rows_at_once(n, embeddings)
    for rows in torch.split(torch.arange(n, device=embeddings.device), at_once):
        cosines = directions[rows] @ directions.T
        cosines.scatter_(1, rows[:, None], -torch.inf)  # no example votes for itself
        last = cosines.topk(near, dim=1, sorted=False).values.amin(1, keepdim=True)
        votes.append((cosines >= last).to(voters.dtype) @ voters)
    return torch.cat(votes)


def nearest_others(embeddings: Tensor, count: int) -> Tensor:
    """The places of the `count` nearest others of each example [n, width], by cosine, in blocks of rows [n, count].

    >>> nearest_others(torch.tensor([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [0.1, 1.0]]), 1).tolist()
    [[1], [0], [3], [2]]
    """
    n = len(embeddings)
    near = min(count, n - 1)
    directions, places = functional.normalize(embeddings.float(), dim=1), []
    for rows in torch.split(torch.arange(n, device=embeddings.device), BLOCKS * rows_at_once(n, embeddings)):
        cosines = directions[rows] @ directions.T
        cosines.scatter_(1, rows[:, None], -torch.inf)
        places.append(cosines.topk(near, dim=1, sorted=False).indices.int())
    return torch.cat(places)


def votes_at(places: Tensor, labels: Tensor, classes: int) -> Tensor:
    """How many of the examples at these places [n, count] have each label [n, classes].

    >>> votes_at(torch.tensor([[1, 2], [0, 2]]), torch.tensor([0, 1, 1]), 2).tolist()
    [[0.0, 2.0], [1.0, 1.0]]
    """
    votes = []
    for rows in torch.split(places, rows_at_once(max(1, places.shape[1]), labels)):
        theirs = labels[rows.long()]
        votes.append(torch.zeros(len(rows), classes, device=labels.device).scatter_add_(1, theirs, _ones(theirs)))
    return torch.cat(votes)


def _ones(like: Tensor) -> Tensor:
    return torch.ones((), device=like.device).expand(like.shape)


def shares_of_votes(votes: Tensor, labels: Tensor) -> Tensor:
    """The votes [n, classes] divided by how frequent each class is among the voters, so that large classes win no more.

    Rows sum to 1, or are 0 without any vote.

    >>> shares_of_votes(torch.tensor([[3.0, 1.0]]), torch.tensor([0, 0, 0, 1])).tolist()
    [[0.5, 0.5]]
    """
    frequency = torch.zeros(votes.shape[1], device=votes.device).scatter_add(0, labels, votes.new_ones(len(labels)))
    balanced = votes / frequency.clamp_min(1)
    return balanced / balanced.sum(1, keepdim=True).clamp_min(torch.finfo(votes.dtype).tiny)


@dataclass(frozen=True)
class NeighbourVote(Rule):
    """Weight 1 where the given label has most votes of the `count` nearest neighbours, in shares of its class; else 0.

    A neighbour votes for its given label, or for the predicted one where its confidence is above `sure` (SSR, Feng et
    al. 2022). The columns are the winner (`voted`), its share of the votes and that of the given label (`vote_given`).
    With `kept` the neighbours stay those of the first epoch in which it is asked: after a start that learned the inputs
    alone, no label can bring an example among neighbours that share its error.
    """

    count: int = 200
    sure: float | None = 0.9
    by: Signal = features
    kept: bool = False

    clocks: ClassVar[frozenset[str]] = frozenset({"epoch"})
    gives: ClassVar[frozenset[str]] = frozenset({"voted", "vote_share", "vote_given"})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.count < 1 or (self.sure is not None and not 0 <= self.sure <= 1):
            raise ThresherError("NeighbourVote needs a count of at least 1 and `sure` between 0 and 1, or None.")

    def rounds(self, evidence: Evidence, parts: int) -> Rounds | None:  # noqa: ARG002
        """Neighbours are then the nearest of the same part, and what the parts decide stands."""
        return None if self.kept else Rounds([self] * parts)

    def __call__(self, evidence: Evidence) -> Decision:
        own, classes = evidence.read(given), evidence.classes
        assert classes is not None
        labels = own
        if self.sure is not None:
            labels = torch.where(evidence.read(confidence) > self.sure, evidence.read(predicted), own)
        votes, memory = self._votes(evidence, labels, classes)
        shares = shares_of_votes(votes, labels)
        most, winner = shares.max(1)
        mine = shares.gather(1, own[:, None])[:, 0]
        return Decision((mine >= most).float(), {"voted": winner.int(), "vote_share": most, "vote_given": mine}, memory)

    def _votes(self, evidence: Evidence, labels: Tensor, classes: int) -> tuple[Tensor, dict[str, Tensor]]:
        """The votes [n, classes], and the neighbours where they are kept."""
        if not self.kept:
            return neighbour_votes(evidence.read(self.by), labels, classes, self.count), {}
        places = evidence.memory.get(NEIGHBOURS)
        if places is None:
            places = nearest_others(evidence.read(self.by), self.count)
        return votes_at(places, labels, classes), {NEIGHBOURS: places}


@dataclass(frozen=True)
class Voted(Rule):
    """Weight 1 where the class that the averaged model predicts is the one that neighbours voted for, else 0.

    As a part of `rest` in trusting(from_average(NeighbourVote()), rest), which gives the column `voted`.
    """

    needs: ClassVar[frozenset[str]] = frozenset({"average"})
    clocks: ClassVar[frozenset[str]] = frozenset({"epoch"})

    def __call__(self, evidence: Evidence) -> Tensor:
        return (evidence.other("average").read(predicted) == evidence.read(voted)).float()
