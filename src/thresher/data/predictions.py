"""A teacher that is a table: probabilities for each example, from any model or service."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from thresher.data.tables import SUFFIXES, read_table
from thresher.errors import ThresherError
from thresher.examples import Examples

ID, TRAINED_ON = "id", "trained_on"


@dataclass(frozen=True, eq=False)
class Predictions:
    """What a teacher says of examples by id: probabilities [n, classes], and which of them it has learnt from."""

    ids: Tensor
    probabilities: Tensor
    trained_on: Tensor | None = None  # [n] of booleans, where that is known
    name: str = "the table"

    def of(self, examples: Examples) -> tuple[Tensor, Tensor]:
        """Its probabilities [n, classes] of these examples, and which of them it knows [n]; zeros for the others."""
        order = self.ids.argsort()
        places = torch.searchsorted(self.ids[order], examples.ids.cpu()).clamp(max=len(order) - 1)
        rows = order[places]
        known = self.ids[rows] == examples.ids.cpu()
        return torch.where(known[:, None], self.probabilities[rows], 0.0), known

    def learnt_from(self, examples: Examples) -> Tensor:
        """The ids of those examples that the teacher is known to have learnt from."""
        if self.trained_on is None:
            return examples.ids[:0]
        return examples.ids[torch.isin(examples.ids.cpu(), self.ids[self.trained_on])]


def read_predictions(path: Path | str, classes: int) -> Predictions:
    """A table with a column `id` and one column of probabilities a class, in the order of the classes.

    Parquet, CSV and TSV (also .gz), or an .npz with the arrays `ids` and `probabilities`. A column `trained_on` may say
    which examples the teacher has learnt from.
    """
    path = Path(path)
    if path.suffix == ".npz":
        found = _from_npz(path)
    elif path.name.endswith(SUFFIXES):
        found = _from_table(path)
    else:
        raise ThresherError(f"{path} is no table Thresher reads: give {', '.join(SUFFIXES)} or .npz.")
    shape = list(found.probabilities.shape)
    if len(found.ids) == 0 or found.probabilities.ndim != 2 or shape != [len(found.ids), classes]:
        raise ThresherError(f"{path} holds {len(found.ids)} ids and probabilities {shape}: give [n, {classes}].")
    sums = found.probabilities.sum(1)
    if found.probabilities.min() < 0 or not torch.allclose(sums, torch.ones_like(sums), atol=1e-3):
        raise ThresherError(f"{path} holds rows that are no probabilities: make each non-negative, with sum 1.")
    if len(torch.unique(found.ids)) < len(found.ids):
        raise ThresherError(f"{path} has ids that repeat: give one row for each example.")
    return found


def _from_npz(path: Path) -> Predictions:
    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: torch.from_numpy(stored[name]) for name in stored.files}
    except (OSError, ValueError) as error:
        raise ThresherError(f"{path} cannot be read ({error}): correct or replace the file.") from error
    for name in ("ids", "probabilities"):
        if name not in arrays:
            raise ThresherError(f"{path} lacks the array {name!r}: give ids [n] and probabilities [n, classes].")
    learnt = arrays.get(TRAINED_ON)
    return Predictions(
        arrays["ids"].long(), arrays["probabilities"].float(), None if learnt is None else learnt.bool(), str(path)
    )


def _from_table(path: Path) -> Predictions:
    rows = read_table(path)
    if ID not in rows.column_names:
        raise ThresherError(f"{path} lacks the column {ID!r}: let it say whose probabilities each row holds.")
    names = [name for name in rows.column_names if name not in (ID, TRAINED_ON)]
    for name in names:
        kind = rows.schema.field(name).type
        if not (pa.types.is_floating(kind) or pa.types.is_integer(kind)) or rows[name].null_count:
            raise ThresherError(f"Column {name} of {path} is no column of probabilities: fill or remove it.")
    chances = np.stack([rows[name].to_numpy().astype(np.float32) for name in names], 1) if names else np.zeros((0, 0))
    learnt = rows[TRAINED_ON].to_numpy().astype(bool) if TRAINED_ON in rows.column_names else None
    ids = torch.from_numpy(rows[ID].to_numpy().astype(np.int64))
    return Predictions(ids, torch.from_numpy(chances), None if learnt is None else torch.from_numpy(learnt), str(path))
