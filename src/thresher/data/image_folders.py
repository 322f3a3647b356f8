"""Images in folders with one subfolder a class, streamed from their files."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from thresher.core.errors import ThresherError
from thresher.core.examples import Examples
from thresher.core.naming import unknown
from thresher.data.image_files import IMAGE_SUFFIXES, ImageFiles, images_in
from thresher.data.preparation import preparation_of
from thresher.data.splits import Splits, split

UNLABELLED = ("unlabelled", "unlabeled")  # the subfolder of images without a label

# Mean and deviation of ImageNet's training images, per channel, in 0..255: measuring them would decode every file.
IMAGENET_MEAN = torch.tensor([123.675, 116.28, 103.53])[:, None, None]
IMAGENET_DEVIATION = torch.tensor([58.395, 57.12, 57.375])[:, None, None]


def in_memory(examples: Examples) -> Examples:
    """Streamed examples with all inputs read into one tensor, for sets that fit into memory."""
    if isinstance(examples.inputs, Tensor):
        return examples
    read = [examples.inputs[position] for position in range(len(examples))]
    inputs = torch.stack([torch.as_tensor(item[0] if isinstance(item, (tuple, list)) else item) for item in read])
    return replace(examples, inputs=inputs, preparation=preparation_of(examples), checked=False)


def image_folder(folder: Path, size: int = 64) -> Splits:
    """Images in one subfolder a class, or in train/ and test/ (or val/) with one subfolder a class in each."""
    for name in UNLABELLED:
        if (folder / name).is_dir():
            raise ThresherError(
                f"{folder} has a subfolder {name}: train with --pool to ask about its images, or move it elsewhere."
            )
    return labelled_images(folder, size)


def labelled_images(folder: Path, size: int = 64) -> Splits:
    """The same, where a subfolder `unlabelled` is ignored."""
    test = next((folder / name for name in ("test", "val", "valid", "validation") if (folder / name).is_dir()), None)
    if (folder / "train").is_dir() and test is not None:
        places, splits = [folder / "train", test], train_and_test(folder / "train", test, size, folder.name)
    else:
        places, splits = [folder], split(_classified(folder, _class_folders(folder), size, folder.name))
    for place in places:
        loose = [path for path in place.glob("[!.]*") if path.suffix.lower() in IMAGE_SUFFIXES]
        if loose:
            raise ThresherError(
                f"{place} has {len(loose)} images beside its subfolders: move them into these, or elsewhere."
            )
    if int((splits.train.labels.bincount() > 0).sum()) < 2:
        raise ThresherError(f"{folder} has images of one class only: give images of at least two.")
    return splits


def all_images(folder: Path, size: int, classes: Sequence[str]) -> Examples:
    """The images of a folder with one subfolder a class, of which some may be missing; none is held out."""
    for name in _class_folders(folder):
        if name not in classes:
            raise unknown("class among the training examples", name, classes)
    return _classified(folder, list(classes), size, folder.name)


def unlabelled_images(folder: Path) -> list[Path]:
    """The images of the subfolder `unlabelled`, sorted."""
    place = next((folder / name for name in UNLABELLED if (folder / name).is_dir()), None)
    if place is None:
        raise ThresherError(f"{folder} has no subfolder {UNLABELLED[0]}: put the images to ask about there.")
    paths = images_in(place)
    if not paths:
        raise ThresherError(f"{place} has no images: put the images to ask about there.")
    return paths


def train_and_test(train: Path, test: Path, size: int, name: str, classes: int | None = None) -> Splits:
    """The images of two folders with the same subfolders; of the first `classes` of these, or of all."""
    known = _class_folders(train)
    extra = set(_class_folders(test)) - set(known)
    if extra:
        raise ThresherError(
            f"{test} has a class '{min(extra)}' that {train} does not have: give both the same subfolders."
        )
    return Splits(*(_classified(folder, known[:classes], size, name) for folder in (train, test)))


def _class_folders(folder: Path) -> list[str]:
    entries = (entry for entry in folder.iterdir() if entry.is_dir() and entry.name not in UNLABELLED)
    found = sorted(entry.name for entry in entries if not entry.name.startswith("."))
    if not found:
        raise ThresherError(f"{folder} has no subfolders: put the images of each class into a subfolder of its own.")
    return found


def _classified(folder: Path, classes: list[str], size: int, name: str) -> Examples:
    paths: list[Path] = []
    labels: list[int] = []
    for label, known in enumerate(classes):
        place = folder / known
        found = images_in(place) if place.is_dir() else []
        paths += found
        labels += [label] * len(found)
    if not paths:
        raise ThresherError(f"{folder} has no images in its subfolders: use {', '.join(sorted(IMAGE_SUFFIXES))} files.")
    return streamed_images(paths, torch.tensor(labels), size, name, len(classes), classes)


def streamed_images(
    paths: list[Path],
    targets: Tensor,
    size: int,
    name: str,
    classes: int | None,
    class_names: list[str] | None = None,
    groups: Tensor | None = None,
) -> Examples:
    """Examples whose inputs are read from these files, batch by batch."""
    if size < 1:
        raise ThresherError(f"The size of images must be at least 1 pixel, not {size}: give a larger one.")
    return Examples(
        ImageFiles(paths, size),
        targets,
        classes=classes,
        columns={} if groups is None else {"group": groups},
        class_names=class_names,
        normalise=(IMAGENET_MEAN, IMAGENET_DEVIATION),
        name=name,
    )
