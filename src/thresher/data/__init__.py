"""Where examples come from: built-in and generated sets, well-known ones, and anybody's own files."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from thresher.data.arrays import from_arrays, from_npz, known_images
from thresher.data.builtin import blobs, digits, regression
from thresher.data.folders import celeba_gender, celeba_landmarks, image_folder, imagenet, in_memory, mini_webvision
from thresher.data.human import human_labels
from thresher.data.predictions import Predictions, read_predictions
from thresher.data.splits import Splits, hold_out, only_classes, split, standardise_targets, take_clean
from thresher.data.tables import SUFFIXES, table
from thresher.errors import ThresherError
from thresher.naming import unknown

__all__ = [
    "Predictions",
    "Splits",
    "from_arrays",
    "from_npz",
    "hold_out",
    "image_folder",
    "in_memory",
    "load",
    "names",
    "only_classes",
    "read_predictions",
    "split",
    "standardise_targets",
    "table",
    "take_clean",
]

# A loader takes the option of `name:option`, the data folder and the seed.
Loader = Callable[[str, Path, int], Splits]


def load(name: str, *, data_dir: str | Path | None = None, seed: int = 0) -> Splits:
    """The training and the test set called `name`, or read from the file or folder of that path.

    name      a known name, with sizes or classes after a colon: digits, blobs:2000,5,10 (examples, classes,
              features), mnist:4,9 (these classes), imagenet:128 (pixels); NAME for NAME.npz in the data folder;
              or a path: table.csv:COLUMN, set.npz, folder/of/images:64
    data_dir  where data lies or is downloaded to: else THRESHER_DATA, else ~/.cache/thresher
    seed      for generated sets only; everything else is always split in the same way

    >>> train, test = load("blobs:100,3")
    >>> len(train), train.classes
    (100, 3)
    """
    said = data_dir if data_dir is not None else os.environ.get("THRESHER_DATA")
    folder = Path(said).expanduser() if said else Path.home() / ".cache" / "thresher"
    if said and not folder.is_dir():
        raise ThresherError(f"There is no data folder {folder}: create it or correct data_dir (or THRESHER_DATA).")
    base, _, option = name.partition(":")
    if base in REGISTRY:
        return REGISTRY[base](option, folder, seed)
    path = Path(base).expanduser()
    if path.exists() or "/" in base or path.suffix:
        return _from_path(path, option)
    if (folder / f"{base}.npz").exists():
        return _chosen(from_npz(folder / f"{base}.npz"), option)
    raise unknown("data set", base, names())


def names() -> list[str]:
    """The names `load` knows, sorted; files and folders can be given as paths beside them."""
    return sorted(REGISTRY)


def _from_path(path: Path, option: str) -> Splits:
    if not path.exists():
        raise ThresherError(
            f"There is no file or folder {path}: check the path, or choose one of {', '.join(names())}."
        )
    if path.is_dir():
        return image_folder(path, *_sizes(option, most=1))
    if path.suffix == ".npz":
        return _chosen(from_npz(path), option)
    if path.name.endswith(SUFFIXES):
        return table(path, option or "target")
    raise ThresherError(
        f"{path} is no kind of file Thresher reads: give {', '.join(SUFFIXES)}, .npz or a folder of images."
    )


def _sizes(option: str, most: int) -> list[int]:
    """The whole numbers of an option like `2000,5`.

    >>> _sizes("2000,5", most=3)
    [2000, 5]
    """
    try:
        sizes = [int(part) for part in option.split(",")] if option else []
    except ValueError:
        raise ThresherError(f"'{option}' is no list of whole numbers: write it like 2000,5.") from None
    if len(sizes) > most:
        raise ThresherError(f"'{option}' has {len(sizes)} numbers: give at most {most}.")
    return sizes


def _chosen(splits: Splits, option: str) -> Splits:
    return only_classes(splits, _sizes(option, most=1000)) if option else splits


def _digits(option: str, _folder: Path, _seed: int) -> Splits:
    return _chosen(digits(), option)


def _generated(make: Callable[..., Splits], option: str, _folder: Path, seed: int) -> Splits:
    return make(*_sizes(option, most=3), seed=seed)


def _images(name: str, option: str, folder: Path, _seed: int) -> Splits:
    return _chosen(known_images(name, folder), option)


def _human(images: str, key: str, option: str, folder: Path, _seed: int) -> Splits:
    if option:
        raise ThresherError(f"{images} with human labels takes no option: leave out ':{option}'.")
    return human_labels(images, key, folder)


def _streamed(make: Callable[..., Splits], option: str, folder: Path, _seed: int) -> Splits:
    return make(folder, *_sizes(option, most=1))


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
