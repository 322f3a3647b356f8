"""Embeddings and other plain arrays with labels: .npz and .npy files, and list columns of Parquet files."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from thresher.core.errors import ThresherError, unknown
from thresher.core.examples import Examples
from thresher.data.arrays import channel_statistics, channels_first, read_arrays
from thresher.data.column_encoders import plain_column
from thresher.data.given import as_examples, examples_like
from thresher.data.splits import Splits, only_classes, split, standardise_targets, whole_numbers
from thresher.data.table_files import read_table
from thresher.data.vector_files import INPUTS, first_known, read_npy, vector_column, vectors_in

Array = NDArray[Any]
LABELS = ("labels", "targets", "y", "label", "target")
IDS, CLASSES, NAMES = "ids", "class_names", "names"


def embeddings(path: Path, option: str) -> Splits | None:
    """The labelled vectors of a file, of which a fifth is held out; None where the file is of another kind.

    .npz      inputs (or embeddings, features, X), labels (or targets, y), and perhaps ids, class_names (or names) and
              other arrays [n], which are carried along; the option names classes by number
    .npy      inputs; the option is the file of the labels, and perhaps of the ids: vectors.npy:labels.npy,ids.npy
    .parquet  a column of lists of numbers; the option is the column of the labels, and all others are carried along
    """
    made = _of_file(path, option)
    if made is None:
        return None
    splits = standardise_targets(split(made)) if made.is_regression else split(made)
    return only_classes(splits, whole_numbers(option)) if option and path.suffix == ".npz" else splits


def all_embeddings(path: Path, option: str, train: Examples) -> Examples | None:
    """The same, with none held out, and with the classes or in the unit of the training set."""
    made = _of_file(path, option)
    if made is None:
        return None
    if option and path.suffix == ".npz":
        made = only_classes(Splits(made, made), whole_numbers(option)).train
    names = np.array(made.class_names or range(made.classes or 0))
    labels = made.targets.numpy() if made.is_regression else names[made.targets.numpy()]
    return examples_like(train, (made.inputs, labels), None, path.name)


def _of_file(path: Path, option: str) -> Examples | None:
    if path.suffix == ".npy":
        return _from_npy(path, option)
    if path.suffix == ".npz":
        arrays = read_arrays(path)
        return None if "train_images" in arrays or first_known(arrays, INPUTS) is None else _from_arrays(arrays, path)
    if path.suffix == ".parquet" and (column := vector_column(path)) is not None:
        return _from_parquet(path, column, option or "target")
    return None


def _from_npy(path: Path, option: str) -> Examples:
    if not option:
        raise ThresherError(
            f"{path} holds no labels: name their file as well, {path}:labels.npy, or save an .npz file."
        )
    files = [_beside(path, name) for name in option.split(",")]
    if len(files) > 2:
        raise ThresherError(f"'{option}' names {len(files)} files: give the labels, and perhaps the ids.")
    arrays = {"inputs": read_npy(path)} | dict(zip(("labels", IDS), map(read_npy, files), strict=False))
    return _from_arrays(arrays, path)


def _beside(path: Path, name: str) -> Path:
    """A file named from where the command runs, or beside another file."""
    given = Path(name).expanduser()
    return given if given.exists() else path.parent / name


def _from_arrays(arrays: Mapping[str, Array], path: Path) -> Examples:
    inputs, labels = first_known(arrays, INPUTS), first_known(arrays, LABELS)
    assert inputs is not None
    if labels is None:
        raise ThresherError(f"{path} has {inputs} but no labels: save them as 'labels'.")
    others = {key: values for key, values in arrays.items() if key not in (inputs, labels)}
    return _examples(arrays[inputs], arrays[labels], others, path)


def _from_parquet(path: Path, column: str, target: str) -> Examples:
    rows = read_table(path)
    if target not in rows.column_names:
        raise unknown(f"column in {path.name}", target, rows.column_names)
    labels = plain_column(rows, target)
    if labels.null_count:
        raise ThresherError(
            f"Column {target} has {labels.null_count} rows without a label: label or remove those rows."
        )
    others = {
        name: rows.column(name).to_numpy(zero_copy_only=False)
        for name in rows.column_names
        if name not in (column, target)
    }
    return _examples(vectors_in(rows, column, path), labels.to_numpy(zero_copy_only=False), others, path)


def _examples(values: Array, labels: Array, others: dict[str, Array], path: Path) -> Examples:
    """Labelled vectors, with what else there is one of for each: it is carried along."""
    if values.ndim < 2 or values.dtype.kind not in "buif":
        shape = list(values.shape)
        raise ThresherError(f"The inputs of {path} are {values.dtype} of shape {shape}: give numbers [n, ...].")
    made = as_examples((values, labels), name=path.stem)
    names = made.class_names or _class_names(others, made.classes)
    inputs = channels_first(values)
    pixels = inputs.dtype == torch.uint8 and inputs.ndim == 4
    brought = {key: each for key, each in others.items() if each.ndim == 1 and len(each) == len(values)}
    _refuse_repeated(brought.get(IDS), path)
    return replace(
        made,
        inputs=inputs if pixels else inputs.float(),
        classes=made.classes if names is None else len(names),
        class_names=names,
        normalise=channel_statistics(inputs) if pixels else None,
        brought=brought,
        checked=False,
    )


def _class_names(others: dict[str, Array], classes: int | None) -> list[str] | None:
    """The names of classes that are numbers, where an array holds them; it is used up."""
    for key in (CLASSES, NAMES):
        count = len(others.get(key, ()))
        if classes is not None and count and (count == classes or (key == CLASSES and count > classes)):
            return [str(name) for name in others.pop(key)]
    return None


def _refuse_repeated(ids: Array | None, path: Path) -> None:
    if ids is not None and len(np.unique(ids)) != len(ids):
        raise ThresherError(f"{path} has ids that repeat: give every example an id of its own.")
