"""How processes share a sweep over a set: each sees some of its batches, and all get what was found."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from thresher.engine.several.ranks import Ranks


@dataclass(frozen=True)
class Shards:
    """The batches of a sweep in turn: process r sees the batches r, r + count, r + 2 · count, ...

    A batch is seen whole by one process, so that no number depends on how many there are.
    """

    ranks: Ranks

    def of(self, batches: Sequence[Tensor]) -> list[Tensor]:
        """This process's batches; who has none left in the last turn sees the last one again, which is not used."""
        last = len(batches) - 1
        return [batches[min(first + self.ranks.rank, last)] for first in range(0, len(batches), self.ranks.count)]

    def brought(self, values: Sequence[Tensor], turn: int, batches: Sequence[Tensor]) -> list[list[Tensor]]:
        """What every process found in this turn, in the order of the batches."""
        rows = len(batches[0])
        padded = [torch.cat([v, v.new_zeros(rows - len(v), *v.shape[1:])]) if len(v) < rows else v for v in values]
        found = [self.ranks.each(value) for value in padded]
        first = turn * self.ranks.count
        seen = batches[first : first + self.ranks.count]
        return [[value[place, : len(batch)] for value in found] for place, batch in enumerate(seen)]
