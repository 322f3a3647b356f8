"""Images in folders: anybody's own, ImageNet, mini-WebVision and CelebA, decoded when they are asked for."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import ConcatDataset

from thresher.core.datasets import Picked
from thresher.core.errors import ThresherError
from thresher.core.examples import Examples
from thresher.core.naming import unknown
from thresher.data.splits import Splits, split

if TYPE_CHECKING:
    from PIL.Image import Image

SUFFIXES = {".jpg", ".jpeg", ".png", ".bmp", ".webp", ".gif", ".ppm", ".tif", ".tiff"}
UNLABELLED = ("unlabelled", "unlabeled")  # the subfolder of images that nobody has labelled yet

# Mean and deviation of ImageNet's training images, per channel, in 0..255: measuring them would decode every file.
IMAGENET_MEAN = torch.tensor([123.675, 116.28, 103.53])[:, None, None]
IMAGENET_DEVIATION = torch.tensor([58.395, 57.12, 57.375])[:, None, None]


@dataclass(frozen=True)
class ImageFiles:
    """A map-style dataset: the files at `paths`, scaled and centre-cropped to uint8 [3, size, size]."""

    paths: list[Path]
    size: int

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, position: int) -> Tensor:
        from PIL import ImageOps

        upright = open_image(self.paths[position])
        return torch.from_numpy(np.array(ImageOps.fit(upright, (self.size, self.size)))).permute(2, 0, 1).contiguous()


def files_of(inputs: Any) -> list[Path]:
    """The file of each input, or nothing where inputs are no image files."""
    if isinstance(inputs, ImageFiles):
        return inputs.paths
    if isinstance(inputs, Picked):
        files = files_of(inputs.dataset)
        return [files[place] for place in inputs.positions] if files else []
    if isinstance(inputs, ConcatDataset):
        parts = [files_of(part) for part in inputs.datasets]
        return [file for part in parts for file in part] if all(parts) else []
    return []


def open_image(path: Path) -> "Image":
    """The picture in a file, upright and in colour."""
    from PIL import Image, ImageOps

    try:
        with Image.open(path) as image:
            return ImageOps.exif_transpose(image).convert("RGB")
    except OSError as error:
        raise ThresherError(f"{path} cannot be read as an image ({error}): replace or remove it.") from error


def in_memory(examples: Examples) -> Examples:
    """Streamed examples with all their inputs read into one tensor, for sets small enough."""
    if isinstance(examples.inputs, Tensor):
        return examples
    read = [examples.inputs[position] for position in range(len(examples))]
    inputs = torch.stack([torch.as_tensor(item[0] if isinstance(item, (tuple, list)) else item) for item in read])
    return replace(examples, inputs=inputs, checked=False)


def image_folder(folder: Path, size: int = 64) -> Splits:
    """Images in one subfolder a class, or in train/ and test/ (or val/) with one subfolder a class in each."""
    for name in UNLABELLED:
        if (folder / name).is_dir():
            raise ThresherError(
                f"{folder} has a subfolder {name}: train with --pool to ask about its images, or move it elsewhere."
            )
    return labelled_images(folder, size)


def labelled_images(folder: Path, size: int = 64) -> Splits:
    """The same beside a subfolder `unlabelled`, which is left alone."""
    test = next((folder / name for name in ("test", "val", "valid", "validation") if (folder / name).is_dir()), None)
    if (folder / "train").is_dir() and test is not None:
        places, splits = [folder / "train", test], _train_and_test(folder / "train", test, size, folder.name)
    else:
        places, splits = [folder], split(_classified(folder, _class_folders(folder), size, folder.name))
    for place in places:
        loose = [path for path in place.glob("[!.]*") if path.suffix.lower() in SUFFIXES]
        if loose:
            raise ThresherError(
                f"{place} has {len(loose)} images beside its subfolders: move them into these, or elsewhere."
            )
    if int((splits.train.labels.bincount() > 0).sum()) < 2:
        raise ThresherError(f"{folder} has images of one class only: give those of at least two.")
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
        raise ThresherError(f"{place} has no images: put those to ask about there.")
    return paths


def images_in(folder: Path) -> list[Path]:
    """The image files anywhere in a folder, sorted; hidden ones, such as those that archives leave, are no images."""
    files = (path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES)
    return sorted(path for path in files if not path.name.startswith("."))


def imagenet(folder: Path, size: int = 224, classes: int | None = None) -> Splits:
    """ImageNet from imagenet/train and imagenet/val with one folder a synset; the first `classes` of them, or all.

    The first 50 are the classes of mini-WebVision.
    """
    root = _existing(folder / "imagenet", "the ImageNet folders train and val")
    for part in ("train", "val"):
        _existing(root / part, "one folder for each synset")
    return _train_and_test(root / "train", root / "val", size, root.name, classes)


def mini_webvision(folder: Path, size: int = 224, classes: int = 50) -> Splits:
    """The Google part of the first 50 classes of WebVision 1.0, from webvision/info and the image folders beside it."""
    root = _existing(folder / "webvision", "WebVision 1.0 (info, google, val_images_256)")
    name = "mini-webvision"
    train = _listed(root, "train_filelist_google.txt", ("", "train_images_256", "train_images"), classes)
    test = _listed(root, "val_filelist.txt", ("val_images_256", "val_images_resized", "val_images", ""), classes)
    return Splits(*(_streamed(paths, torch.tensor(labels), size, name, classes) for paths, labels in (train, test)))


def celeba_landmarks(folder: Path, size: int = 64) -> Splits:
    """CelebA with ten real targets: x and y of both eyes, the nose and both mouth corners, in original pixels."""
    file = "list_landmarks_align_celeba.txt"
    _, *lines = _celeba_rows(folder, file)
    return _celeba(folder, size, {row[0]: [_number(value, file) for value in row[1:]] for row in lines}, None)


def celeba_gender(folder: Path, size: int = 64) -> Splits:
    """CelebA with two classes, by the attribute Male."""
    header, *lines = _celeba_rows(folder, "list_attr_celeba.txt")
    if "Male" not in header:
        raise ThresherError("list_attr_celeba.txt has no column Male: get the file again.")
    at = header.index("Male") + 1
    return _celeba(folder, size, {row[0]: int(row[at] == "1") for row in lines}, ["female", "male"])


def _celeba(
    folder: Path, size: int, targets: dict[str, list[float]] | dict[str, int], class_names: list[str] | None
) -> Splits:
    root = folder / "celeba"
    images = _existing(root / "img_align_celeba", "the aligned images")
    classes = None if class_names is None else len(class_names)
    people = {}
    if (root / "identity_CelebA.txt").exists():
        people = {row[0]: int(_number(row[1], "identity_CelebA.txt")) for row in _rows(root / "identity_CelebA.txt")}
    sides = []
    for part in ("0", "2"):  # 0 train, 1 validation, 2 test
        files = [row[0] for row in _rows(root / "list_eval_partition.txt") if row[1] == part]
        lost = [file for file in files if file not in targets or (people and file not in people)]
        if lost or not files:
            what = f"no target for {lost[0]}" if lost else f"no image in partition {part}"
            raise ThresherError(f"The CelebA lists have {what}: get the list files again.")
        paths = [images / file for file in files]
        given = torch.tensor([targets[file] for file in files])
        groups = torch.tensor([people[file] for file in files]) if people else None
        sides.append(_streamed(paths, given, size, "celeba", classes, class_names, groups))
    return Splits(*sides)


def _celeba_rows(folder: Path, file: str) -> list[list[str]]:
    """The rows after the count in the first line; the first of them is the header."""
    rows = _rows(folder / "celeba" / file)[1:]
    if len(rows) < 2 or {len(row) for row in rows[1:]} != {len(rows[0]) + 1}:
        raise ThresherError(f"{file} is not the CelebA list it should be: get the file again.")
    return rows


def _rows(path: Path) -> list[list[str]]:
    _existing(path, "one of its list files")
    return [line.split() for line in path.read_text().splitlines() if line.strip()]


def _number(text: str, file: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ThresherError(f"{file} has '{text}' where a number should be: get the file again.") from None


def _listed(root: Path, file: str, places: tuple[str, ...], classes: int) -> tuple[list[Path], list[int]]:
    rows = [(row[0], int(_number(row[-1], file))) for row in _rows(root / "info" / file)]
    rows = [(name, label) for name, label in rows if label < classes]
    if not rows:
        raise ThresherError(f"{file} lists no image of the first {classes} classes: get the file again.")
    place = next((place for place in places if (root / place / rows[0][0]).exists()), None)
    if place is None:
        looked = ", ".join(str(root / place) for place in places)
        raise ThresherError(f"{rows[0][0]} of {file} is in none of {looked}: unpack the images into one of them.")
    return [root / place / name for name, _ in rows], [label for _, label in rows]


def _train_and_test(train: Path, test: Path, size: int, name: str, classes: int | None = None) -> Splits:
    known = _class_folders(train)
    extra = set(_class_folders(test)) - set(known)
    if extra:
        raise ThresherError(f"{test} has a class '{min(extra)}' that {train} has not: give both the same subfolders.")
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
        raise ThresherError(f"{folder} has no images in its subfolders: use {', '.join(sorted(SUFFIXES))} files.")
    return _streamed(paths, torch.tensor(labels), size, name, len(classes), classes)


def _streamed(
    paths: list[Path],
    targets: Tensor,
    size: int,
    name: str,
    classes: int | None,
    class_names: list[str] | None = None,
    groups: Tensor | None = None,
) -> Examples:
    if size < 1:
        raise ThresherError(f"Images cannot be {size} pixels wide: give a positive size.")
    return Examples(
        ImageFiles(paths, size),
        targets,
        classes=classes,
        columns={} if groups is None else {"group": groups},
        class_names=class_names,
        normalise=(IMAGENET_MEAN, IMAGENET_DEVIATION),
        name=name,
    )


def _existing(path: Path, what: str) -> Path:
    if not path.exists():
        raise ThresherError(f"There is no {path}: put {what} there, or say with data_dir where it is.")
    return path
