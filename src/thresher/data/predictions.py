"""A teacher that is a table: probabilities for each example, from any model or service."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from thresher.core.errors import ThresherError
from thresher.core.examples import Examples
from thresher.data.arrays import read_arrays
from thresher.data.image_files import files_of
from thresher.data.table_files import TABLE_SUFFIXES, read_table

ID, FILE, TRAINED_ON = "id", "file", "trained_on"
ROUNDED = 0.05  # how far the sum of a row of rounded probabilities may be from 1


@dataclass(frozen=True, eq=False)
class Predictions:
    """A teacher's probabilities of examples by id [n, classes], and which of these it was trained on.

    Arrays will do as well as tensors: Predictions(ids, model.predict_proba(X)).

    >>> said = Predictions(torch.tensor([7, 5]), torch.tensor([[0.33, 0.66], [1.0, 0.0]]))
    >>> said.of(Examples(torch.zeros(2, 1), torch.tensor([0, 1]), ids=torch.tensor([5, 6])))
    (tensor([[1., 0.],
            [0., 0.]]), tensor([ True, False]))
    """

    ids: Tensor
    probabilities: Tensor
    trained_on: Tensor | None = None  # [n] of booleans, where that is known
    name: str = "the table"

    def __post_init__(self) -> None:
        given = {"ids": self.ids, "probabilities": self.probabilities, "trained_on": self.trained_on}
        for name, value in given.items():
            if value is not None:
                object.__setattr__(self, name, value if isinstance(value, Tensor) else _tensor(name, value))
        ids, chances = self.ids, self.probabilities
        if (
            ids.ndim != 1
            or ids.is_floating_point()
            or ids.dtype == torch.bool
            or chances.ndim != 2
            or not 0 < len(ids) == len(chances)
        ):
            shapes = f"ids {list(ids.shape)} ({ids.dtype}) and probabilities {list(chances.shape)}"
            raise ThresherError(f"{self.name} holds {shapes}: give whole numbers [n] and [n, classes].")
        sums = chances.sum(1, keepdim=True)
        good = (chances >= 0).all(1) & ((sums[:, 0] - 1).abs() <= ROUNDED)
        if not good.all():
            first = int((~good).nonzero()[0])
            raise ThresherError(
                f"{self.name} has rows that are not probabilities; the first is that of id {ids[first]}, with the sum "
                f"{sums[first, 0]:g}: make each non-negative, with sum 1."
            )
        if len(torch.unique(ids)) < len(ids):
            raise ThresherError(f"{self.name} has ids that repeat: give one row for each example.")
        if self.trained_on is not None and (self.trained_on.shape != ids.shape or self.trained_on.dtype != torch.bool):
            raise ThresherError(f"{TRAINED_ON} of {self.name} is not one boolean an example: give [n] of booleans.")
        object.__setattr__(self, "ids", ids.long())
        object.__setattr__(self, "probabilities", (chances / sums).float())

    def of(self, examples: Examples) -> tuple[Tensor, Tensor]:
        """The probabilities [n, classes] of these examples, and which of them are known [n]; zeros for the others."""
        order = self.ids.argsort()
        places = torch.searchsorted(self.ids[order], examples.ids.cpu()).clamp(max=len(order) - 1)
        rows = order[places]
        known = self.ids[rows] == examples.ids.cpu()
        return torch.where(known[:, None], self.probabilities[rows], 0.0), known

    def learnt_from(self, examples: Examples) -> Tensor:
        """The ids of the examples that the teacher is known to have been trained on."""
        if self.trained_on is None:
            return examples.ids[:0]
        return examples.ids[torch.isin(examples.ids.cpu(), self.ids[self.trained_on]).to(examples.ids.device)]


def read_predictions(path: Path | str, *sets: Examples) -> Predictions:
    """The probabilities that a file holds of the examples in these sets.

    Parquet, CSV and TSV (also .gz) have a column `id` or, for images in folders, `file`; and one column of
    probabilities a class, named as the classes are or, where no column is, in their order. An .npz has the arrays `ids`
    and `probabilities`. Another, `trained_on`, may say which examples the teacher was trained on.
    """
    path = Path(path)
    if path.suffix == ".npz":
        return _from_arrays(read_arrays(path), path)
    if path.name.endswith(TABLE_SUFFIXES):
        return _from_table(read_table(path), path, sets)
    raise ThresherError(f"{path} is not a table that Thresher reads: give {', '.join(TABLE_SUFFIXES)} or .npz.")


def _from_arrays(arrays: Mapping[str, np.ndarray[Any, Any]], path: Path) -> Predictions:
    for name in ("ids", "probabilities"):
        if name not in arrays:
            raise ThresherError(f"{path} lacks the array {name!r}: give ids [n] and probabilities [n, classes].")
    kinds = {"ids": ("iu", np.int64), "probabilities": ("iuf", np.float32), TRAINED_ON: ("biu", np.bool_)}
    found = {}
    for name in kinds.keys() & arrays.keys():
        allowed, wanted = kinds[name]
        if arrays[name].dtype.kind not in allowed:
            raise ThresherError(f"The array {name!r} of {path} is {arrays[name].dtype}: save {wanted.__name__}.")
        found[name] = torch.from_numpy(arrays[name].astype(wanted))
    return Predictions(found["ids"], found["probabilities"], found.get(TRAINED_ON), str(path))


def _from_table(rows: Any, path: Path, sets: Sequence[Examples]) -> Predictions:
    key = next((name for name in (ID, FILE) if name in rows.column_names), None)
    if key is None:
        raise ThresherError(f"{path} lacks the column {ID!r}: add the id of the example of each row.")
    names = _in_order([name for name in rows.column_names if name not in (key, TRAINED_ON)], path, sets[0])
    chances = np.stack([_numbers(rows, name, path) for name in names], 1, dtype=np.float32, casting="unsafe")
    said = torch.from_numpy(chances)
    learnt = torch.from_numpy(_numbers(rows, TRAINED_ON, path) > 0) if TRAINED_ON in rows.column_names else None
    if key == ID:
        return Predictions(torch.from_numpy(_numbers(rows, ID, path).astype(np.int64)), said, learnt, str(path))
    ids = _ids_of_files(rows[FILE].to_pylist(), path, sets)
    ours = ids >= 0  # the other files are not in these sets
    return Predictions(ids[ours], said[ours], None if learnt is None else learnt[ours], str(path))


def _numbers(rows: Any, name: str, path: Path) -> np.ndarray[Any, Any]:
    """A column without gaps: of whole numbers if it is `id`, else of any numbers, or of booleans."""
    kind, missing = rows.schema.field(name).type, rows[name].null_count
    whole, said = pa.types.is_integer(kind), pa.types.is_boolean(kind) and name == TRAINED_ON
    if missing or not (whole or said or (pa.types.is_floating(kind) and name != ID)):
        what = {ID: "whole numbers", TRAINED_ON: "true or false"}.get(name, "probabilities")
        gaps = f" with {missing} gaps" if missing else ""
        raise ThresherError(f"Column {name!r} of {path} is {kind}{gaps}: let it hold {what} only.")
    return np.array(rows[name].to_numpy())


def _in_order(names: list[str], path: Path, examples: Examples) -> list[str]:
    """The columns of probabilities in the order of the classes: by their names if they have them."""
    classes = [*(examples.class_names or map(str, range(examples.outputs)))]
    if not names or len(set(names)) < len(names):
        raise ThresherError(
            f"{path} has {len(names)} columns of probabilities, some with the same name: give one for each class."
        )
    if not set(names) & set(classes):
        return names
    for these, those, what in ((classes, names, "lacks a column for the class"), (names, classes, "has a column")):
        if odd := [name for name in these if name not in those]:
            raise ThresherError(
                f"{path} {what} {odd[0]!r}: give one of probabilities for each of {', '.join(classes)}."
            )
    return classes


def _ids_of_files(files: Sequence[str | None], path: Path, sets: Sequence[Examples]) -> Tensor:
    """The ids of the examples with these files, for which the end of the path is enough; -1 for other files."""
    named = [(files_of(each.inputs), each.ids.tolist()) for each in sets]
    known = [(file.resolve().parts, id_) for full, ids in named if full for file, id_ in zip(full, ids, strict=True)]
    if not known:
        raise ThresherError(
            f"{path} names files, and {sets[0].name} is not made of files: give a column {ID!r} instead."
        )
    asked = [Path(file or ".").parts for file in files]
    endings = {}
    for length in {len(parts) for parts in asked} - {0}:
        endings[length] = {full[-length:]: id_ for full, id_ in known}
        if len(endings[length]) < len(known):
            raise ThresherError(f"Column {FILE!r} of {path} may mean several images: give more of their paths.")
    return torch.tensor([endings[len(parts)].get(parts, -1) if parts else -1 for parts in asked])


def _tensor(name: str, value: Any) -> Tensor:
    try:
        return torch.from_numpy(np.array(value))
    except TypeError as error:
        raise ThresherError(f"{name} are not numbers ({error}): give arrays of numbers.") from error
