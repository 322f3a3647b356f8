"""Clean examples: taken out of a training set whose truth is known, or read from files of their own."""

import warnings
from dataclasses import replace
from pathlib import Path

import torch

from thresher.core.errors import ThresherError
from thresher.core.examples import Examples
from thresher.core.seeding import generator
from thresher.data.arrays import all_of_npz
from thresher.data.corrected_column import CORRECTED
from thresher.data.embeddings import all_embeddings
from thresher.data.image_files import files_of
from thresher.data.image_folders import all_images
from thresher.data.loading import REGISTRY, base_and_option, data_folder, path_of
from thresher.data.overlap import overlapping
from thresher.data.preparation import ImagePreparation, RowPreparation, preparation_of
from thresher.data.splits import Splits, only_classes, path_and_option, whole_numbers
from thresher.data.table_files import TABLE_SUFFIXES
from thresher.data.tables import rows_like


def read_like(path: Path, option: str, train: Examples, data: str) -> Examples:
    """All examples of a file or folder, read as the training set was, which `data` names; nothing is held out.

    Classes are matched by name, so that some may be missing. Images are scaled as the training images are; the columns
    and real targets of a table are standardised by its training rows.
    """
    if path.is_dir():
        if train.classes is None:
            raise ThresherError(f"{path} is a folder of classes, and {train.name} has real targets: give an .npz file.")
        names = train.class_names or [str(label) for label in range(train.classes)]
        known = preparation_of(train)
        ranges = known.ranges if isinstance(known, ImagePreparation) else None
        return all_images(path, train.input_shape[-1], names, ranges)
    if (vectors := all_embeddings(path, option, train)) is not None:
        return vectors
    if path.suffix == ".npz":
        clean = all_of_npz(path)
        return only_classes(Splits(clean, clean), whole_numbers(option)).train if option else clean
    base, known = path_and_option(data)[0], train.preparation
    if not path.name.endswith(TABLE_SUFFIXES) or not isinstance(known, RowPreparation):
        raise ThresherError(f"{path} is of another kind than {base}: give examples in the form of the training set.")
    target, given = ",".join(known.targets), ",".join(each.removesuffix(CORRECTED) for each in known.targets)
    if option not in ("", target, given):
        raise ThresherError(f"The targets of {base} are in its column {target}: call that of {path.name} so as well.")
    return rows_like(path, known, train.class_names, train.target_scale, option.split(",") if option else ())


def warn_of_test_examples(clean: Examples, train: Examples, test: Examples, name: str) -> None:
    """Warn of clean examples whose inputs are test inputs, unless they are training inputs as well."""
    tested = overlapping(clean, test)
    if tested.any() and (met := (tested & ~overlapping(clean, train)).nonzero()[:, 0].tolist()):
        files = files_of(clean.inputs)
        first = files[met[0]] if files else f"number {met[0]}, counted from 0"
        warnings.warn(
            f"{len(met)} examples of {name} are test examples, which must not steer training (the first is {first}): "
            "remove them.",
            stacklevel=3,
        )


def take_clean(train: Examples, count: int, seed: int = 0) -> tuple[Examples, Examples]:
    """(the rest, the clean set): `count` examples taken out with their true targets, equally many of each class.

    At most half of a class is taken, unless the other classes have too few examples.
    The truth is the column `true_target`, which `corrupt` and the sets with human labels add.

    >>> true = torch.tensor([0, 1, 1, 1, 1, 1])
    >>> rest, clean = take_clean(Examples(torch.zeros(6, 1), 1 - true, columns={"true_target": true}), 3)
    >>> sorted(clean.targets.tolist()), len(rest)
    ([0, 1, 1], 3)
    """
    true = train.columns.get("true_target")
    if true is None:
        raise ThresherError(
            f"The true targets of {train.name} are unknown, so none can be taken out: give clean examples of your own "
            "(--clean FOLDER or FILE), or, to try things out, --corrupt."
        )
    if not 1 <= count < len(train):
        raise ThresherError(f"{count} of {len(train)} examples cannot be taken out: give 1 to {len(train) - 1}.")
    order = torch.randperm(len(train), generator=generator(seed, "clean set"))
    if train.classes is not None:
        labels = true.cpu()[order]
        turns = torch.zeros(len(order), dtype=torch.long)  # the first of each class, then the second of each, ...
        for label in range(train.outputs):
            turn = torch.arange(size := int((labels == label).sum()))
            turns[labels == label] = turn + len(order) * (2 * turn >= size)
        order = order[turns.argsort(stable=True)]
    chosen = order[:count]
    rest = torch.ones(len(train), dtype=torch.bool)
    rest[chosen] = False
    clean = train.subset(chosen)
    trusted = clean.with_targets(clean.columns["true_target"], is_corrupt=torch.zeros(count, dtype=torch.bool))
    return train.subset(rest), replace(trusted, name="the clean set")


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
    folder = data_folder(data_dir)
    base, option = base_and_option(name)
    if base in REGISTRY:
        found = REGISTRY[base](option, folder, seed).train
    else:
        found = read_like(path_of(base, folder), option, train, data)
    return replace(
        found,
        ids=torch.arange(len(found)) + int(train.ids.max()) + 1,
        classes=train.classes,
        class_names=train.class_names,
        normalise=train.normalise,
        checked=False,
    )
