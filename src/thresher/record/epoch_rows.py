"""The rows of an epoch: what steps note about their examples, on the device, until the ledger takes them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from thresher.core.examples import Examples

NOTES_AT_ONCE, MOST_NUMBERS = 2**13, 2**20  # notes, and numbers of their outputs, that wait to be written
FIXED = ("visited", "signal", "weight", "loss", "p_given", "belief", "confidence")


@dataclass(frozen=True)
class Note:
    """Outputs, losses and weights of the examples at positions `index` of the set."""

    index: Tensor
    outputs: Tensor
    losses: Tensor
    weights: Tensor
    signal: Tensor | None = None


def steps_at_once(batch: int, outputs: int) -> int:
    """How many steps' notes are written at once: of thousands of classes a few steps hold as many numbers.

    >>> steps_at_once(128, 10), steps_at_once(128, 10_000)
    (64, 1)
    """
    return -(-min(NOTES_AT_ONCE, MOST_NUMBERS // outputs) // batch)


Together = Callable[[Sequence[Note]], Sequence[Note]]  # brings the notes of several processes together


class EpochRows:
    """The rows of one epoch and one network, kept on the device: [n + 1, 7 + predictions].

    The last row belongs to no example: it takes visits that a later visit of the same epoch overrides.
    Belief is p_given without the network's preference for some classes: outputs are shifted so that, over the epochs,
    mean predictions approach the frequencies of the given labels. Otherwise the examples of a class that the network
    never predicts would all have a belief near zero.
    Notes are written `every` so many steps, because the cost of a small write is mostly that of launching its kernels.
    """

    def __init__(self, examples: Examples, every: int = 1, together: Together | None = None):
        self.examples, self.every, self.together = examples, every, together
        width = examples.targets.shape[1] if examples.is_regression else 1  # or the share that is right
        device = examples.targets.device
        self.table = torch.zeros(len(examples) + 1, len(FIXED) + width, device=device)
        if examples.classes is not None:
            self.labels = torch.cat([examples.labels, torch.zeros(1, dtype=torch.long, device=device)])
            counts = torch.zeros(examples.classes or 0, device=device).index_add_(
                0, examples.labels, torch.ones(len(examples), device=device)
            )
            self.frequencies = counts / counts.sum()
            self.shift = torch.zeros_like(counts)
            self.mass = torch.zeros_like(counts)
        self.notes: list[Note] = []

    def add(self, note: Note) -> None:
        self.notes.append(note)
        if len(self.notes) >= self.every:
            self.flush()

    def flush(self) -> None:
        """Write the collected notes."""
        if self.notes:
            self._write(self.notes if self.together is None else self.together(self.notes))
            self.notes = []

    @torch.no_grad()
    def _write(self, notes: Sequence[Note]) -> None:
        index, outputs, losses, weights = (
            torch.cat([getattr(note, name) for note in notes]) for name in ("index", "outputs", "losses", "weights")
        )
        missing = torch.full_like(notes[0].losses, float("nan"))
        signal = torch.cat([missing if note.signal is None else note.signal for note in notes])
        if self.examples.classes is None:
            p_given = belief = confidence = torch.zeros_like(losses)
            prediction = outputs
        else:
            labels, shifted = self.labels[index][:, None], (outputs + self.shift).softmax(1)
            (top, best), total = outputs.max(1), outputs.logsumexp(1)
            p_given, belief = (outputs.gather(1, labels)[:, 0] - total).exp_(), shifted.gather(1, labels)[:, 0]
            confidence = (top - total).exp_()
            self.mass += shifted.sum(0)
            prediction = best[:, None].to(losses.dtype)
        known = torch.stack([torch.ones_like(losses), signal, weights, losses, p_given, belief, confidence], 1)
        self.table.index_copy_(0, index, torch.cat([known, prediction], 1))

    def visited(self) -> np.ndarray[Any, Any]:
        """Whether a step visited each example [n]."""
        self.flush()
        return self.table[:-1, 0].cpu().numpy() > 0

    def weights(self) -> Tensor:
        """The weight of each example that a step visited [n]."""
        self.flush()
        return self.table[:-1, 2]

    def fill(self, note: Note) -> None:
        """Write rows of examples that no step has seen unmixed; whether a step visited them stays as it is."""
        self.flush()
        visited = self.table[note.index, 0]
        self._write([note])
        self.table[note.index, 0] = visited

    def take(self) -> dict[str, np.ndarray[Any, Any]]:
        """The epoch's rows on the host, each column [n]; the next epoch starts empty."""
        self.flush()
        rows = self.table[:-1].cpu().numpy().copy()
        self.table.zero_()
        if self.examples.classes is not None:
            predicted = self.mass / self.mass.sum().clamp_min(1)
            self.shift += torch.log(self.frequencies.clamp_min(1e-6)) - torch.log(predicted.clamp_min(1e-6))
            self.mass.zero_()
        columns = {name: rows[:, place] for place, name in enumerate(FIXED)}
        columns["visited"] = columns["visited"] > 0
        return {**columns, "prediction": rows[:, len(FIXED) :]}


def last_visits(order: Tensor, n: int) -> Tensor:
    """`order` [steps, batch] with `n` in place of every visit that a later one of the same example overrides.

    >>> last_visits(torch.tensor([[0, 2], [1, 0]]), 3).tolist()
    [[3, 2], [1, 0]]
    """
    flat = order.flatten().cpu().numpy()
    last = np.zeros(n, np.int64)
    last[flat] = np.arange(len(flat))  # numpy assigns in order, so the last visit stays
    rows = np.where(last[flat] == np.arange(len(flat)), flat, n)
    return torch.from_numpy(rows).view_as(order).to(order.device)


def residual_belief(losses: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """1 - rank/(n-1) of each loss, which replaces the probability of the given target in regression.

    >>> residual_belief(np.array([0.1, 5.0, 0.2]))
    array([1. , 0. , 0.5], dtype=float32)
    """
    ranks = np.empty(len(losses), np.float32)
    ranks[np.argsort(losses, kind="stable")] = np.arange(len(losses), dtype=np.float32)
    return np.asarray(1 - ranks / max(len(losses) - 1, 1), np.float32)
