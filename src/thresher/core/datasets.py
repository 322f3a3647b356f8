"""Map-style datasets as inputs: some of their items, several as one, and batches by loading workers."""

from collections.abc import Iterable, Sequence
from numbers import Number
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.utils.data import ConcatDataset, DataLoader, default_collate

from thresher.core.errors import ThresherError
from thresher.core.seeding import everything_seeded, generator


class MapDataset(Protocol):
    """Anything with a length and items; an item is an input (also as numbers), or a tuple that starts with one."""

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
            return _as_input(self.dataset[position])


def _as_input(item: Any) -> Tensor:
    """The item, or what it starts with; numbers are all of an input, and so are lists of lists of them."""
    plain = (Number, list) if isinstance(item, list) else Number
    if isinstance(item, (tuple, list)) and not isinstance(item[0], plain):
        item = item[0]
    try:
        return torch.as_tensor(item)
    except (TypeError, ValueError, RuntimeError):
        raise ThresherError(
            f"An item's input is a {type(item).__name__}, which makes no tensor: "
            "let the dataset give a tensor, or a tuple that starts with one."
        ) from None


def _stacked(inputs: list[Tensor]) -> Tensor:
    """A batch, of inputs of one shape."""
    for each in inputs:
        if each.shape != inputs[0].shape:
            shapes = f"{list(inputs[0].shape)} and {list(each.shape)}"
            raise ThresherError(f"Items have inputs of shapes {shapes} in a batch: bring all to one shape first.")
    batch: Tensor = default_collate(inputs)
    return batch


def loaded(items: Seeded, order: Iterable[Tensor], workers: int, pinned: bool) -> Iterable[Tensor]:
    """The items of each row of `order`, as batches."""
    return DataLoader(
        items,  # type: ignore[arg-type]
        batch_sampler=[row.tolist() for row in order],
        num_workers=workers,
        collate_fn=_stacked,
        pin_memory=pinned,
        generator=generator(items.seed, "loader", items.epoch),
    )


def joined(parts: Sequence[Tensor | MapDataset]) -> Tensor | MapDataset:
    """The inputs of several sets as those of one: in memory if all of them are."""
    tensors = [part for part in parts if isinstance(part, Tensor)]
    return torch.cat(tensors) if len(tensors) == len(parts) else ConcatDataset(parts)  # type: ignore[arg-type]
