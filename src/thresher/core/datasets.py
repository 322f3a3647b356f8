"""Map-style datasets as inputs: subsets, concatenation, and batches loaded by workers."""

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from numbers import Number
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.utils.data import ConcatDataset, DataLoader, default_collate

from thresher.core.errors import ThresherError, raised_in
from thresher.core.example_checks import check_tensor
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
        self.shapes: list[torch.Size] = []  # of the first item that was read

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, position: int) -> Tree:
        where = f"the item at position {position}, the example {self.ids[position]}"
        with everything_seeded(self.seed, self.epoch, self.ids[position]), raised_in(where):
            item = self.dataset[position]
        if self.whole:
            return item
        made = as_input(item, where)
        if any(leaf.is_floating_point() and not bool(torch.isfinite(leaf).all()) for leaf in leaves(made)):
            raise ThresherError(f"The input of {where}, is NaN or infinite: clean it before training.")
        shapes = [leaf.shape for leaf in leaves(made)]
        self.shapes = self.shapes or shapes
        if shapes != self.shapes:
            raise ThresherError(
                f"The input of {where}, has the shape {_said(shapes)} and one before it {_said(self.shapes)}: bring "
                "all to one shape, or give Examples a collate= that pads a batch."
            )
        return made


def _said(shapes: list[torch.Size]) -> str:
    return " and ".join(str(list(shape)) for shape in shapes)


def as_input(item: Any, where: str = "a batch") -> Tree:
    """The input of an item: its first part, or all of it where it is made of numbers (also nested in lists)."""
    plain = (Number, list) if isinstance(item, list) else Number
    if isinstance(item, (tuple, list)) and not isinstance(item[0], plain):
        item = item[0]
    if isinstance(item, Mapping | tuple):
        return _plain(as_tree(item, "An item"), where)
    try:
        made = torch.as_tensor(item)
    except (TypeError, ValueError, RuntimeError):
        raise ThresherError(
            f"The input of {where}, is a {type(item).__name__}, which cannot become a tensor: "
            "let the dataset give a tensor, a dict of tensors, or a tuple that starts with one."
        ) from None
    return _plain(made, where)


def _plain(made: Tree, where: str) -> Tree:
    """Inputs of real numbers in single precision."""
    for leaf in leaves(made):
        check_tensor(f"The parts of {where},", leaf)
    return in_single_precision(made)


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


def gathered(dataset: Any, positions: list[int]) -> Tree | None:
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
        return concatenated(found) if len(found) == len(positions) else None
    inputs_at = getattr(dataset, "inputs_at", None)
    return None if inputs_at is None else inputs_at(positions)


def loaded(
    items: Seeded, order: Iterable[Tensor], workers: int, pinned: bool, collate: Collate | None = None
) -> Iterable[Tree]:
    """The items of each row of `order`, as batches; by workers, unless the dataset holds them ready."""
    if collate is None and len(items) and gathered(items.dataset, [0, len(items) - 1]) is not None:
        return (batch for row in order if (batch := gathered(items.dataset, row.tolist())) is not None)
    batches: DataLoader[Tree] = DataLoader(
        items,  # type: ignore[arg-type]
        batch_sampler=[row.tolist() for row in order],
        num_workers=workers,
        collate_fn=_stacked if collate is None else Collated(collate),
        pin_memory=pinned,
        generator=generator(items.seed, "loader", items.epoch),
    )
    return batches if workers == 0 else _in_one_sentence(batches)


def _in_one_sentence(batches: Iterable[Tree]) -> Iterator[Tree]:
    """The batches of workers, whose refusals come with the traceback of their process."""
    try:
        yield from batches
    except ThresherError as error:
        raise ThresherError(str(error).strip().splitlines()[-1].partition("ThresherError: ")[2]) from None


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
