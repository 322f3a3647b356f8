"""What a caller gives as data, as examples: arrays, lists, tensors, a DataFrame, a dataset, or examples already."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
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
from thresher.core.trees import is_frame, leaves
from thresher.data.given_items import named_items, part_of, target_name, target_of
from thresher.data.given_tensors import input_tensors, target_tensor
from thresher.data.preparation import RowPreparation
from thresher.data.splits import Splits
from thresher.data.tables import rows_as_examples, rows_like

HOW = "pass (inputs, targets), a DataFrame with target=, a dataset of (input, target) pairs, Examples or load(...)"


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
        key = target_name(data, target, name)
        return _pair({each: part for each, part in data.items() if each != key}, data[key], name)
    if isinstance(data, tuple | list) and len(data) == 2:
        return _pair(data[0], data[1], name)
    _refuse_no_length(data, name)
    if isinstance(data, IterableDataset):
        return _dataset([item for item, _ in named_items(data, name)], name, target)
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
    are_ids = made.class_names is None and not all(each.lstrip("-").isdecimal() for each in known)
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
    made = input_tensors(inputs, name)
    labels, class_names, kind = target_tensor(targets, name)
    count = len(leaves(made)[0])
    if count != len(labels):
        raise ThresherError(f"{name} has {count} inputs and {len(labels)} targets: give one target for each input.")
    classes = None if labels.is_floating_point() or labels.ndim > 1 or not len(labels) else int(labels.max()) + 1
    return Examples(made, labels, classes=classes, class_names=class_names, label_kind=kind, name=name)


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


def _dataset(dataset: Any, name: str, target: str | None = None) -> Examples:
    """A map-style dataset of (input, target) pairs, or of mappings, streamed; its targets are read once."""
    if not len(dataset):
        raise ThresherError(f"{name} is empty: give at least one example.")
    known, names = getattr(dataset, "targets", None), getattr(dataset, "classes", None)
    if known is None or len(known) != len(dataset) or getattr(dataset, "target_transform", None) is not None:
        first = dataset[0]
        if isinstance(first, Mapping):
            key = target_name(first, target, name)
            known, names = _column(dataset, key, name), _names_in_column(dataset, key)
            dataset = Without(dataset, (key,))
        else:
            known = [target_of(item, where) for item, where in named_items(_in_order(dataset), name)]
    named = _named(names, known)
    labels, class_names, kind = target_tensor(known, name) if named is None else (*named, "text")
    is_class = not labels.is_floating_point() and labels.ndim == 1
    classes = (len(class_names or ()) or int(labels.max()) + 1) if is_class else None
    return Examples(dataset, labels, classes=classes, class_names=class_names, label_kind=kind, name=name)


def _column(dataset: Any, key: str, name: str) -> list[Any]:
    """One part of every item; those of Hugging Face give it without decoding the others."""
    narrowed = getattr(dataset, "select_columns", None)
    rows = dataset if narrowed is None else narrowed([key])
    return [part_of(row, key, where) for row, where in named_items(_in_order(rows), name)]


def _in_order(dataset: Any) -> Iterator[Any]:
    return (dataset[place] for place in range(len(dataset)))


def _names_in_column(dataset: Any, key: str) -> Any:
    """The names of classes, where a dataset of Hugging Face has them (ClassLabel)."""
    kinds = getattr(dataset, "features", None)
    return getattr(kinds.get(key), "names", None) if isinstance(kinds, Mapping) else None


def _named(names: Any, known: Any) -> tuple[Tensor, list[str]] | None:
    """Class ids as they are, where the dataset names its classes, as those of torchvision do."""
    if not isinstance(names, list | tuple) or not all(isinstance(each, str) for each in names):
        return None
    labels = np.asarray(known)
    if labels.ndim != 1 or labels.dtype.kind not in "iu" or labels.min() < 0 or labels.max() >= len(names):
        return None
    return torch.as_tensor(labels.astype(np.int64)), list(names)


def _is_map_style(data: Any) -> bool:
    return (
        callable(getattr(data, "__getitem__", None))
        and callable(getattr(data, "__len__", None))
        and not isinstance(data, Mapping)
    )
