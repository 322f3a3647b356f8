"""Where examples come from: built-in and generated sets, well-known sets, and files of one's own."""

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from thresher.core.errors import ThresherError, unknown
from thresher.core.examples import Examples, join
from thresher.data.arrays import from_arrays, from_npz, known_images
from thresher.data.builtin import blobs, digits, regression
from thresher.data.clean import read_like, take_clean, warn_of_test_examples
from thresher.data.embeddings import embeddings
from thresher.data.human_labels import human_labels
from thresher.data.image_files import ImageFiles
from thresher.data.image_folders import image_folder, in_memory
from thresher.data.image_sets import celeba_gender, celeba_landmarks, imagenet, mini_webvision
from thresher.data.paths import path_and_option
from thresher.data.pools import Pooled, load_with_pool
from thresher.data.predictions import Predictions, read_predictions
from thresher.data.preparation import Preparation, RowPreparation, preparation_of
from thresher.data.scan import Scan, scan
from thresher.data.splits import (
    Splits,
    hold_out,
    is_held_out,
    only_classes,
    split,
    standardise_targets,
    whole_numbers,
)
from thresher.data.table_files import TABLE_SUFFIXES
from thresher.data.table_options import TableOptions
from thresher.data.tables import rows_as_examples, table

__all__ = [
    "ImageFiles",
    "Pooled",
    "Predictions",
    "Preparation",
    "Scan",
    "Splits",
    "TableOptions",
    "blobs",
    "digits",
    "from_arrays",
    "from_npz",
    "hold_out",
    "image_folder",
    "in_memory",
    "is_held_out",
    "load",
    "load_clean",
    "load_test",
    "load_whole",
    "load_with_pool",
    "names",
    "notes_of",
    "only_classes",
    "preparation_of",
    "read_predictions",
    "regression",
    "scan",
    "split",
    "standardise_targets",
    "table",
    "take_clean",
]

# A loader takes the option of `name:option`, the data folder and the seed.
Loader = Callable[[str, Path, int], Splits]


def load(
    name: str,
    *,
    data_dir: str | Path | None = None,
    seed: int = 0,
    options: TableOptions | None = None,
    skip_broken: bool = False,
) -> Splits:
    """The training and the test set called `name`, or read from the file or folder of that path.

    name      a known name, with sizes or classes after a colon: digits, blobs:2000,5,10 (examples, classes,
              features), mnist:4,9 (these classes), imagenet:128 (pixels); NAME for NAME.npz in the data folder;
              or a path: table.csv:COLUMN, vectors.parquet:COLUMN, set.npz, inputs.npy:labels.npy, folder/of/images:64
    data_dir  the folder of data and downloads: if not given THRESHER_DATA, or else ~/.cache/thresher
    seed      for generated sets only; all others are always split in the same way
    options   how a table is read where its looks are not enough: its task, categories, ids, groups, ...
    skip_broken  leave out image files that cannot be read, which are refused otherwise, all of them at once

    >>> train, test = load("blobs:100,3")
    >>> len(train), train.classes
    (100, 3)
    """
    folder = _data_folder(data_dir)
    base, option = _base_and_option(name)
    options = TableOptions() if options is None else options
    if base in REGISTRY:
        options.refuse_if_given(base)
        return REGISTRY[base](option, folder, seed)
    return _from_path(_path_of(base, folder), option, options, skip_broken)


def load_whole(
    name: str,
    *,
    data_dir: str | Path | None = None,
    seed: int = 0,
    options: TableOptions | None = None,
    skip_broken: bool = False,
) -> Examples:
    """All examples to train on of the set called `name`: where `load` would hold out a fifth, that is among them."""
    base, target = _base_and_option(name)
    if base not in REGISTRY and base.endswith(TABLE_SUFFIXES):
        path = _path_of(base, _data_folder(data_dir))
        if embeddings(path, target) is None:
            return rows_as_examples(path, target or "target", options)
    splits = load(name, data_dir=data_dir, seed=seed, options=options, skip_broken=skip_broken)
    if not is_held_out(splits):
        return splits.train
    both = join(*splits)
    return both.subset(both.ids.argsort())


def load_test(name: str, train: Examples, data: str, *, data_dir: str | Path | None = None, seed: int = 0) -> Examples:
    """The examples of this name, file or folder as a test set for the training set that `load_whole(data)` gave.

    They are read as the training set was: the same classes by name, size of images, scale of numbers.
    """
    found = _read_like(name, train, data, data_dir, seed)
    return replace(found, ids=torch.arange(len(found)), name="the test set", checked=False)


def load_clean(name: str, known: Splits, data: str, *, data_dir: str | Path | None = None, seed: int = 0) -> Examples:
    """The examples of this name, file or folder as clean examples for the training set that `load(data)` gave.

    All of them are taken, and read as the training set was: the same classes by name, size of images, scale of numbers.
    A warning says if test examples are among them.
    """
    train, test = known
    clean = _read_like(name, train, data, data_dir, seed)
    warn_of_test_examples(clean, train, test, name)
    return replace(clean, name="the clean set", checked=False)


def _read_like(name: str, train: Examples, data: str, data_dir: str | Path | None, seed: int) -> Examples:
    """All examples of this name, read as the training set was, with ids of their own."""
    folder = _data_folder(data_dir)
    base, option = _base_and_option(name)
    if base in REGISTRY:
        found = REGISTRY[base](option, folder, seed).train
    else:
        found = read_like(_path_of(base, folder), option, train, data)
    return replace(
        found,
        ids=torch.arange(len(found)) + int(train.ids.max()) + 1,
        classes=train.classes,
        class_names=train.class_names,
        normalise=train.normalise,
        checked=False,
    )


def notes_of(examples: Examples) -> tuple[str, ...]:
    """What a person should know of how these examples were read, a sentence each."""
    known = examples.preparation
    return known.notes if isinstance(known, RowPreparation) else ()


def names() -> list[str]:
    """The names `load` knows, sorted; it also takes paths of files and folders."""
    return sorted(REGISTRY)


def _data_folder(data_dir: str | Path | None) -> Path:
    given = data_dir if data_dir is not None else os.environ.get("THRESHER_DATA")
    folder = Path(given).expanduser() if given else Path.home() / ".cache" / "thresher"
    if given and not folder.is_dir():
        raise ThresherError(f"There is no data folder {folder}: create it or correct data_dir (or THRESHER_DATA).")
    return folder


def _base_and_option(name: str) -> tuple[str, str]:
    """A known name or a path, and the option after it; a known name goes before a path."""
    base, _, option = name.partition(":")
    return (base, option) if base in REGISTRY else path_and_option(name)


def _path_of(base: str, folder: Path) -> Path:
    """The file or folder at this path, or the .npz file of this name in the data folder."""
    path = Path(base).expanduser()
    if path.exists():
        return path
    if "/" in base or path.suffix:
        raise ThresherError(
            f"There is no file or folder {path}: check the path, or choose one of {', '.join(names())}."
        )
    if not (folder / f"{base}.npz").exists():
        raise unknown("data set", base, names())
    return folder / f"{base}.npz"


def _from_path(path: Path, option: str, options: TableOptions, skip_broken: bool = False) -> Splits:
    if path.is_file() and (vectors := embeddings(path, option)) is not None:
        options.refuse_if_given(path.name)
        return vectors
    if path.name.endswith(TABLE_SUFFIXES) and path.is_file():
        return table(path, option or "target", options)
    options.refuse_if_given(path.name)
    if path.is_dir():
        return image_folder(path, next(iter(_pixels(option)), None), skip_broken)
    if path.suffix == ".npz":
        return _chosen(from_npz(path), option)
    raise ThresherError(
        f"{path} is of no kind that Thresher reads: give {', '.join(TABLE_SUFFIXES)}, .npz, .npy or a folder of images."
    )


def _chosen(splits: Splits, option: str) -> Splits:
    return only_classes(splits, whole_numbers(option)) if option else splits


def _digits(option: str, _folder: Path, _seed: int) -> Splits:
    return _chosen(digits(), option)


def _generated(make: Callable[..., Splits], option: str, _folder: Path, seed: int) -> Splits:
    return make(*whole_numbers(option, most=3), seed=seed)


def _images(name: str, option: str, folder: Path, _seed: int) -> Splits:
    return _chosen(known_images(name, folder), option)


def _human(images: str, key: str, option: str, folder: Path, _seed: int) -> Splits:
    if option:
        raise ThresherError(f"{images} with human labels takes no option: leave out ':{option}'.")
    return human_labels(images, key, folder)


def _streamed(make: Callable[..., Splits], option: str, folder: Path, _seed: int) -> Splits:
    return make(folder, *_pixels(option))


def _pixels(option: str) -> list[int]:
    """The size of images that an option names, or none."""
    if option and not option.isdecimal():
        raise ThresherError(f"'{option}' is not a size of images: give a number of pixels, such as 64.")
    return whole_numbers(option)


REGISTRY: dict[str, Loader] = {
    "digits": _digits,
    "blobs": partial(_generated, blobs),
    "regression": partial(_generated, regression),
    "cifar10": partial(_images, "cifar10"),
    "cifar100": partial(_images, "cifar100"),
    "svhn": partial(_images, "svhn"),
    "mnist": partial(_images, "mnist"),
    "fashion-mnist": partial(_images, "fashion-mnist"),
    "cifar10n-aggre": partial(_human, "cifar10", "aggre_label"),
    "cifar10n-random1": partial(_human, "cifar10", "random_label1"),
    "cifar10n-random2": partial(_human, "cifar10", "random_label2"),
    "cifar10n-random3": partial(_human, "cifar10", "random_label3"),
    "cifar10n-worse": partial(_human, "cifar10", "worse_label"),
    "cifar100n": partial(_human, "cifar100", "noisy_label"),
    "celeba-landmarks": partial(_streamed, celeba_landmarks),
    "celeba-gender": partial(_streamed, celeba_gender),
    "imagenet": partial(_streamed, imagenet),
    "imagenet-50": partial(_streamed, partial(imagenet, classes=50)),
    "mini-webvision": partial(_streamed, mini_webvision),
}
