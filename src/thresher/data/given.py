"""What a caller gives as data, as examples: arrays, lists, tensors, a DataFrame, a dataset, or examples already."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from thresher.core.errors import ThresherError
from thresher.core.examples import Examples
from thresher.data.splits import Splits
from thresher.data.tables import rows_as_examples

HOW = "pass (inputs, targets), a DataFrame with target=, a dataset of (input, target) pairs, Examples or load(...)"


def as_examples(data: Any, *, target: str | None = None, name: str = "the data") -> Examples:
    """These data as one set of examples; labels of any kind become class ids, their values the names of the classes.

    >>> pets = as_examples(([[0.1], [0.9], [0.2]], ["cat", "dog", "cat"]))
    >>> pets.targets.tolist(), pets.class_names
    ([0, 1, 0], ['cat', 'dog'])
    """
    if isinstance(data, Examples):
        return data
    if isinstance(data, Splits):
        return data.train
    if isinstance(data, DataLoader):
        raise ThresherError(f"A DataLoader is given as {name}: pass its dataset, and batch= for the size of batches.")
    if _is_frame(data):
        if target is None:
            raise ThresherError(f"A DataFrame is given as {name}: say which column to predict, as target='label'.")
        return rows_as_examples(data, target)
    if isinstance(data, tuple | list) and len(data) == 2:
        return _pair(data[0], data[1], name)
    if callable(getattr(data, "__getitem__", None)) and callable(getattr(data, "__len__", None)) and len(data):
        return _dataset(data, name)
    raise ThresherError(f"A {type(data).__name__} is given as {name}: {HOW}.")


def _pair(inputs: Any, targets: Any, name: str) -> Examples:
    values = _array(targets, f"The targets of {name}")
    given = inputs.to_numpy() if _is_frame(inputs) else inputs
    made = given if isinstance(given, Tensor) else _numbers(given, name)
    if len(made) != len(values):
        raise ThresherError(f"{name} has {len(made)} inputs and {len(values)} targets: give one target for each input.")
    labels, class_names = _labels(values)
    classes = None if class_names is None else len(class_names)
    return Examples(made, labels, classes=classes, class_names=class_names, name=name)


def _labels(values: Any) -> tuple[Tensor, list[str] | None]:
    """Real targets as floats and no names; or class ids, with the names of the classes unless they are 0 ... k-1."""
    if isinstance(values, Tensor):
        values = values.detach().cpu().numpy()
    if values.dtype.kind == "f" or values.ndim > 1:
        return torch.as_tensor(values.astype(np.float32)), None
    known, ids = np.unique(values, return_inverse=True)
    whole = values.dtype.kind in "iu" and (known == np.arange(len(known))).all()
    return torch.as_tensor(ids.astype(np.int64)), [str(value) for value in known] if not whole else None


def _array(values: Any, what: str) -> Any:
    if isinstance(values, Tensor):
        return values
    try:
        return np.asarray(values)
    except ValueError as error:
        raise ThresherError(f"{what} are no array ({error}): give one value for each input.") from None


def _numbers(values: Any, name: str) -> Tensor:
    """Inputs as floats, or as bytes where they are pixels."""
    array = _array(values, f"The inputs of {name}")
    if array.dtype.kind not in "buif":
        raise ThresherError(f"The inputs of {name} are {array.dtype}, not numbers: encode them, or give a DataFrame.")
    keeps = array.dtype == np.uint8 and array.ndim > 2
    return torch.as_tensor(np.ascontiguousarray(array if keeps else array.astype(np.float32)))


def _dataset(dataset: Any, name: str) -> Examples:
    """A map-style dataset of (input, target) pairs, streamed; its targets are read once."""
    known = getattr(dataset, "targets", None)
    if known is None or len(known) != len(dataset):
        known = [_target(dataset[place], name) for place in range(len(dataset))]
    labels, class_names = _labels(_array(known, f"The targets of {name}"))
    classes = None if labels.is_floating_point() else int(labels.max()) + 1
    return Examples(dataset, labels, classes=classes, class_names=class_names, name=name)


def _target(item: Any, name: str) -> Any:
    if not isinstance(item, Sequence) or isinstance(item, str) or len(item) < 2:
        raise ThresherError(
            f"An item of {name} is a {type(item).__name__}: let the dataset give (input, target) pairs."
        )
    value = item[1]
    return value.item() if isinstance(value, Tensor | np.generic) and value.ndim == 0 else value


def _is_frame(data: Any) -> bool:
    """Whether this is a DataFrame of pandas or polars, or a table of pyarrow; none of which has to be installed."""
    return type(data).__name__ in ("DataFrame", "Table") and type(data).__module__.partition(".")[0] in (
        "pandas", "polars", "pyarrow",
    )  # fmt: skip
