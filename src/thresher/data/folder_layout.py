"""Which image files of a folder belong to which class and to which set; nothing is opened."""

from pathlib import Path
from typing import NamedTuple

from thresher.core.errors import ThresherError
from thresher.data.image_files import IMAGE_SUFFIXES, images_in, is_ignored

UNLABELLED = ("unlabelled", "unlabeled")  # the subfolder of images without a label
TESTS = ("test", "val", "valid", "validation")


class Part(NamedTuple):
    """The image files of a folder with one subfolder a class."""

    folder: Path
    paths: list[Path]
    labels: list[int]


class Layout(NamedTuple):
    """One part, or two: what to train on and what to test on; and the names of the classes."""

    parts: list[Part]
    classes: list[str]


def layout_of(folder: Path) -> Layout:
    """Images in one subfolder a class, or in train/ and test/ (or val/) with one subfolder a class in each."""
    test = next((folder / name for name in TESTS if (folder / name).is_dir()), None)
    places = [folder / "train", test] if (folder / "train").is_dir() and test is not None else [folder]
    made = layout_in(*places)
    for place in places:
        loose = [path for path in place.glob("[!.]*") if path.suffix.lower() in IMAGE_SUFFIXES and path.is_file()]
        if loose:
            raise ThresherError(
                f"{place} has {len(loose)} images beside its subfolders: move them into these, or elsewhere."
            )
    if len(set(made.parts[0].labels)) < 2:
        raise ThresherError(f"{folder} has images of one class only: give images of at least two.")
    return made


def layout_in(*folders: Path, most: int | None = None) -> Layout:
    """The images of folders with the same subfolders; of the first `most` of these, or of all."""
    known = class_folders(folders[0])
    for folder in folders[1:]:
        extra = set(class_folders(folder)) - set(known)
        if extra:
            raise ThresherError(
                f"{folder} has a class '{min(extra)}' that {folders[0]} does not have: give both the same subfolders."
            )
    return Layout([part_of(folder, known[:most]) for folder in folders], known[:most])


def class_folders(folder: Path) -> list[str]:
    """The names of the subfolders that are classes, sorted; hidden ones and those of systems are ignored."""
    entries = (entry for entry in folder.iterdir() if entry.is_dir() and entry.name not in UNLABELLED)
    found = sorted(entry.name for entry in entries if not is_ignored(entry, folder))
    for name in found:
        if folder.resolve().is_relative_to((folder / name).resolve()):
            raise ThresherError(f"{folder / name} is a link to a folder that holds it: remove the link.")
    if not found:
        raise ThresherError(f"{folder} has no subfolders: put the images of each class into a subfolder of its own.")
    return found


def part_of(folder: Path, classes: list[str]) -> Part:
    """The images of these classes, of which some may be missing."""
    paths: list[Path] = []
    labels: list[int] = []
    for label, known in enumerate(classes):
        place = folder / known
        found = images_in(place) if place.is_dir() else []
        paths += found
        labels += [label] * len(found)
    if not paths:
        raise ThresherError(f"{folder} has no images in its subfolders: use {', '.join(sorted(IMAGE_SUFFIXES))} files.")
    return Part(folder, paths, labels)
