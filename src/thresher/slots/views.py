"""Weak and strong augmentation on the device: every image of a batch has its own random draws.

A view is called as `view(images [n, c, h, w], generator)` and gives images of the same shape. Shapes never depend on
the draws and nothing waits for the device, so that a view can be part of a captured step. Black is 0: the mean of
normalised images.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Generator, Tensor
from torch.nn import functional

from thresher.core.errors import ThresherError, refuse_other_fields
from thresher.core.recipe import View


@dataclass(frozen=True)
class PadCrop:
    """Pad each side by `padding` pixels, black or mirrored, and cut a window of the old size out of it.

    >>> PadCrop(1)(torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]]), torch.Generator().manual_seed(0)).tolist()
    [[[[2.0, 0.0], [4.0, 0.0]]]]
    """

    padding: int = 4
    mirrored: bool = False

    def __post_init__(self) -> None:
        refuse_other_fields(self)
        _require(self.padding >= 0, f"PadCrop needs a padding of at least 0 pixels, not {self.padding}.")

    def __call__(self, images: Tensor, generator: Generator) -> Tensor:
        height, width = _size(images)
        _require(
            not self.mirrored or self.padding < min(height, width),
            f"PadCrop cannot mirror {self.padding} pixels of images {height} x {width}: make the padding smaller.",
        )
        return _window(images, self.padding, self.padding, self.mirrored, generator)


@dataclass(frozen=True)
class Shift:
    """Move each image by up to `share` of its height and of its width, in whole pixels, leaving black behind."""

    share: float = 0.1

    def __post_init__(self) -> None:
        refuse_other_fields(self)
        _require(0 <= self.share <= 1, f"Shift needs a share from 0 to 1, not {self.share}.")

    def __call__(self, images: Tensor, generator: Generator) -> Tensor:
        height, width = _size(images)
        return _window(images, round(self.share * height), round(self.share * width), False, generator)


@dataclass(frozen=True)
class Flip:
    """Mirror each image left to right with this `chance`."""

    chance: float = 0.5

    def __post_init__(self) -> None:
        refuse_other_fields(self)
        _require(0 <= self.chance <= 1, f"Flip needs a chance from 0 to 1, not {self.chance}.")

    def __call__(self, images: Tensor, generator: Generator) -> Tensor:
        _size(images)
        flipped = _draw(images, generator) < self.chance
        return torch.where(flipped[:, None, None, None], images.flip(3), images)


@dataclass(frozen=True)
class Colour:
    """Change brightness, contrast and saturation, in this order, each by a draw up to its bound.

    brightness  adds up to ± that many standard deviations of the image
    contrast    scales by 1 ± that much about the image's mean
    saturation  scales by 1 ± that much about each pixel's grey, the mean over its channels

    Nothing is clamped, because normalised pixels have no fixed range.
    """

    brightness: float = 0.4
    contrast: float = 0.4
    saturation: float = 0.4

    def __post_init__(self) -> None:
        refuse_other_fields(self)
        bounds = self.brightness, self.contrast, self.saturation
        _require(min(bounds) >= 0, f"Colour needs bounds of at least 0, not {bounds}.")

    def __call__(self, images: Tensor, generator: Generator) -> Tensor:
        _size(images)
        brightness, contrast, saturation = (
            _around_zero(images, generator, bound)[:, None, None, None]
            for bound in (self.brightness, self.contrast, self.saturation)
        )
        images = images + brightness * images.std((1, 2, 3), correction=0, keepdim=True)
        mean = images.mean((1, 2, 3), keepdim=True)
        images = mean + (1 + contrast) * (images - mean)
        grey = images.mean(1, keepdim=True)
        return grey + (1 + saturation) * (images - grey)


@dataclass(frozen=True)
class Affine:
    """Rotate by up to ± `degrees`, enlarge by 1 ± `scale` and move by up to ± `translate` of the size.

    new(p) = old(R(angle) p / enlarged + move), with p measured from the centre of the image.
    Between pixels the old image is interpolated linearly; outside it is black.
    """

    degrees: float = 15.0
    translate: float = 0.1
    scale: float = 0.1

    def __post_init__(self) -> None:
        refuse_other_fields(self)
        _require(0 <= self.scale < 1, f"Affine needs a scale from 0 to below 1, not {self.scale}.")
        _require(min(self.degrees, self.translate) >= 0, "Affine needs degrees and translate of at least 0.")

    def __call__(self, images: Tensor, generator: Generator) -> Tensor:
        height, width = _size(images)
        angle = _around_zero(images, generator, math.radians(self.degrees))
        right = _around_zero(images, generator, self.translate)
        down = _around_zero(images, generator, self.translate)
        enlarged = 1 + _around_zero(images, generator, self.scale)
        # affine_grid lets the image reach from -1 to 1 both ways: a rotation must undo its aspect, and a size is 2
        cos, sin = angle.cos() / enlarged, angle.sin() / enlarged
        to_old = torch.stack(
            [
                torch.stack([cos, sin * (height / width), 2 * right], 1),
                torch.stack([-sin * (width / height), cos, 2 * down], 1),
            ],
            1,
        )
        grid = functional.affine_grid(to_old, list(images.shape), align_corners=False)
        return functional.grid_sample(images, grid, mode="bilinear", padding_mode="zeros", align_corners=False)


@dataclass(frozen=True)
class Cutout:
    """Blacken a square of `size` pixels around a random pixel; at the border less of it is seen (DeVries & Taylor)."""

    size: int = 8

    def __post_init__(self) -> None:
        refuse_other_fields(self)
        _require(self.size >= 1, f"Cutout needs a size of at least 1 pixel, not {self.size}.")

    def __call__(self, images: Tensor, generator: Generator) -> Tensor:
        height, width = _size(images)
        rows = self._cut(height, images, generator)
        columns = self._cut(width, images, generator)
        return images.masked_fill(rows[:, None, :, None] & columns[:, None, None, :], 0)

    def _cut(self, length: int, images: Tensor, generator: Generator) -> Tensor:
        """Which of the rows (or columns) the square covers [n, length]."""
        first = _whole_draw(images, generator, length) - self.size // 2
        places = torch.arange(length, device=images.device)
        return (places >= first[:, None]) & (places < first[:, None] + self.size)


@dataclass(frozen=True, init=False)
class Chain:
    """One view after another.

    >>> Chain(Flip(1.0), Flip(1.0))(torch.tensor([[[[1.0, 2.0]]]]), torch.Generator()).tolist()
    [[[[1.0, 2.0]]]]
    """

    views: tuple[View, ...]

    def __init__(self, *views: View):
        object.__setattr__(self, "views", views)

    def __call__(self, images: Tensor, generator: Generator) -> Tensor:
        for view in self.views:
            images = view(images, generator)
        return images


def weak() -> Chain:
    """The usual augmentation of small photographs: a crop after padding by 4, and a flip."""
    return Chain(PadCrop(4), Flip())


def strong() -> Chain:
    """The weak view, then colour, an affine map and a hole of 16 pixels, for images of about 32 pixels."""
    return Chain(PadCrop(4), Flip(), Colour(), Affine(), Cutout(16))


NAMED_VIEWS: dict[str, Callable[[], View]] = {"weak": weak, "strong": strong}


def _window(images: Tensor, vertical: int, horizontal: int, mirrored: bool, generator: Generator) -> Tensor:
    """A window of the old size at a random place of each padded image, taken by one gather."""
    n, channels, height, width = images.shape
    edges = (horizontal, horizontal, vertical, vertical)
    padded = functional.pad(images, edges, mode="reflect" if mirrored else "constant")
    top = _whole_draw(images, generator, 2 * vertical + 1)
    left = _whole_draw(images, generator, 2 * horizontal + 1)
    rows = top[:, None] + torch.arange(height, device=images.device)
    columns = left[:, None] + torch.arange(width, device=images.device)
    example = torch.arange(n, device=images.device)[:, None, None, None]
    channel = torch.arange(channels, device=images.device)[:, None, None]
    return padded[example, channel, rows[:, None, :, None], columns[:, None, None, :]]


def _draw(images: Tensor, generator: Generator) -> Tensor:
    """One draw from [0, 1) for each image [n]."""
    return torch.rand(len(images), generator=generator, device=images.device)


def _around_zero(images: Tensor, generator: Generator, bound: float) -> Tensor:
    """One draw from [-bound, bound) for each image [n], of the images' type."""
    return ((2 * _draw(images, generator) - 1) * bound).to(images.dtype)


def _whole_draw(images: Tensor, generator: Generator, count: int) -> Tensor:
    """One draw from 0, ..., count - 1 for each image [n]."""
    # a draw just below 1 may round up to count
    return (_draw(images, generator) * count).long().clamp_max(count - 1)


def _size(images: Tensor) -> tuple[int, int]:
    """Height and width of a batch of images; anything else is refused."""
    shape = list(images.shape)
    _require(
        len(shape) == 4 and images.is_floating_point(),
        f"Views change float images [n, c, h, w], not {images.dtype} {shape}: reshape them, or leave the views out.",
    )
    return shape[2], shape[3]


def _require(truth: bool, sentence: str) -> None:
    if not truth:
        raise ThresherError(sentence)
