"""A small residual network that learns small photographs in few epochs."""

import math
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from thresher.core.errors import ThresherError
from thresher.models.images import image_shape

WIDTHS = (1, 3, 4)  # of the three stages, as multiples of the first one's
SHRINK = 9.0  # maxima are so large that without it a learning rate of 0.2 diverges


class QuickNet(nn.Module):
    """Fixed filters of 2x2 patches, three stages that each halve the image, the maximum over the image, the head.

    The fixed filters take patches apart into uncorrelated parts, as whitening does, and each convolution begins by
    passing its inputs on: both are what makes the networks of Jordan (2024, arXiv 2404.00498) learn quickly.

    >>> sum(p.numel() for p in QuickNet((3, 32, 32), 10).parameters() if p.requires_grad)
    9918474
    """

    def __init__(self, input_shape: tuple[int, ...], outputs: int, width: int = 128):
        super().__init__()
        channels, _, _ = image_shape("quick", input_shape, least=4)
        if width < 8 * channels:
            raise ThresherError(f"quick needs a width of at least {8 * channels} for such images, not {width}.")
        self.filters: Tensor
        self.register_buffer("filters", patch_filters(channels))
        self.norm = nn.BatchNorm2d(8 * channels, affine=False)
        sizes = [8 * channels, *(width * times for times in WIDTHS)]
        self.stages = nn.Sequential(*(Stage(before, after) for before, after in pairwise(sizes)))
        self.head = nn.Linear(sizes[-1], outputs)

    def forward(self, inputs: Tensor) -> Tensor:
        seen = functional.gelu(self.norm(functional.conv2d(inputs, self.filters)))
        # not amax, whose gradient looks for the place by its value, which compiled passes round otherwise: 0 / 0
        outputs: Tensor = self.head(self.stages(seen).flatten(2).max(2).values / SHRINK)
        return outputs


class Stage(nn.Module):
    """gelu(bn(pool(conv(x)))), and to that two more convolutions as a residual."""

    def __init__(self, before: int, after: int):
        super().__init__()
        self.convs = nn.ModuleList(_passing_on(before if place == 0 else after, after) for place in range(3))
        self.norms = nn.ModuleList(nn.BatchNorm2d(after) for _ in range(3))

    def forward(self, inputs: Tensor) -> Tensor:
        seen = self.convs[0](inputs)
        pooled = functional.max_pool2d(seen, 2, ceil_mode=min(seen.shape[-2:]) < 4)
        first = functional.gelu(self.norms[0](pooled))
        inner = functional.gelu(self.norms[1](self.convs[1](first)))
        return functional.gelu(self.norms[2](self.convs[2](inner)) + first)


def _passing_on(before: int, after: int) -> nn.Conv2d:
    """A 3x3 convolution whose first channels are its inputs."""
    conv = nn.Conv2d(before, after, 3, padding=1, bias=False)
    nn.init.dirac_(conv.weight.data[:before])
    return conv


def patch_filters(channels: int) -> Tensor:
    """Orthonormal filters of patches [8 · channels, channels, 2, 2]: cosines over both sides and channels, and negated.

    They are near the principal components of patches of photographs, and the BatchNorm after them makes all their
    variances one: that is whitening, without looking at the data.

    >>> flat = patch_filters(3)[:12].flatten(1)
    >>> bool(torch.allclose(flat @ flat.T, torch.eye(12), atol=1e-6))
    True
    """
    side, depth = _cosines(2), _cosines(channels)
    filters = torch.einsum("ac,rh,sw->arschw", depth, side, side).reshape(4 * channels, channels, 2, 2)
    return torch.cat([filters, -filters])


def _cosines(count: int) -> Tensor:
    """The rows of the orthonormal cosine transform (DCT-II) [count, count]."""
    places = torch.arange(count, dtype=torch.float64)
    rows = torch.cos(math.pi / count * (places + 0.5) * places[:, None])
    return functional.normalize(rows, dim=1).float()
