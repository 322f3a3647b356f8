"""ImageNet, mini-WebVision and CelebA, read from their own folders."""

from pathlib import Path

import torch

from thresher.core.errors import ThresherError
from thresher.data.image_folders import streamed_images, train_and_test
from thresher.data.splits import Splits


def imagenet(folder: Path, size: int = 224, classes: int | None = None) -> Splits:
    """ImageNet from imagenet/train and imagenet/val with one folder a synset; the first `classes` of them, or all.

    The first 50 are the classes of mini-WebVision.
    """
    root = _existing(folder / "imagenet", "the ImageNet folders train and val")
    for part in ("train", "val"):
        _existing(root / part, "one folder for each synset")
    return train_and_test(root / "train", root / "val", size, root.name, classes)


def mini_webvision(folder: Path, size: int = 224, classes: int = 50) -> Splits:
    """The Google part of the first 50 classes of WebVision 1.0, from webvision/info and the image folders beside it."""
    root = _existing(folder / "webvision", "WebVision 1.0 (info, google, val_images_256)")
    name = "mini-webvision"
    train = _listed(root, "train_filelist_google.txt", ("", "train_images_256", "train_images"), classes)
    test = _listed(root, "val_filelist.txt", ("val_images_256", "val_images_resized", "val_images", ""), classes)
    return Splits(
        *(streamed_images(paths, torch.tensor(labels), size, name, classes) for paths, labels in (train, test))
    )


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
        sides.append(streamed_images(paths, given, size, "celeba", classes, class_names, groups))
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


def _existing(path: Path, what: str) -> Path:
    if not path.exists():
        raise ThresherError(f"There is no {path}: put {what} there, or give its folder with data_dir.")
    return path
