"""What a caller gives as data, as examples: arrays, lists, tensors, a DataFrame, a dataset, or examples already."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Number
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import (
    DataLoader,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    TensorDataset,
    default_collate,
)

from thresher.core.datasets import Without
from thresher.core.errors import ThresherError
from thresher.core.examples import Examples
from thresher.core.tasks import CLASSES, REAL
from thresher.core.trees import Tree, as_tree, in_single_precision, is_frame, leaves
from thresher.data.preparation import RowPreparation
from thresher.data.splits import Splits
from thresher.data.tables import rows_as_examples, rows_like

HOW = "pass (inputs, targets), a DataFrame with target=, a dataset of (input, target) pairs, Examples or load(...)"
TARGET_NAMES = ("labels", "label")  # of mappings, where no target= is given


def as_examples(
    data: Any, *, target: str | None = None, name: str = "the data", like: Examples | None = None
) -> Examples:
    """These data as one set of examples; labels of any kind become class ids, their values the names of the classes.

    Whole numbers, texts and truth values are labels, decimals are real targets. The target of a mapping is its part
    `target`, or `labels`, or `label`. An iterable dataset is read once, and the places of its items are their ids.
    The rows of a DataFrame are read as those of `like`, the training set, were: by its columns, scale and classes.

    >>> pets = as_examples(([[0.1], [0.9], [0.2]], ["cat", "dog", "cat"]))
    >>> pets.targets.tolist(), pets.class_names
    ([0, 1, 0], ['cat', 'dog'])
    """
    if isinstance(data, Examples):
        return data
    if isinstance(data, Splits):
        return data.train
    if isinstance(data, DataLoader):
        return _loader(data, target, name)
    if isinstance(data, str | Path):
        raise ThresherError(f"The name or path '{data}' is given as {name}: pass thresher.load({str(data)!r}).")
    if is_frame(data):
        return _frame(data, target, name, like)
    if isinstance(data, Mapping):
        key = _target_name(data, target, name)
        return _pair({each: part for each, part in data.items() if each != key}, data[key], name)
    if isinstance(data, tuple | list) and len(data) == 2:
        return _pair(data[0], data[1], name)
    _refuse_no_length(data, name)
    if isinstance(data, IterableDataset):
        return _dataset(list(data), name, target)
    if _is_map_style(data) and len(data):
        return _dataset(data, name, target)
    raise ThresherError(f"A value of type {type(data).__name__} is given as {name}: {HOW}.")


def _refuse_no_length(data: Any, name: str) -> None:
    """Refuse a dataset whose length is none; one that has none at all is refused by its kind."""
    try:
        len(data) if callable(getattr(data, "__len__", None)) else 0
    except (TypeError, ValueError) as error:
        raise ThresherError(
            f"The length of {name} cannot be told ({error}): let __len__ give a whole number."
        ) from error


def examples_like(train: Examples, data: Any, target: str | None, name: str, apart: bool = False) -> Examples | None:
    """Further data as examples like the training set's; `apart` from it, they get ids of their own."""
    if data is None or isinstance(data, Examples):
        return data
    made = as_examples(data, target=target, name=name, like=train)
    if train.task in (CLASSES, REAL):
        made = _in_unit_of(made, train, name) if train.is_regression else _in_classes_of(made, train, name)
    else:
        made = replace(made, task=train.task, classes=None, class_names=None, checked=False)
    ids = made.ids + int(train.ids.max()) + 1 if apart else made.ids
    return replace(made, ids=ids, normalise=made.normalise or train.normalise, checked=False)


def _in_unit_of(made: Examples, train: Examples, name: str) -> Examples:
    """The same examples with real targets, scaled as those of the training set."""
    if made.classes is not None:
        try:
            values = torch.tensor([float(each) for each in _class_names(made)])
        except ValueError:
            raise ThresherError(f"{name} has classes, and the training data have real targets: give numbers.") from None
        made = replace(made, targets=values[made.targets], classes=None, class_names=None, checked=False)
    if train.target_scale is None or made.target_scale is not None:
        return made
    mean, deviation = train.target_scale
    targets = ((made.targets.double() - mean) / deviation).float()
    return replace(made, targets=targets, target_scale=train.target_scale, checked=False)


def _in_classes_of(made: Examples, train: Examples, name: str) -> Examples:
    """The same examples under the class ids of the training set, which names tell where they differ."""
    known = _class_names(train)
    if made.classes is None:
        if made.targets.ndim > 2 or made.targets.shape[1] != len(known):  # otherwise they are soft labels
            raise ThresherError(f"{name} has real targets, and the training data have classes: give whole numbers.")
        return replace(made, classes=len(known), class_names=train.class_names, checked=False)
    are_ids = made.class_names is None and not all(each.lstrip("-").isdigit() for each in known)
    targets = made.targets if are_ids else _places(_class_names(made), known, name)[made.targets]
    return replace(made, targets=targets, classes=len(known), class_names=train.class_names, checked=False)


def _places(names: list[str], known: list[str], name: str) -> Tensor:
    """Where each of the names stands among those known."""
    for each in names:
        if each not in known:
            raise ThresherError(f"{name} has the class '{each}', which the training data lack: remove those examples.")
    return torch.tensor([known.index(each) for each in names])


def _class_names(examples: Examples) -> list[str]:
    return list(examples.class_names or map(str, range(examples.outputs)))


def _frame(rows: Any, target: str | None, name: str, like: Examples | None) -> Examples:
    if like is not None and isinstance(like.preparation, RowPreparation):
        return rows_like(rows, like.preparation, like.class_names, like.target_scale)
    if target is None:
        raise ThresherError(f"A DataFrame is given as {name}: say which column to predict, as target='label'.")
    return rows_as_examples(rows, target)


def _pair(inputs: Any, targets: Any, name: str) -> Examples:
    made = _inputs(inputs, name)
    labels, class_names, kind = _labels(targets, name)
    count = len(leaves(made)[0])
    if count != len(labels):
        raise ThresherError(f"{name} has {count} inputs and {len(labels)} targets: give one target for each input.")
    classes = None if labels.is_floating_point() or labels.ndim > 1 or not len(labels) else int(labels.max()) + 1
    return Examples(made, labels, classes=classes, class_names=class_names, label_kind=kind, name=name)


def _labels(targets: Any, name: str) -> tuple[Tensor, list[str] | None, str]:
    """Real targets as floats and no names; or class ids, with the names of the classes unless they are 0 ... k-1.

    Then what the labels were, as `Examples.label_kind` says it.
    """
    values = _array(_padded(targets), f"The targets of {name}", "give one value for each input")
    shape = list(values.shape)
    if not shape:
        raise ThresherError(f"The targets of {name} are a single value: give one value for each input.")
    if values.dtype.kind == "O":
        values = _of_one_kind(values, name)
    if values.dtype.kind == "f":
        return torch.as_tensor(values.astype(np.float32)), None, "text"
    if values.ndim > 1 and values.dtype.kind in "biu" and values.shape[1] > 1:  # labels, or classes at positions
        return torch.as_tensor(values.astype(np.int64)), None, "int"
    if values.ndim > 1:
        raise ThresherError(
            f"The targets of {name} are {_kind(values)} of shape {shape}: give one class each [{shape[0]}], or numbers."
        )
    if values.dtype.kind not in "biuU":
        raise ThresherError(f"The targets of {name} are {values.dtype}: give numbers, texts or truth values.")
    known, ids = np.unique(values, return_inverse=True)
    whole = values.dtype.kind in "iu" and (known == np.arange(len(known))).all()
    kind = {"b": "bool", "U": "text"}.get(values.dtype.kind, "int")
    return torch.as_tensor(ids.astype(np.int64)), [str(value) for value in known] if not whole else None, kind


def _padded(targets: Any) -> Any:
    """Rows of whole numbers of different lengths, as those of tokens are, filled up with -100, which is ignored."""
    if not isinstance(targets, list) or not targets or not isinstance(targets[0], list | Tensor | np.ndarray):
        return targets
    if len({len(each) for each in targets}) == 1:
        return targets
    rows = [torch.as_tensor(each) for each in targets]
    return pad_sequence(rows, batch_first=True, padding_value=-100) if rows[0].ndim == 1 else targets


def _of_one_kind(values: Any, name: str) -> Any:
    """Values of any type as an array of numbers or of texts; missing ones, and a mixture of the two, are refused."""
    each = values.ravel().tolist()
    missing = sum(_is_missing(value) for value in each)
    if missing:
        raise ThresherError(f"{name} has {missing} targets that are missing: remove or label those examples.")
    if all(isinstance(value, str) for value in each) or all(isinstance(value, Number) for value in each):
        return np.array(values.tolist())
    kinds = sorted({type(value).__name__ for value in each})
    raise ThresherError(f"The targets of {name} mix values of the types {', '.join(kinds)}: give one of them.")


def _is_missing(value: Any) -> bool:
    """None, NaN, and what stands for a missing value in pandas."""
    return (
        value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value)
    )


def _array(values: Any, what: str, fix: str) -> Any:
    if isinstance(values, Tensor):
        return values.detach().cpu().numpy()
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise ThresherError(f"{what} are masked at {int(np.sum(values.mask))} places: fill those, or leave them out.")
    try:
        return np.asarray(values)
    except (ValueError, TypeError) as error:
        raise ThresherError(f"{what} make no array ({error}): {fix}.") from None


def _inputs(values: Any, name: str) -> Tree:
    """Inputs as floats; bytes where they are pixels, and whole numbers of a tensor or a tree, stay what they are."""
    if isinstance(values, Mapping) or (
        isinstance(values, tuple) and all(isinstance(part, Tensor | np.ndarray | Mapping) for part in values)
    ):
        return in_single_precision(as_tree(values, name))
    if isinstance(values, Tensor):
        made = values.detach().float() if values.is_floating_point() else values
    else:
        array = _array(values, f"The inputs of {name}", "give inputs of one shape")
        if array.dtype.kind == "O" and all(isinstance(value, Number) for value in array.flat):
            array = array.astype(np.float32)
        if array.dtype.kind not in "buif":
            raise ThresherError(
                f"The inputs of {name} are {_kind(array)}: encode them as numbers, or give a DataFrame with target=."
            )
        keeps = array.dtype == np.uint8 and array.ndim > 2
        made = torch.as_tensor(np.ascontiguousarray(array if keeps else array.astype(np.float32)))
    if made.ndim == 0 or (made.ndim == 1 and len(made)):
        raise ThresherError(
            f"The inputs of {name} have the shape {list(made.shape)}: give [n, ...], such as X[:, None]."
        )
    return made


def _kind(array: Any) -> str:
    """What an array holds, in a word."""
    return {"U": "texts", "S": "bytes", "O": "objects", "b": "truth values", "i": "whole numbers"}.get(
        array.dtype.kind, str(array.dtype)
    )


def _loader(loader: DataLoader[Any], target: str | None, name: str) -> Examples:
    """The dataset of a loader, whose batches its collate function makes."""
    drawn, plain = loader.sampler, (SequentialSampler, RandomSampler)
    if not isinstance(loader.dataset, IterableDataset) and (loader.batch_size is None or type(drawn) not in plain):
        raise ThresherError(
            f"The DataLoader given as {name} draws by a {type(drawn).__name__} or a batch_sampler of its own: pass its "
            "dataset, and draw= in a Recipe for the order."
        )
    collate = None if loader.collate_fn is default_collate else loader.collate_fn
    if collate is None and type(loader.dataset) is TensorDataset and len(loader.dataset.tensors) == 2:
        return _pair(*loader.dataset.tensors, name)
    made = as_examples(loader.dataset, target=target, name=name)
    if collate is None:
        return made
    inputs, batches = made.inputs, collate
    if isinstance(inputs, Without):  # the function is shown whole items, and the target is taken out of what it makes
        inputs, batches = inputs.source, Without(collate, inputs.names)
    return replace(made, inputs=inputs, collate=batches, checked=False)


def _target_name(mapping: Mapping[str, Any], target: str | None, name: str) -> str:
    found = [each for each in ((target,) if target is not None else TARGET_NAMES) if each in mapping]
    if not found:
        raise ThresherError(
            f"{name} has {', '.join(map(str, mapping))} and no {target or 'labels'}: say which is the target, as "
            "target='label'."
        )
    return found[0]


def _dataset(dataset: Any, name: str, target: str | None = None) -> Examples:
    """A map-style dataset of (input, target) pairs, or of mappings, streamed; its targets are read once."""
    if not len(dataset):
        raise ThresherError(f"{name} is empty: give at least one example.")
    known = getattr(dataset, "targets", None)
    if known is None or len(known) != len(dataset) or getattr(dataset, "target_transform", None) is not None:
        first = dataset[0]
        if isinstance(first, Mapping):
            key = _target_name(first, target, name)
            known = [_plain(dataset[place][key]) for place in range(len(dataset))]
            dataset = Without(dataset, (key,))
        else:
            known = [_target(dataset[place], name) for place in range(len(dataset))]
    named = _named(dataset, known)
    labels, class_names, kind = _labels(known, name) if named is None else (*named, "text")
    is_class = not labels.is_floating_point() and labels.ndim == 1
    classes = (len(class_names or ()) or int(labels.max()) + 1) if is_class else None
    return Examples(dataset, labels, classes=classes, class_names=class_names, label_kind=kind, name=name)


def _named(dataset: Any, known: Any) -> tuple[Tensor, list[str]] | None:
    """Class ids as they are, where the dataset names its classes, as those of torchvision do."""
    names = getattr(dataset, "classes", None)
    if not isinstance(names, list | tuple) or not all(isinstance(each, str) for each in names):
        return None
    labels = np.asarray(known)
    if labels.ndim != 1 or labels.dtype.kind not in "iu" or labels.min() < 0 or labels.max() >= len(names):
        return None
    return torch.as_tensor(labels.astype(np.int64)), list(names)


def _target(item: Any, name: str) -> Any:
    if not isinstance(item, Sequence) or isinstance(item, str) or len(item) < 2:
        raise ThresherError(
            f"An item of {name} is a {type(item).__name__}: let the dataset give (input, target) pairs."
        )
    return _plain(item[1])


def _plain(value: Any) -> Any:
    """A number of torch or NumPy as Python's."""
    return value.item() if isinstance(value, Tensor | np.generic) and value.ndim == 0 else value


def _is_map_style(data: Any) -> bool:
    return (
        callable(getattr(data, "__getitem__", None))
        and callable(getattr(data, "__len__", None))
        and not isinstance(data, Mapping)
    )
