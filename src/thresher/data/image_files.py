"""Image files as inputs: found, opened, and scaled when they are loaded or from what was decoded before."""

import os
import stat
import struct
import warnings
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import ConcatDataset

from thresher.core.datasets import Picked
from thresher.core.errors import ThresherError, needs_extra
from thresher.core.files import expanded
from thresher.data.image_pixels import Ranges, as_colour

if TYPE_CHECKING:
    from PIL.Image import Image

IMAGE_SUFFIXES = {".jpg", ".jpeg", ".png", ".bmp", ".webp", ".gif", ".ppm", ".pgm", ".tif", ".tiff"}
SYSTEM_NAMES = ("__MACOSX", "Thumbs.db", "desktop.ini")  # what systems leave in folders and archives
MOST_PIXELS = 89_478_485  # of an image, a quarter of a gigabyte: what Pillow warns about as a decompression bomb
ONE_BY_ONE = Lock()  # filters of warnings belong to all threads, and several of them decode
LARGEST = 64  # pixels of an image where no size is chosen
LOOKED_AT = 200  # files that say which size images have
# What Pillow raises for files that are damaged, no images, or too large to be opened safely.
DAMAGED = (OSError, ValueError, SyntaxError, TypeError, EOFError, IndexError, KeyError, struct.error, zlib.error)


class Held:
    """Decoded images, uint8 [n, 3, size, size]. Without a __dict__: a run's identity is that of the files."""

    __slots__ = ("pixels",)

    def __init__(self, pixels: Tensor):
        self.pixels = pixels


@dataclass(frozen=True)
class ImageFiles:
    """A map-style dataset: the files at `paths`, scaled and centre-cropped to uint8 [3, size, size].

    ranges  which values of 16-bit and real pixels become black and white
    held    the files as they were decoded before; without it a file is decoded whenever it is asked for
    """

    paths: list[Path]
    size: int
    ranges: Ranges = field(default_factory=Ranges)
    held: Held | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        needs_extra("Reading images", "vision", "PIL")  # now, and not when the first batch is loaded

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, position: int) -> Tensor:
        if self.held is not None:
            return self.held.pixels[position]
        return torch.from_numpy(decode(self.paths[position], self.size, self.ranges))

    def inputs_at(self, positions: list[int]) -> Tensor | None:
        """The images at these positions as one batch, where they have been decoded."""
        return None if self.held is None else self.held.pixels[torch.tensor(positions)]


def files_of(inputs: Any) -> list[Path]:
    """The file of each input, or nothing where inputs are not image files."""
    if isinstance(inputs, ImageFiles):
        return inputs.paths
    if isinstance(inputs, Picked):
        files = files_of(inputs.dataset)
        return [files[place] for place in inputs.positions] if files else []
    if isinstance(inputs, ConcatDataset):
        parts = [files_of(part) for part in inputs.datasets]
        return [file for part in parts for file in part] if all(parts) else []
    return []


def image_format(inputs: Any) -> tuple[int, Ranges] | None:
    """The size and the ranges of pixels to which image files are scaled; None where inputs are not such files."""
    if isinstance(inputs, ImageFiles):
        return inputs.size, inputs.ranges
    if isinstance(inputs, Picked):
        return image_format(inputs.dataset)
    if isinstance(inputs, ConcatDataset):
        formats = {image_format(part) for part in inputs.datasets}
        return formats.pop() if len(formats) == 1 else None
    return None


def usual_size(paths: Sequence[Path]) -> int:
    """The median of the longer sides of these images, and at most 64 pixels; of many, some are looked at."""
    needs_extra("Reading images", "vision", "PIL")
    from PIL import Image

    sides = []
    for path in paths[:: max(1, len(paths) // LOOKED_AT)]:
        with suppress(*DAMAGED, Image.DecompressionBombError), open_file(path) as image:
            sides.append(max(image.size))
    return min(LARGEST, int(median(sides))) if sides else LARGEST


def size_of(option: str) -> int | None:
    """The size of images that an option names, such as 64; None where it is empty."""
    if option and not option.isdecimal():
        raise ThresherError(f"'{option}' is not a size of images: give a number of pixels, such as 64.")
    return int(option) if option else None


def refuse_no_size(size: int) -> None:
    """Refuse a size that no image can have, or that would take too much memory."""
    if size < 1:
        raise ThresherError(f"The size of images must be at least 1 pixel, not {size}: give a larger one.")
    if size**2 > MOST_PIXELS:
        told = f"{size:,} x {size:,} pixels would take {3 * size**2 / 1e9:.1f} GB an image"
        raise ThresherError(f"{told}, more than the {MOST_PIXELS:,} pixels that are read: give a smaller size.")


@contextmanager
def open_file(path: Path) -> Iterator["Image"]:
    """The image of a file, not decoded yet; what would take too much memory is refused with its size."""
    from PIL import Image

    if not stat.S_ISREG(os.stat(path).st_mode):
        raise ValueError("a pipe or a device")  # which may never end
    with ONE_BY_ONE, warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # at which it is refused here
        opened = Image.open(path)
    with opened as image:
        width, height = image.size
        if width * height > MOST_PIXELS:
            needed = f"{3 * width * height / 1e9:.1f} GB"
            raise ValueError(f"{width:,} x {height:,} pixels would take {needed}, and at most {MOST_PIXELS:,} are read")
        yield image


def open_image(path: Path, ranges: Ranges | None = None, least: int | None = None) -> "Image":
    """The picture in a file, upright and in colour; a photograph may come smaller, but not below `least` pixels."""
    needs_extra("Reading images", "vision", "PIL")
    from PIL import Image, ImageOps

    try:
        with open_file(path) as image:
            if least is not None:
                image.draft("RGB", (least, least))  # JPEG files decode several times faster to a fraction of their size
            return as_colour(ImageOps.exif_transpose(image), ranges)
    except (*DAMAGED, Image.DecompressionBombError) as error:
        raise ThresherError(f"{path} cannot be read as an image ({error}): replace or remove it.") from error


def decode(path: Path, size: int, ranges: Ranges | None = None) -> Any:
    """The picture in a file, scaled and centre-cropped, as an array uint8 [3, size, size]."""
    return fitted(open_image(path, ranges, least=2 * size), size)


def fitted(upright: "Image", size: int) -> Any:
    """A picture, scaled and centre-cropped, as an array uint8 [3, size, size]."""
    from PIL import ImageOps

    return np.ascontiguousarray(np.asarray(ImageOps.fit(upright, (size, size))).transpose(2, 0, 1))


def is_text_name(path: Path | str) -> bool:
    r"""Whether a path is text, as tables and pages that name it have to be; systems allow any bytes.

    >>> is_text_name("caf\u00e9.png"), is_text_name("caf\udce9.png")
    (True, False)
    """
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True


def is_ignored(path: Path, folder: Path) -> bool:
    """Whether a file or folder inside `folder` is hidden, or left there by a system, as in unpacked archives."""
    parts = path.relative_to(folder).parts
    return any(part.startswith(".") or part in SYSTEM_NAMES for part in parts)


def images_in(folder: Path) -> list[Path]:
    """The image files anywhere in a folder, sorted; hidden files, such as those of unpacked archives, are ignored.

    Links that lead nowhere, pipes and devices are among them, so that they are said to be no images.
    """
    files = (path for path in folder.rglob("*") if path.suffix.lower() in IMAGE_SUFFIXES and not path.is_dir())
    return sorted(path for path in files if not is_ignored(path, folder))


def image_paths(raw: Any) -> list[Path]:
    """The image files that are meant by a path to one, by a folder, or by a list of paths."""
    if isinstance(raw, (str, Path)):
        path = expanded(raw)
        if path.is_dir():
            found = images_in(path)
            if not found:
                raise ThresherError(f"{path} has no images: give a folder that has some.")
            return found
        raw = [path]
    if not isinstance(raw, Sequence) or not raw or not all(isinstance(each, (str, Path)) for each in raw):
        raise ThresherError(
            f"Images cannot be read from a {type(raw).__name__}: give a path to an image, a folder or a list of paths."
        )
    paths = [expanded(each) for each in raw]
    missing = next((path for path in paths if not path.is_file()), None)
    if missing is not None:
        raise ThresherError(f"There is no file {missing}: check the path.")
    return paths
