"""Map-style datasets as inputs: subsets, concatenation, and batches loaded by workers."""

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from numbers import Number
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.utils.data import ConcatDataset, DataLoader, default_collate

from thresher.core.errors import ThresherError
from thresher.core.seeding import everything_seeded, generator
from thresher.core.trees import Tree, as_tree, concatenated, in_single_precision, is_tree, leaves, mapped

Collate = Callable[[list[Any]], Any]  # items as a dataset gives them -> one batch of them


class MapDataset(Protocol):
    """Anything with a length and items; an item is an input (a tensor, numbers, a dict of such), or a tuple whose first
    part is one.
    """

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
    """Items whose random transforms depend on (seed, epoch, id) only, not on the worker that loads them.

    They are inputs; or `whole` items, as the dataset gives them, for a function that makes batches of those.
    """

    def __init__(self, dataset: MapDataset, ids: list[int], seed: int, epoch: int, whole: bool = False):
        self.dataset, self.ids, self.seed, self.epoch, self.whole = dataset, ids, seed, epoch, whole

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, position: int) -> Tree:
        with everything_seeded(self.seed, self.epoch, self.ids[position]):
            item = self.dataset[position]
            return item if self.whole else as_input(item)


def as_input(item: Any) -> Tree:
    """The input of an item: its first part, or all of it where it is made of numbers (also nested in lists)."""
    plain = (Number, list) if isinstance(item, list) else Number
    if isinstance(item, (tuple, list)) and not isinstance(item[0], plain):
        item = item[0]
    if isinstance(item, Mapping | tuple):
        return in_single_precision(as_tree(item, "An item"))
    try:
        return in_single_precision(torch.as_tensor(item))
    except (TypeError, ValueError, RuntimeError):
        raise ThresherError(
            f"An item's input is a {type(item).__name__}, which cannot become a tensor: "
            "let the dataset give a tensor, a dict of tensors, or a tuple that starts with one."
        ) from None


def _stacked(inputs: list[Tree]) -> Tree:
    """The inputs as one batch; they must have the same shape."""
    return mapped(lambda *parts: _stacked_leaves(list(parts)), *inputs)


def _stacked_leaves(inputs: list[Tensor]) -> Tensor:
    for each in inputs:
        if each.shape != inputs[0].shape:
            shapes = f"{list(inputs[0].shape)} and {list(each.shape)}"
            raise ThresherError(
                f"Items have inputs of shapes {shapes} in a batch: bring all to one shape first, or give Examples a "
                "collate= that pads a batch."
            )
    batch: Tensor = default_collate(inputs)
    return batch


class Collated:
    """A caller's function as one that makes batches of inputs: targets that it returns beside them are left out."""

    def __init__(self, collate: Collate):
        self.collate = collate

    def __call__(self, items: list[Any]) -> Tree:
        return as_input(self.collate(items))


class Without:
    """Mappings without some of their names: those of a dataset, or the batches that a collate function makes."""

    def __init__(self, source: Any, names: Collection[str]):
        self.source, self.names = source, names

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, position: int) -> Any:
        return self._without(self.source[position])

    def __call__(self, items: list[Any]) -> Any:
        return self._without(self.source(items))

    def _without(self, mapping: Mapping[str, Any]) -> dict[str, Any]:
        return {name: part for name, part in mapping.items() if name not in self.names}


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


def loaded(
    items: Seeded, order: Iterable[Tensor], workers: int, pinned: bool, collate: Collate | None = None
) -> Iterable[Tree]:
    """The items of each row of `order`, as batches; by workers, unless the dataset holds them ready."""
    if collate is None and len(items) and gathered(items.dataset, [0, len(items) - 1]) is not None:
        return (batch for row in order if (batch := gathered(items.dataset, row.tolist())) is not None)
    return DataLoader(
        items,  # type: ignore[arg-type]
        batch_sampler=[row.tolist() for row in order],
        num_workers=workers,
        collate_fn=_stacked if collate is None else Collated(collate),
        pin_memory=pinned,
        generator=generator(items.seed, "loader", items.epoch),
    )


def joined(parts: Sequence[Tree | MapDataset]) -> Tree | MapDataset:
    """The inputs of several sets as one: in memory if all of them are."""
    if all(is_tree(part) for part in parts):
        return concatenated(parts)
    listed: list[Any] = [_Rows(part) if isinstance(part, Mapping | tuple) else part for part in parts]
    return ConcatDataset(listed)


class _Rows:
    """A tree in memory as a map-style dataset."""

    def __init__(self, tree: Tree):
        self.tree = tree

    def __len__(self) -> int:
        return len(leaves(self.tree)[0])

    def __getitem__(self, position: int) -> tuple[Tree]:
        return (mapped(lambda leaf: leaf[position], self.tree),)
