"""Map-style datasets as inputs: some of their items, several as one, and batches by loading workers."""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.utils.data import ConcatDataset, DataLoader

from thresher.seeding import everything_seeded, generator


class MapDataset(Protocol):
    """Anything with a length and items; an item is an input, or a tuple that starts with one."""

    def __len__(self) -> int: ...
    def __getitem__(self, position: int, /) -> Any: ...


class Picked:
    """A map-style dataset seen through a list of positions."""

    def __init__(self, dataset: MapDataset, positions: list[int]):
        self.dataset, self.positions = dataset, positions

    def __len__(self) -> int:
        return len(self.positions)

    def __getitem__(self, position: int) -> Any:
        return self.dataset[self.positions[position]]


class Seeded:
    """Items whose random transforms depend on (seed, epoch, id) only, in whichever worker they run."""

    def __init__(self, dataset: MapDataset, ids: list[int], seed: int, epoch: int):
        self.dataset, self.ids, self.seed, self.epoch = dataset, ids, seed, epoch

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, position: int) -> Tensor:
        with everything_seeded(self.seed, self.epoch, self.ids[position]):
            item = self.dataset[position]
            return torch.as_tensor(item[0] if isinstance(item, (tuple, list)) else item)


def loaded(items: Seeded, order: Iterable[Tensor], workers: int, pinned: bool) -> Iterable[Tensor]:
    """The items of each row of `order`, as batches."""
    return DataLoader(
        items,  # type: ignore[arg-type]
        batch_sampler=[row.tolist() for row in order],
        num_workers=workers,
        pin_memory=pinned,
        generator=generator(items.seed, "loader", items.epoch),
    )


def joined(parts: Sequence[Tensor | MapDataset]) -> Tensor | MapDataset:
    """The inputs of several sets as those of one: in memory if all of them are."""
    tensors = [part for part in parts if isinstance(part, Tensor)]
    return torch.cat(tensors) if len(tensors) == len(parts) else ConcatDataset(parts)  # type: ignore[arg-type]
