"""How raw data become inputs, as plain values: a run folder holds them as JSON, and a trained model reads new data."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, default_collate

from thresher.core.datasets import Collate, MapDataset, Seeded
from thresher.core.errors import ThresherError
from thresher.core.example_checks import check_tensor
from thresher.core.examples import Examples
from thresher.core.files import expanded
from thresher.core.trees import Tree, as_tree, is_tree, leaves, mapped, named_leaves
from thresher.data.column_encoders import Encoder, Numbers, decoded, inputs_of
from thresher.data.image_files import ImageFiles, image_format, image_paths
from thresher.data.image_pixels import Ranges
from thresher.data.splits import Splits
from thresher.data.table_files import UNKNOWN, read_rows, without_markers
from thresher.data.vector_files import read_vectors

Normalise = tuple[Tensor, Tensor]


@dataclass(frozen=True, eq=False)
class Preparation(ABC):
    """What turns raw data into the inputs that a model was trained on; `normalise` is that of the training set."""

    kind: ClassVar[str]
    normalise: Normalise | None = field(default=None, kw_only=True)

    @abstractmethod
    def __call__(self, raw: Any) -> Tree | MapDataset:
        """Inputs as `Examples` takes them, before `normalise`."""

    @property
    def input_shape(self) -> tuple[int, ...] | None:
        """The shape of one input, where it is known without data."""
        return None

    @abstractmethod
    def record(self) -> dict[str, Any]:
        """All of it as values that JSON knows."""

    def examples(self, raw: Any) -> Examples:
        """The raw data as examples without labels (each target is 0); their `batches` are what the model takes.

        A torch Dataset gives inputs as the model takes them, and a DataLoader those of its dataset, in its order and in
        batches that its collate function makes; targets that come with them are ignored.
        """
        collate = None
        if isinstance(raw, DataLoader):
            collate = None if raw.collate_fn is default_collate else self.batches_by(raw.collate_fn)
            inputs = _streamed(raw.dataset, None if collate else self.input_shape)
        else:
            inputs = _streamed(raw, self.input_shape) if isinstance(raw, Dataset) else self(raw)
        count = len(leaves(inputs)[0]) if is_tree(inputs) else len(inputs)
        nothing = torch.zeros(count, dtype=torch.long)
        known: dict[str, Any] = {"normalise": self.normalise, "collate": collate, "preparation": self}
        return Examples(inputs, nothing, classes=1, name="the new data", **known)

    def batches_by(self, collate: Collate) -> Collate:
        """A user's collate function, as far as the model takes what it makes."""
        return collate


@dataclass(frozen=True, eq=False)
class RowPreparation(Preparation):
    """Rows of a table: a path to one, a data frame, an Arrow table or a list of dicts; other columns are ignored.

    carried  the columns that are no inputs and name a row, such as an id or a path
    na, sep  the texts that mean a missing value, and what is between the cells of a text file, where that was told
    notes    what a person should know of how the columns were read; not part of the record
    """

    kind: ClassVar[str] = "rows"
    encoders: tuple[Encoder, ...]
    targets: tuple[str, ...]
    carried: tuple[str, ...] = ()
    na: tuple[str, ...] = ()
    sep: str | None = None
    notes: tuple[str, ...] = ()

    def __call__(self, raw: Any) -> Tensor:
        return self.inputs(*read_rows(raw, self.na, self.sep))

    def inputs(self, rows: Any, name: str) -> Tensor:
        """The inputs [n, k] of these rows, which messages call `name`."""
        columns = {encoder.column: _as_trained(rows, encoder, name) for encoder in self.encoders}
        return inputs_of(pa.table(columns), self.encoders)

    def record(self) -> dict[str, Any]:
        columns = [encoder.as_record() for encoder in self.encoders]
        reading = {"carried": list(self.carried), "na": list(self.na), "sep": self.sep}
        return {"kind": self.kind, "columns": columns, "targets": list(self.targets), **reading}


@dataclass(frozen=True, eq=False)
class ImagePreparation(Preparation):
    """Image files, scaled to `size`: a path to one, a folder (all images anywhere in it, sorted) or a list of paths.

    ranges  which values of 16-bit and real pixels are black and white
    """

    kind: ClassVar[str] = "images"
    size: int
    ranges: Ranges = field(default_factory=Ranges)

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (3, self.size, self.size)

    def __call__(self, raw: Any) -> ImageFiles:
        return ImageFiles(image_paths(raw), self.size, self.ranges)

    def record(self) -> dict[str, Any]:
        ranges = {"integers": list(self.ranges.integers), "reals": list(self.ranges.reals)}
        normalise = _normalise_record(self.normalise)
        return {"kind": self.kind, "size": self.size, "ranges": ranges, "normalise": normalise}


@dataclass(frozen=True, eq=False)
class ArrayPreparation(Preparation):
    """Tensors, arrays or nested lists [n, *shape], which pass as they are; or the path of a file that holds them."""

    kind: ClassVar[str] = "arrays"
    shape: tuple[int, ...]
    dtype: torch.dtype

    @property
    def input_shape(self) -> tuple[int, ...]:
        return self.shape

    def __call__(self, raw: Any) -> Tensor:
        given = _as_tensor(raw)
        if given.shape[1:] != self.shape or not given.ndim:
            wanted = ", ".join(["n", *map(str, self.shape)])
            raise ThresherError(
                f"The inputs have the shape {list(given.shape)}, and the model was trained on [{wanted}]: reshape them."
            )
        if self.dtype.is_floating_point:
            return given.to(self.dtype)
        made = given.to(self.dtype)
        if given.is_floating_point() or not torch.equal(made.to(given.dtype), given):
            raise ThresherError(
                f"The inputs are {_name(given.dtype)}, and the model was trained on {_name(self.dtype)}: give whole "
                "numbers of its range."
            )
        return made

    def record(self) -> dict[str, Any]:
        described = {"shape": list(self.shape), "dtype": _name(self.dtype)}
        return {"kind": self.kind, **described, "normalise": _normalise_record(self.normalise)}


@dataclass(frozen=True, eq=False)
class TreePreparation(Preparation):
    """Several tensors by name or place: a mapping that has these names, whatever else is in it, or a tuple of them.

    dtypes  the type of each leaf by its place, such as `input_ids`; lengths may differ from those of the training set
    """

    kind: ClassVar[str] = "trees"
    dtypes: Mapping[str, torch.dtype]

    def __call__(self, raw: Any) -> Tree:
        if not isinstance(raw, Mapping | tuple):
            raise ThresherError(
                f"The model was trained on {', '.join(self.dtypes)}, and this is a {type(raw).__name__}: give these by "
                "name or in a tuple, or a DataLoader whose collate_fn makes such batches."
            )
        made = as_tree(self._named(raw), "the new data")
        if (found := [name for name, _ in named_leaves(made)]) != list(self.dtypes):
            raise ThresherError(
                f"The new data have {', '.join(found) or 'nothing'}, and the model was trained on "
                f"{', '.join(self.dtypes)}: give the same."
            )
        types = iter(self.dtypes.values())
        return mapped(lambda leaf: leaf.to(next(types)), made)

    def batches_by(self, collate: Collate) -> Collate:
        return lambda items: self._named(collate(items))

    def _named(self, raw: Any) -> Any:
        """Of a mapping what the model was trained on, in that order."""
        if not isinstance(raw, Mapping):
            return raw
        return {
            name: raw[name] for name in dict.fromkeys(each.partition(".")[0] for each in self.dtypes) if name in raw
        }

    def record(self) -> dict[str, Any]:
        dtypes = {name: _name(dtype) for name, dtype in self.dtypes.items()}
        return {"kind": self.kind, "dtypes": dtypes, "normalise": _normalise_record(self.normalise)}


def preparation_of(source: Splits | Examples) -> Preparation:
    """How the inputs of these examples were made: as their loader recorded it, or else inferred from the inputs.

    >>> preparation_of(Examples(torch.zeros(3, 2), torch.tensor([0, 1, 1]))).record()
    {'kind': 'arrays', 'shape': [2], 'dtype': 'float32', 'normalise': None}
    """
    examples = source if isinstance(source, Examples) else source.train
    if isinstance(examples.preparation, Preparation):
        return examples.preparation
    if not examples.in_memory and (scaled := image_format(examples.inputs)) is not None:
        return ImagePreparation(*scaled, normalise=examples.normalise)
    first = examples.first_input()
    if isinstance(first, Tensor):
        return ArrayPreparation(tuple(first.shape), first.dtype, normalise=examples.normalise)
    return TreePreparation({name: leaf.dtype for name, leaf in named_leaves(first)}, normalise=examples.normalise)


def _as_trained(rows: Any, encoder: Encoder, name: str) -> Any:
    """The column that an encoder reads, of the kind it had in the training rows: a few rows may look like another."""
    if encoder.column not in rows.column_names:
        raise ThresherError(
            f"There is no column '{encoder.column}' in {name}, and the training rows have it: add it, or rename one of "
            f"{', '.join(rows.column_names)}."
        )
    column = decoded(rows.column(encoder.column).combine_chunks())
    if isinstance(encoder, Numbers):
        column = without_markers(pa.table({"numbers": column}), (UNKNOWN,)).column(0).combine_chunks()
    try:
        return column.cast(encoder.type)
    except pa.ArrowException as error:
        raise ThresherError(
            f"Column {encoder.column} of {name} holds {column.type} where the training rows hold {encoder.kind} "
            f"({str(error).splitlines()[0]}): correct it."
        ) from error


def _streamed(dataset: Any, wanted: tuple[int, ...] | None) -> MapDataset:
    """A torch Dataset as inputs, if its items have the shape that is wanted."""
    if isinstance(dataset, IterableDataset):
        raise ThresherError(f"A {type(dataset).__name__} has no items to look up: pass a map-style Dataset.")
    if wanted is not None and (found := tuple(Seeded(dataset, [0], 0, 0)[0].shape)) != wanted:
        raise ThresherError(
            f"The items have inputs of shape {list(found)}, and the model was trained on {list(wanted)}: reshape them."
        )
    made: MapDataset = dataset
    return made


def _as_tensor(raw: Any) -> Tensor:
    if isinstance(raw, (str, Path)):
        raw = read_vectors(expanded(raw))
    try:
        made = raw if isinstance(raw, Tensor) else torch.from_numpy(np.array(raw))
    except (TypeError, ValueError) as error:
        raise ThresherError(
            f"A {type(raw).__name__} makes no tensor ({error}): give a tensor, an array or nested lists of numbers."
        ) from error
    check_tensor("The new inputs", made)
    return made


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _normalise_record(normalise: Normalise | None) -> list[dict[str, Any]] | None:
    return None if normalise is None else [{"dtype": _name(part.dtype), "values": part.tolist()} for part in normalise]
