"""Images in folders with one subfolder a class, read from their files."""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from thresher.core.datasets import MapDataset, Picked
from thresher.core.errors import ThresherError, unknown
from thresher.core.examples import Examples
from thresher.data.decoded import read_images
from thresher.data.folder_layout import UNLABELLED, class_folders, layout_in, part_of
from thresher.data.image_files import ImageFiles, images_in, refuse_no_size
from thresher.data.image_pixels import Ranges
from thresher.data.preparation import preparation_of
from thresher.data.scan import Scan, scan
from thresher.data.splits import Splits, split

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


def image_folder(folder: Path, size: int | None = None, skip_broken: bool = False) -> Splits:
    """Images in one subfolder a class, or in train/ and test/ (or val/) with one subfolder a class in each.

    Without a size, images have the one that most of them have, and at most 64 pixels. Every file is decoded once and
    kept in a cache. Warnings say what a scan found that matters for training.
    """
    for name in UNLABELLED:
        if (folder / name).is_dir():
            raise ThresherError(
                f"{folder} has a subfolder {name}: train with --pool to ask about its images, or move it elsewhere."
            )
    return labelled_images(folder, size, skip_broken)


def labelled_images(folder: Path, size: int | None = None, skip_broken: bool = False) -> Splits:
    """The same, where a subfolder `unlabelled` is ignored."""
    found = scan(folder, size)
    if not skip_broken:
        found.refuse_broken()
    for sentence in found.warnings():
        warnings.warn(sentence, stacklevel=2)
    sides = _sides(found)
    splits = Splits(*sides) if len(sides) == 2 else split(sides[0])
    if int((splits.train.labels.bincount() > 0).sum()) < 2:
        raise ThresherError(f"{folder} has images of one class only: give images of at least two.")
    return splits


def _sides(found: Scan) -> list[Examples]:
    """The examples of each part of a folder; broken files are left out, and the others keep their ids."""
    sides, first, classes = [], 0, found.layout.classes
    for part in found.layout.parts:
        places = range(first, first + len(part.paths))
        first += len(part.paths)
        inputs = found.files if len(places) == len(found.files) else Picked(found.files, list(places))
        made = _examples(inputs, torch.tensor(part.labels), found.folder.name, len(classes), classes)
        whole = torch.tensor([place not in found.facts.broken for place in places])
        if not whole.any():
            raise ThresherError(f"{part.folder} has no image that can be read: give a folder that has some.")
        sides.append(made if whole.all() else made.subset(whole))
    return sides


def all_images(folder: Path, size: int, classes: Sequence[str], ranges: Ranges | None = None) -> Examples:
    """The images of a folder with one subfolder a class, of which some may be missing; none is held out."""
    for name in class_folders(folder):
        if name not in classes:
            raise unknown("class among the training examples", name, classes)
    _, paths, labels = part_of(folder, list(classes))
    files, facts = read_images(paths, size, ranges)
    if facts.broken:
        first = min(facts.broken)
        raise ThresherError(
            f"{len(facts.broken)} files in {folder} cannot be read as an image (the first is {paths[first]}: "
            f"{facts.broken[first]}): replace or remove them."
        )
    return _examples(files, torch.tensor(labels), folder.name, len(classes), list(classes))


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
    """The images of two folders with the same subfolders, streamed; of the first `classes` of these, or of all."""
    parts, known = layout_in(train, test, most=classes)
    return Splits(
        *(streamed_images(part.paths, torch.tensor(part.labels), size, name, len(known), known) for part in parts)
    )


def streamed_images(
    paths: list[Path],
    targets: Tensor,
    size: int,
    name: str,
    classes: int | None,
    class_names: list[str] | None = None,
    groups: Tensor | None = None,
) -> Examples:
    """Examples whose inputs are read from these files, batch by batch, in every epoch: for sets of any size."""
    refuse_no_size(size)
    made = _examples(ImageFiles(paths, size), targets, name, classes, class_names)
    return made if groups is None else made.with_columns(group=groups)


def _examples(
    inputs: MapDataset, targets: Tensor, name: str, classes: int | None, class_names: list[str] | None
) -> Examples:
    return Examples(
        inputs,
        targets,
        classes=classes,
        class_names=class_names,
        normalise=(IMAGENET_MEAN, IMAGENET_DEVIATION),
        name=name,
    )
