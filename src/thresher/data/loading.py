"""Loading a set by its name or path: built-in and generated sets, well-known sets, and files of one's own."""

import os
import warnings
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from thresher.core.errors import (
    FOLDER,
    SEED,
    Kind,
    ThresherError,
    or_none,
    refuse_endless,
    refuse_other_kinds,
    refuse_unless,
    shortened,
    unknown,
)  # fmt: skip
from thresher.core.examples import Examples
from thresher.core.files import expanded, is_there
from thresher.core.joining import join
from thresher.data.arrays import from_npz, known_images
from thresher.data.class_names import TEN_DIGITS
from thresher.data.embeddings import embeddings
from thresher.data.generated_sets import blobs, regression
from thresher.data.human_labels import human_labels
from thresher.data.image_files import size_of
from thresher.data.image_folders import image_folder
from thresher.data.image_sets import celeba_gender, celeba_landmarks, imagenet, mini_webvision
from thresher.data.preparation import RowPreparation
from thresher.data.splits import (
    Splits,
    is_held_out,
    only_classes,
    path_and_option,
    split,
    whole_numbers,
)
from thresher.data.table_files import TABLE_SUFFIXES
from thresher.data.table_options import TableOptions
from thresher.data.tables import rows_as_examples, table

# A loader takes the option of `name:option`, the data folder and the seed.
Loader = Callable[[str, Path, int], Splits]
KINDS: dict[str, Kind] = {
    "data_dir": or_none(FOLDER),
    "seed": SEED,
    "options": or_none((lambda each: isinstance(each, TableOptions), "TableOptions(...)")),
}


def load(
    name: str | Path,
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
    refuse_unless("name", name, isinstance(name, str | Path), "a name or a path; what is in memory goes to fit itself")
    refuse_other_kinds(KINDS, {"data_dir": data_dir, "seed": seed, "options": options})
    name = str(name)
    folder = data_folder(data_dir)
    base, option = base_and_option(name)
    if base in REGISTRY:
        if options is not None:
            options.refuse_if_given(base)
        _tell_of_folder(base)
        return REGISTRY[base](option, folder, seed)
    return _from_path(path_of(base, folder), option, options or TableOptions(), skip_broken)


def load_whole(
    name: str,
    *,
    data_dir: str | Path | None = None,
    seed: int = 0,
    options: TableOptions | None = None,
    skip_broken: bool = False,
) -> Examples:
    """All examples to train on of the set called `name`: where `load` would hold out a fifth, that is among them."""
    base, target = base_and_option(name)
    if base not in REGISTRY and base.endswith(TABLE_SUFFIXES):
        path = path_of(base, data_folder(data_dir))
        if embeddings(path, target) is None:
            return rows_as_examples(path, target or "target", options)
    splits = load(name, data_dir=data_dir, seed=seed, options=options, skip_broken=skip_broken)
    if not is_held_out(splits):
        return splits.train
    both = join(*splits)
    return both.subset(both.ids.argsort())


def notes_of(examples: Examples) -> tuple[str, ...]:
    """What a person should know of how these examples were read, a sentence each."""
    known = examples.preparation
    return known.notes if isinstance(known, RowPreparation) else ()


def names() -> list[str]:
    """The names `load` knows, sorted; it also takes paths of files and folders."""
    return sorted(REGISTRY)


def data_folder(data_dir: str | Path | None) -> Path:
    """The folder of data and downloads: as given, by the variable THRESHER_DATA, or in the cache."""
    given = data_dir if data_dir is not None else os.environ.get("THRESHER_DATA")
    folder = expanded(given) if given else Path.home() / ".cache" / "thresher"
    if given and not folder.is_dir():
        raise ThresherError(f"There is no data folder {folder}: create it or correct data_dir (or THRESHER_DATA).")
    return folder


def base_and_option(name: str) -> tuple[str, str]:
    """A known name or a path, and the option after it; a known name goes before a path."""
    base, _, option = name.partition(":")
    return (base, option) if base in REGISTRY else path_and_option(name)


def _tell_of_folder(known: str) -> None:
    if Path(known).is_dir():
        told = f"{known} is read as the known set of this name. For the folder {known} that lies here, write ./{known}."
        warnings.warn(told, stacklevel=3)


def path_of(base: str, folder: Path) -> Path:
    """The file or folder at this path, or the .npz file of this name in the data folder."""
    path = expanded(base)
    if is_there(path):
        refuse_endless(path)
        return path
    if "/" in base or path.suffix:
        shown, known = shortened(str(path), 200), ", ".join(names())
        raise ThresherError(f"There is no file or folder {shown}: check the path, or choose one of {known}.")
    if not is_there(folder / f"{base}.npz"):
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
        return image_folder(path, size_of(option), skip_broken)
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
    return [size for size in (size_of(option),) if size is not None]


def digits() -> Splits:
    """1,797 handwritten digits of 8×8 pixels, as images [n, 1, 8, 8] from 0 to 1; a fifth of each class is held out.

    >>> train, test = digits()
    >>> tuple(train.inputs.shape), len(test), train.inputs.max().item()
    ((1438, 1, 8, 8), 359, 1.0)
    """
    rows = _digits_table()
    inputs = torch.as_tensor(rows[:, :-1] / 16, dtype=torch.float32).reshape(-1, 1, 8, 8)
    labels = torch.as_tensor(rows[:, -1].astype(np.int64))
    return split(Examples(inputs, labels, classes=10, class_names=TEN_DIGITS, name="digits", checked=True))


def _digits_table() -> NDArray[np.float64]:
    """Pixels from 0 to 16 and the label of each digit [n, 65], from scikit-learn's file: importing it takes seconds."""
    package = find_spec("sklearn")
    path = Path(package.origin).parent / "datasets/data/digits.csv.gz" if package and package.origin else Path()
    if path.is_file():
        return np.loadtxt(path, delimiter=",")
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    return np.column_stack([images, labels])


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
