"""Image files as inputs: found, opened, and scaled when they are loaded."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import ConcatDataset

from thresher.core.datasets import Picked
from thresher.core.errors import ThresherError
from thresher.core.extras import needs_extra

if TYPE_CHECKING:
    from PIL.Image import Image

IMAGE_SUFFIXES = {".jpg", ".jpeg", ".png", ".bmp", ".webp", ".gif", ".ppm", ".tif", ".tiff"}


@dataclass(frozen=True)
class ImageFiles:
    """A map-style dataset: the files at `paths`, scaled and centre-cropped to uint8 [3, size, size]."""

    paths: list[Path]
    size: int

    def __post_init__(self) -> None:
        needs_extra("Reading images", "vision", "PIL")  # now, and not when the first batch is loaded

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, position: int) -> Tensor:
        from PIL import ImageOps

        upright = open_image(self.paths[position])
        return torch.from_numpy(np.array(ImageOps.fit(upright, (self.size, self.size)))).permute(2, 0, 1).contiguous()


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


def image_size(inputs: Any) -> int | None:
    """The size to which image files are scaled, or None where inputs are not image files of one size."""
    if isinstance(inputs, ImageFiles):
        return inputs.size
    if isinstance(inputs, Picked):
        return image_size(inputs.dataset)
    if isinstance(inputs, ConcatDataset):
        sizes = {image_size(part) for part in inputs.datasets}
        return sizes.pop() if len(sizes) == 1 else None
    return None


def open_image(path: Path) -> "Image":
    """The picture in a file, upright and in colour."""
    needs_extra("Reading images", "vision", "PIL")
    from PIL import Image, ImageOps

    try:
        with Image.open(path) as image:
            return ImageOps.exif_transpose(image).convert("RGB")
    except OSError as error:
        raise ThresherError(f"{path} cannot be read as an image ({error}): replace or remove it.") from error


def images_in(folder: Path) -> list[Path]:
    """The image files anywhere in a folder, sorted; hidden files, such as those of unpacked archives, are ignored."""
    files = (path for path in folder.rglob("*") if path.suffix.lower() in IMAGE_SUFFIXES)
    return sorted(path for path in files if not path.name.startswith("."))
