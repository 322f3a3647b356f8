"""Embeddings that people bring: a row of numbers for each example, in which rules look for neighbours."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from thresher.core.errors import ThresherError
from thresher.core.examples import Examples
from thresher.core.files import UNREADABLE, expanded
from thresher.data.table_files import read_table

FEATURES = "features"  # the column of the training set that holds them


def with_features(train: Examples, source: Any) -> Examples:
    """The examples with embeddings of their inputs: an array [n, width], or the path of an .npy or .parquet file.

    There is one row for each training example, in their order, or one for each id: the rows of a table, the images of
    a folder in the order of their names.

    >>> two = Examples(torch.zeros(2, 1), torch.tensor([0, 1]), ids=torch.tensor([2, 0]))
    >>> with_features(two, [[0.0], [1.0], [2.0]]).columns["features"].tolist()
    [[2.0], [0.0]]
    """
    rows = _read(source)
    if rows.ndim != 2 or not rows.shape[1] or not torch.isfinite(rows).all():
        raise ThresherError(f"Features of shape {list(rows.shape)} cannot be compared: give finite numbers [n, width].")
    if len(rows) != len(train):
        most = int(train.ids.max()) + 1
        if len(rows) < most:
            raise ThresherError(
                f"There are {len(rows)} rows of features for {len(train)} training examples with ids up to {most - 1}: "
                "give a row for each of them."
            )
        rows = rows[train.ids.cpu()]
    return train.with_columns(**{FEATURES: rows.to(train.targets.device)})


def _read(source: Any) -> Tensor:
    if isinstance(source, str | Path):
        source = _of_file(expanded(source))
    try:
        return torch.as_tensor(real_numbers(source.cpu() if isinstance(source, Tensor) else source, np.float32))
    except (TypeError, ValueError) as error:
        raise ThresherError(f"Features have to be numbers ({error}): give an array [n, width].") from error


def real_numbers(values: Any, kind: Any) -> NDArray[Any]:
    """The values as an array of this kind; complex numbers would lose a part of them, and are refused."""
    made = np.asarray(values)
    if np.iscomplexobj(made):
        raise TypeError("they are complex")
    return made.astype(kind, copy=False)


def _of_file(path: Path) -> Any:
    if path.suffix == ".parquet":
        table = read_table(path)
        columns = [table.column(place).to_pylist() for place in range(table.num_columns)]
        return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))  # lists, or a column each
    if path.suffix != ".npy":
        raise ThresherError(f"{path} holds no features: give an .npy or .parquet file.")
    try:
        return np.load(path, allow_pickle=False)
    except FileNotFoundError:
        raise ThresherError(f"There is no file {path}: check the path.") from None
    except UNREADABLE as error:
        raise ThresherError(f"{path} cannot be read ({error}): write it again with numpy.save.") from error
