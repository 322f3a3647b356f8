"""The batch order of an epoch: of the training set, of the clean set, and of partners to mix with."""

import warnings
from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor

from thresher.core.errors import ThresherError
from thresher.core.examples import Examples
from thresher.core.rule import Decision, in_epoch
from thresher.core.seeding import generator
from thresher.core.slots import Draw, MixFromSet, MixLike, Pairing, Visits
from thresher.core.trees import Tree


class TrainStream:
    """Full batches of the examples that count in an epoch; the remainder opens the next one.

    Where fewer count than a batch holds, they are repeated to fill one, so that a method that trusts little goes on.
    """

    def __init__(self, train: Examples, draw: Draw, batch: int, seed: int):
        self.train, self.draw, self.batch, self.seed = train, draw, batch, seed
        self.carry = torch.empty(0, dtype=torch.long)

    def order(self, epoch: int, decisions: Sequence[Decision] | None, at_most: int | None) -> Tensor:
        """Positions [steps, batch] of an epoch, of no more than so many steps."""
        counted = torch.arange(len(self.train))
        if decisions is not None:
            counts = torch.stack([decision.weights for decision in decisions]).amax(0).cpu() > 0
            counted, self.carry = counted[counts], self.carry[counts[self.carry]]
        if not len(counted):
            raise ThresherError("The epoch rule keeps no example: let it keep some, as many as a batch or more.")
        drawn = self.draw(counted, self.train, generator(self.seed, "order", epoch))
        order = queued(self.carry, drawn)
        if len(counted) < self.batch:
            warnings.warn(
                f"The epoch rule keeps {len(counted)} examples, fewer than a batch, which repeats them: lower batch=.",
                stacklevel=2,
            )
            order = drawn.repeat(-(-self.batch // len(drawn)))[: max(len(drawn), self.batch)]
        steps = len(order) // self.batch
        used = (steps if at_most is None else min(steps, at_most)) * self.batch
        self.carry = order[used:]
        return order[:used].view(-1, self.batch).to(self.train.targets.device)


class CleanStream:
    """Batches of the clean set: each example once in random order, then again; a remainder opens the next epoch."""

    def __init__(self, clean: Examples | None, batch: int, seed: int):
        self.clean, self.batch, self.seed = clean, batch, seed
        self.carry = torch.empty(0, dtype=torch.long)

    def order(self, epoch: int, steps: int) -> Tensor | None:
        """Positions [steps, batch] of an epoch, or None where no rule reads a clean set."""
        if self.clean is None:
            return None
        draws, order = generator(self.seed, "clean", epoch), self.carry
        while len(order) < steps * self.batch:
            start = len(order) // self.batch * self.batch
            order = torch.cat([order[:start], queued(order[start:], torch.randperm(len(self.clean), generator=draws))])
        used = steps * self.batch
        self.carry = order[used:]
        return order[:used].view(steps, self.batch).to(self.clean.targets.device)


class PartnerStream:
    """Partners from the whole set for every visit of an epoch, where the recipe's mix draws such."""

    def __init__(self, mix: MixLike | None, train: Examples, seed: int):
        self.mix, self.train, self.seed = mix, train, seed

    def draw(self, order: Tensor, decided: Mapping[str, Tensor], epoch: int) -> Pairing | None:
        """Partners and shares [steps, batch], or None where no partner comes from the whole set."""
        mix = in_epoch(epoch, self.mix)
        if not isinstance(mix, MixFromSet):
            return None
        return mix.draw(Visits(order, self.train, decided, epoch, generator(self.seed, "mix", epoch)))


def streamed(
    examples: Examples | None, order: Tensor | None, steps: int, *, seed: int, epoch: int, workers: int
) -> Iterable[Tree | None]:
    """The inputs that a stream brings for each step; a set in memory is gathered inside the step."""
    if examples is None or order is None or examples.in_memory:
        return [None] * steps
    return examples.batches(order, seed=seed, epoch=epoch, workers=workers)


def queued(carry: Tensor, drawn: Tensor) -> Tensor:
    """The remainder, then those drawn; those in both come last, so that no batch holds an example twice.

    >>> queued(torch.tensor([2]), torch.tensor([1, 2, 0])).tolist()
    [2, 1, 0, 2]
    """
    repeated = torch.isin(drawn, carry)
    return torch.cat([carry, drawn[~repeated], drawn[repeated]])
