"""Sets kept as arrays: NAME.npz files, idx files, and the sets that torchvision downloads."""

import gzip
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from thresher.core.errors import ThresherError, needs_extra, refuse_endless
from thresher.core.examples import Examples
from thresher.core.files import UNREADABLE
from thresher.data.class_names import CIFAR10, CIFAR100, FASHION, TEN_DIGITS
from thresher.data.splits import Splits, split

Arrays = Mapping[str, np.ndarray[Any, Any]]

LARGEST_LABEL = 2**62  # beyond which the number of classes is none of 64 bits
LARGEST = 1e30  # of real targets, whose squares single precision still holds
MANY, UNUSED = 10_000, 10  # so many classes, most of them without an example, are no classes
CLASS_NAMES = {
    "cifar10": CIFAR10,
    "cifar100": CIFAR100,
    "fashion-mnist": FASHION,
    "mnist": TEN_DIGITS,
    "svhn": TEN_DIGITS,
}


def known_images(name: str, folder: Path) -> Splits:
    """cifar10, cifar100, svhn, mnist or fashion-mnist: from `folder` if it is there, else downloaded to it."""
    if (folder / f"{name}.npz").exists():
        return from_npz(folder / f"{name}.npz")
    if name in ("mnist", "fashion-mnist"):
        places = (folder / name, folder) if name == "fashion-mnist" else (folder / name,)
        for place in places:
            if _idx_file(place, "train-images-idx3-ubyte") is not None:
                return from_arrays(_idx_arrays(place), name)
    return from_arrays(_downloaded(name, folder), name)


def from_npz(path: Path) -> Splits:
    """A set from one .npz file with train_images, train_targets and perhaps test_images, test_targets.

    Images are uint8 [n, h, w, c] or [n, h, w]; floats, and plain features [n, d], pass as they are. Integer targets
    are class ids, floats are real targets; train_groups and test_groups become the column `group`.
    """
    return from_arrays(read_npz(path), path.stem)


def read_npz(path: Path) -> Arrays:
    """The arrays of a file, which must have train_images and train_targets."""
    arrays = read_arrays(path)
    missing = [key for key in ("train_images", "train_targets") if key not in arrays]
    if missing:
        raise ThresherError(f"{path} has no {' and no '.join(missing)}: save the arrays under these names.")
    return arrays


def all_of_npz(path: Path) -> Examples:
    """The training examples of a file, none of them held out."""
    arrays = read_npz(path)
    return Examples(channels_first(arrays["train_images"]), _targets(arrays, "train", path.stem), name=path.stem)


def read_arrays(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    """All arrays of an .npz file, by their names."""
    refuse_endless(path)
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            return {key: file[key] for key in file.files}
    except FileNotFoundError:
        raise ThresherError(f"There is no file {path}: check the path.") from None
    except UNREADABLE as error:
        raise ThresherError(f"{path} cannot be read ({error}): write it again with numpy.savez.") from error


def from_arrays(arrays: Arrays, name: str) -> Splits:
    """The splits these arrays hold, normalised by the training images; without test images a fifth is held out."""
    sides = ["train", "test"] if "test_images" in arrays else ["train"]
    targets = [_targets(arrays, side, name) for side in sides]
    classes = None if targets[0].is_floating_point() else _classes(targets, name)
    scale = _scale(targets[0], name) if classes is None else None
    if scale is not None:
        targets = [((side.double() - scale[0]) / scale[1]).float() for side in targets]
    class_names = CLASS_NAMES.get(name)
    images = [channels_first(arrays[f"{side}_images"]) for side in sides]
    normalise = channel_statistics(images[0]) if images[0].dtype == torch.uint8 and images[0].ndim == 4 else None
    made = [
        Examples(
            inputs,
            given,
            classes=classes,
            columns={"group": torch.as_tensor(arrays[f"{side}_groups"])} if f"{side}_groups" in arrays else {},
            class_names=class_names if class_names is not None and len(class_names) == classes else None,
            normalise=normalise,
            target_scale=scale,
            name=name,
        )
        for side, inputs, given in zip(sides, images, targets, strict=True)
    ]
    return Splits(*made) if len(made) == 2 else split(made[0])


def channel_statistics(images: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and deviation of each channel of uint8 images [n, c, h, w], each [c, 1, 1], in 0..255.

    >>> mean, deviation = channel_statistics(torch.tensor([[[[0, 255]]]], dtype=torch.uint8))
    >>> mean.item(), deviation.item()
    (127.5, 127.5)
    """
    values = torch.arange(256, dtype=torch.float64)
    # Counting the 256 values is exact and needs no copy of the images as floats.
    counts = torch.stack([images[:, c].reshape(-1).bincount(minlength=256) for c in range(images.shape[1])]).double()
    shares = counts / counts.sum(1, keepdim=True)
    mean = shares @ values
    deviation = (shares @ values.square() - mean.square()).clamp_min(0).sqrt()
    deviation = torch.where(deviation > 0, deviation, 1.0)
    return mean.float()[:, None, None], deviation.float()[:, None, None]


def _targets(arrays: Arrays, side: str, name: str) -> Tensor:
    if f"{side}_targets" not in arrays:
        raise ThresherError(f"{name} has {side}_images but no {side}_targets: save both.")
    targets = arrays[f"{side}_targets"]
    if targets.dtype.kind not in "iufb":
        raise ThresherError(f"{side}_targets of {name} are {targets.dtype}: save class numbers or floats.")
    if targets.dtype.kind == "f":
        return torch.as_tensor(targets.astype(np.float64))
    if targets.size and not 0 <= targets.min() <= targets.max() < LARGEST_LABEL:
        low, high = int(targets.min()), int(targets.max())
        raise ThresherError(f"{side}_targets of {name} go from {low} to {high}: number the classes from 0.")
    return torch.as_tensor(targets.astype(np.int64))


def _classes(targets: list[Tensor], name: str) -> int:
    """How many classes these labels number; a few large numbers would make a layer that fills the memory."""
    if any(side.ndim == 0 or len(side) == 0 for side in targets):
        raise ThresherError(f"{name} has no examples: give some to train and to test on.")
    classes, different = int(max(side.max() for side in targets)) + 1, len(np.unique(torch.cat(targets).numpy()))
    if classes > max(MANY, UNUSED * different):
        raise ThresherError(
            f"{name} has {different:,} different labels up to {classes - 1:,}: a layer of so many outputs "
            f"would take {4 * 256 * classes / 1e9:,.1f} GB with 256 inputs, so renumber the labels from 0 without gaps."
        )
    if not np.isin(targets[-1].numpy(), targets[0].numpy()).any():
        raise ThresherError(f"{name} has no class to test on that is trained on: give both the same classes.")
    return classes


def _scale(training: Tensor, name: str) -> tuple[Tensor, Tensor]:
    """The mean and the deviation, each [d], of real targets [n] or [n, d]."""
    if not training.numel():
        raise ThresherError(f"{name} is empty: give at least one example.")
    rows = training.reshape(len(training), -1) if training.ndim else training.reshape(1, 1)
    if len(rows) == 0 or not (torch.isfinite(rows) & (rows.abs() < LARGEST)).all():
        raise ThresherError(f"{name} has no targets, or some that are not finite or above {LARGEST:g}: correct them.")
    if bool((rows == rows[0]).all(0).any()):
        raise ThresherError(f"{name} has the same target everywhere, so nothing can be learnt: give others.")
    return rows.mean(0), rows.std(0, correction=0)


def channels_first(images: np.ndarray[Any, Any]) -> Tensor:
    """Images [n, h, w, c] or [n, h, w] as [n, c, h, w], other arrays as they are; floats unless they are bytes."""
    if images.dtype.kind not in "biuf":
        raise ThresherError(f"The inputs are {images.dtype}, and not real numbers: save them as such.")
    if images.dtype != np.uint8:
        images = images.astype(np.float32)
    if images.ndim == 3:
        images = images[..., None]
    if images.ndim == 4:
        images = np.ascontiguousarray(images.transpose(0, 3, 1, 2))
    return torch.from_numpy(images)


def _idx_file(folder: Path, name: str) -> Path | None:
    found = [folder / name, folder / f"{name}.gz"]
    return next((path for path in found if path.exists()), None)


def _idx_arrays(folder: Path) -> Arrays:
    parts = {"train_images": "train-images-idx3", "train_targets": "train-labels-idx1"}
    parts |= {"test_images": "t10k-images-idx3", "test_targets": "t10k-labels-idx1"}
    return {key: _read_idx(folder, f"{part}-ubyte") for key, part in parts.items()}


def _read_idx(folder: Path, name: str) -> np.ndarray[Any, Any]:
    """The uint8 array of an idx file: two zero bytes, the type 8, the number of axes, their sizes, then the values."""
    path = _idx_file(folder, name)
    if path is None:
        raise ThresherError(f"{folder} has no {name} or {name}.gz: put all four idx files there.")
    refuse_endless(path)
    try:
        raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        sizes = np.frombuffer(raw, ">u4", count=raw[3], offset=4).astype(int)
        values = np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3])
        if raw[:3] != b"\0\0\x08" or values.size != sizes.prod():
            raise ValueError("not a whole idx file of bytes")
    except (ValueError, IndexError, OSError, EOFError) as error:
        raise ThresherError(f"{path} cannot be read ({error}): get the file again.") from error
    return values.reshape(sizes).copy()


def _downloaded(name: str, folder: Path) -> Arrays:
    needs_extra(name, "vision", "torchvision", otherwise=f"put {name}.npz into {folder}")
    from torchvision import datasets

    made = {
        "cifar10": datasets.CIFAR10,
        "cifar100": datasets.CIFAR100,
        "mnist": datasets.MNIST,
        "fashion-mnist": datasets.FashionMNIST,
    }
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    for side in ("train", "test"):
        try:
            if name == "svhn":
                part = datasets.SVHN(str(folder), split=side, download=True)
                images, targets = part.data.transpose(0, 2, 3, 1), part.labels
            else:
                part = made[name](str(folder), train=side == "train", download=True)
                images, targets = part.data, part.targets
        except (RuntimeError, OSError) as error:
            raise ThresherError(
                f"{name} could not be downloaded ({error}): connect to the network, or put {name}.npz into {folder}."
            ) from error
        arrays |= {f"{side}_images": np.asarray(images), f"{side}_targets": np.asarray(targets)}
    return arrays
