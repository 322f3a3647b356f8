"""Map-style datasets as inputs: subsets, concatenation, and batches loaded by workers."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from numbers import Number
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.utils.data import ConcatDataset, DataLoader, default_collate

from thresher.core.errors import ThresherError
from thresher.core.seeding import everything_seeded, generator


class MapDataset(Protocol):
    """Anything with a length and items; an item is an input (a tensor or numbers), or a tuple that starts with one."""

    def __len__(self) -> int: ...
    def __getitem__(self, position: int, /) -> Any: ...


class Picked:
    """The items of a map-style dataset at a list of positions."""

    def __init__(self, dataset: MapDataset, positions: list[int]):
        self.dataset, self.positions = dataset, positions

    def __len__(self) -> int:
        return len(self.positions)

    def __getitem__(self, position: int) -> Any:
        return self.dataset[self.positions[position]]


class Seeded:
    """Items whose random transforms depend on (seed, epoch, id) only, not on the worker that loads them."""

    def __init__(self, dataset: MapDataset, ids: list[int], seed: int, epoch: int):
        self.dataset, self.ids, self.seed, self.epoch = dataset, ids, seed, epoch

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, position: int) -> Tensor:
        with everything_seeded(self.seed, self.epoch, self.ids[position]):
            return _as_input(self.dataset[position])


def _as_input(item: Any) -> Tensor:
    """The input of an item: its first part, or all of it where it is made of numbers (also nested in lists)."""
    plain = (Number, list) if isinstance(item, list) else Number
    if isinstance(item, (tuple, list)) and not isinstance(item[0], plain):
        item = item[0]
    try:
        return torch.as_tensor(item)
    except (TypeError, ValueError, RuntimeError):
        raise ThresherError(
            f"An item's input is a {type(item).__name__}, which cannot become a tensor: "
            "let the dataset give a tensor, or a tuple that starts with one."
        ) from None


def _stacked(inputs: list[Tensor]) -> Tensor:
    """The inputs as one batch; they must have the same shape."""
    for each in inputs:
        if each.shape != inputs[0].shape:
            shapes = f"{list(inputs[0].shape)} and {list(each.shape)}"
            raise ThresherError(f"Items have inputs of shapes {shapes} in a batch: bring all to one shape first.")
    batch: Tensor = default_collate(inputs)
    return batch


def gathered(dataset: Any, positions: list[int]) -> Tensor | None:
    """The inputs at these positions as one batch, where the dataset has a method `inputs_at` for it; else None."""
    if isinstance(dataset, Picked):
        return gathered(dataset.dataset, [dataset.positions[place] for place in positions])
    if isinstance(dataset, ConcatDataset):
        ends = dataset.cumulative_sizes
        parts = [bisect_right(ends, place) for place in positions]
        first = [0, *ends]
        rows = [
            gathered(dataset.datasets[part], [place - first[part]])
            for part, place in zip(parts, positions, strict=True)
        ]
        found = [row for row in rows if row is not None]
        return torch.cat(found) if len(found) == len(positions) else None
    inputs_at = getattr(dataset, "inputs_at", None)
    batch: Tensor | None = None if inputs_at is None else inputs_at(positions)
    return batch


def loaded(items: Seeded, order: Iterable[Tensor], workers: int, pinned: bool) -> Iterable[Tensor]:
    """The items of each row of `order`, as batches; by workers, unless the dataset holds them ready."""
    if len(items) and gathered(items.dataset, [0, len(items) - 1]) is not None:
        return (batch for row in order if (batch := gathered(items.dataset, row.tolist())) is not None)
    return DataLoader(
        items,  # type: ignore[arg-type]
        batch_sampler=[row.tolist() for row in order],
        num_workers=workers,
        collate_fn=_stacked,
        pin_memory=pinned,
        generator=generator(items.seed, "loader", items.epoch),
    )


def joined(parts: Sequence[Tensor | MapDataset]) -> Tensor | MapDataset:
    """The inputs of several sets as one: a tensor if all of them are tensors."""
    tensors = [part for part in parts if isinstance(part, Tensor)]
    return torch.cat(tensors) if len(tensors) == len(parts) else ConcatDataset(parts)  # type: ignore[arg-type]
