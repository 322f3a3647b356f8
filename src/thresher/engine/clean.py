"""The clean set in training: which of its examples each step looks at."""

from collections.abc import Iterable

import torch
from torch import Tensor

from thresher.examples import Examples
from thresher.seeding import generator


class CleanStream:
    """Batches of the clean set: everyone once in random order, then again; a remainder opens the next epoch."""

    def __init__(self, clean: Examples | None, batch: int, seed: int):
        self.clean, self.batch, self.seed = clean, batch, seed
        self.carry = torch.empty(0, dtype=torch.long)

    def order(self, epoch: int, steps: int) -> Tensor | None:
        """Positions [steps, batch] of an epoch, or None where nobody reads a clean set."""
        if self.clean is None:
            return None
        draws, order = generator(self.seed, "clean", epoch), self.carry
        while len(order) < steps * self.batch:
            start = len(order) // self.batch * self.batch
            order = torch.cat([order[:start], queued(order[start:], torch.randperm(len(self.clean), generator=draws))])
        used = steps * self.batch
        self.carry = order[used:]
        return order[:used].view(steps, self.batch).to(self.clean.targets.device)

    def inputs(self, order: Tensor | None, epoch: int, workers: int, steps: int) -> Iterable[Tensor | None]:
        """What a stream brings for each step; a set in memory is gathered inside the step."""
        if self.clean is None or order is None or self.clean.in_memory:
            return [None] * steps
        return self.clean.batches(order, seed=self.seed, epoch=epoch, workers=workers)


def queued(carry: Tensor, drawn: Tensor) -> Tensor:
    """The remainder, then those drawn; who is in both comes last, so that no batch holds an example twice.

    >>> queued(torch.tensor([2]), torch.tensor([1, 2, 0])).tolist()
    [2, 1, 0, 2]
    """
    repeated = torch.isin(drawn, carry)
    return torch.cat([carry, drawn[~repeated], drawn[repeated]])
