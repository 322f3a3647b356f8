"""Views for learning without labels: two of them must differ in everything but what is shown.

They are called as those of `slots/views.py` are, with draws of its own for each example; black is 0.
"""

import math
from dataclasses import dataclass

import torch
from torch import Generator, Tensor
from torch.nn import functional

from thresher.core.errors import ThresherError, refuse_other_fields
from thresher.core.recipe import View
from thresher.slots.views import Chain, Colour, Flip


@dataclass(frozen=True)
class CropResize:
    """A window of the share `area` (lowest, highest) of the image, up to 4:3 wide or high, enlarged to the old size.

    Between pixels the image is interpolated linearly.
    """

    area: tuple[float, float] = (0.2, 1.0)

    def __post_init__(self) -> None:
        refuse_other_fields(self)
        if len(self.area) != 2 or not 0 < self.area[0] <= self.area[1] <= 1:
            raise ThresherError(f"CropResize needs shares of the image from above 0 to 1, not {self.area}.")

    def __call__(self, images: Tensor, generator: Generator) -> Tensor:
        share, shape, across, down = _draws(images, generator, 4)
        side = (self.area[0] + (self.area[1] - self.area[0]) * share).sqrt()
        aspect = ((2 * shape - 1) * math.log(4 / 3) / 2).exp()  # the root of width : height
        width, height = (side * aspect).clamp_max(1), (side / aspect).clamp_max(1)
        none = torch.zeros_like(width)
        rows = [
            torch.stack([width, none, (2 * across - 1) * (1 - width)], 1),
            torch.stack([none, height, (2 * down - 1) * (1 - height)], 1),
        ]
        grid = functional.affine_grid(torch.stack(rows, 1).to(images.dtype), list(images.shape), align_corners=False)
        return functional.grid_sample(images, grid, mode="bilinear", padding_mode="border", align_corners=False)


@dataclass(frozen=True)
class Hue:
    """Turn the colours of each image about the grey axis by up to ± `turn` of a circle; grey images stay as they are.

    >>> red = torch.tensor([[[[1.0]], [[0.0]], [[0.0]]]])
    >>> turned = Hue(0.5)(red, torch.Generator().manual_seed(1))
    >>> bool((turned - red).abs().max() > 0.1), round(float(turned.sum()), 4)
    (True, 1.0)
    """

    turn: float = 0.1

    def __post_init__(self) -> None:
        refuse_other_fields(self)
        if not 0 <= self.turn <= 0.5:
            raise ThresherError(f"Hue needs a turn from 0 to 0.5 of a circle, not {self.turn}.")

    def __call__(self, images: Tensor, generator: Generator) -> Tensor:
        angle = (2 * _draws(images, generator, 1)[0] - 1) * (2 * math.pi * self.turn)
        if images.shape[1] != 3:
            return images
        # Rodrigues' rotation about (1, 1, 1) / √3
        cos, sin = angle.cos(), angle.sin() / math.sqrt(3)
        rest = (1 - cos) / 3
        same, right, left = cos + rest, rest - sin, rest + sin
        rows = [torch.stack(row, 1) for row in ((same, right, left), (left, same, right), (right, left, same))]
        turned: Tensor = torch.einsum("nij,njhw->nihw", torch.stack(rows, 1).to(images.dtype), images)
        return turned


@dataclass(frozen=True)
class Grey:
    """The mean of the channels in each of them."""

    def __call__(self, images: Tensor, generator: Generator) -> Tensor:  # noqa: ARG002
        return images.mean(1, keepdim=True).expand_as(images)


@dataclass(frozen=True)
class Solarise:
    """Mirror what is brighter than the mean of the image by more than `above` of its deviations."""

    above: float = 0.5

    def __call__(self, images: Tensor, generator: Generator) -> Tensor:  # noqa: ARG002
        mean = images.mean((1, 2, 3), keepdim=True)
        bound = mean + self.above * images.std((1, 2, 3), correction=0, keepdim=True)
        return torch.where(images > bound, 2 * bound - images, images)


@dataclass(frozen=True)
class Swap:
    """Replace each number of an input, with this `chance`, by that of a random other example.

    For inputs that are no images, such as rows of a table: SCARF (Bahri et al. 2022).
    """

    chance: float = 0.3

    def __post_init__(self) -> None:
        refuse_other_fields(self)
        if not 0 <= self.chance <= 1:
            raise ThresherError(f"Swap needs a chance from 0 to 1, not {self.chance}.")

    def __call__(self, inputs: Tensor, generator: Generator) -> Tensor:
        swapped = torch.rand(inputs.shape, generator=generator, device=inputs.device) < self.chance
        other = (torch.rand(inputs.shape, generator=generator, device=inputs.device) * len(inputs)).long()
        return torch.where(swapped, inputs.gather(0, other.clamp_max(len(inputs) - 1)), inputs)


@dataclass(frozen=True)
class sometimes:  # noqa: N801  # used like a function: sometimes(0.2, Grey())
    """The view with this `chance`, otherwise the image as it is."""

    chance: float
    view: View

    def __post_init__(self) -> None:
        refuse_other_fields(self)
        if not 0 <= self.chance <= 1:
            raise ThresherError(f"sometimes needs a chance from 0 to 1, not {self.chance}.")

    def __call__(self, images: Tensor, generator: Generator) -> Tensor:
        seen = _draws(images, generator, 1)[0] < self.chance
        return torch.where(seen.reshape(-1, *[1] * (images.ndim - 1)), self.view(images, generator), images)


def different() -> Chain:
    """A view of small photographs for learning without labels: crop, flip, colour, grey (Chen et al. 2020)."""
    return Chain(CropResize(), Flip(), sometimes(0.8, Chain(Colour(), Hue())), sometimes(0.2, Grey()))


def different_for(input_shape: tuple[int, ...]) -> View:
    """The view for inputs of this shape: `different` for images, `Swap` for everything else.

    >>> different_for((30,))
    Swap(chance=0.3)
    """
    return different() if len(input_shape) == 3 else Swap()


def _draws(images: Tensor, generator: Generator, count: int) -> Tensor:
    """Draws from [0, 1) for each image [count, n]."""
    return torch.rand(count, len(images), generator=generator, device=images.device)
