"""MobileNet (Howard et al. 2017) for small images: the stem keeps the image's size."""

import math

from torch import Tensor, nn

from thresher.core.errors import ThresherError
from thresher.models.images import he_start, image_shape

# (channels at width 1, stride) of the thirteen depthwise separable layers
LAYERS = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1))


class MobileNet(nn.Module):
    """A 3x3 convolution and thirteen depthwise separable ones; `width` multiplies all channels.

    >>> sum(p.numel() for p in MobileNet((3, 32, 32), 10).parameters())
    3217226
    """

    def __init__(self, input_shape: tuple[int, ...], outputs: int, width: float = 1.0):
        super().__init__()
        if not (math.isfinite(width) and width > 0):
            raise ThresherError(f"mobilenet needs a positive width multiplier, not {width}: write mobilenet:2.")
        channels, _, _ = image_shape("mobilenet", input_shape, least=8)
        before = _widened(32, width)
        self.body = nn.Sequential(*_activated(nn.Conv2d(channels, before, 3, padding=1, bias=False)))
        for base, stride in LAYERS:
            after = _widened(base, width)
            depthwise = nn.Conv2d(before, before, 3, stride, padding=1, groups=before, bias=False)
            self.body.extend(_activated(depthwise))
            self.body.extend(_activated(nn.Conv2d(before, after, 1, bias=False)))
            before = after
        self.head = nn.Linear(before, outputs)
        he_start(self)

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.head(self.body(inputs).mean((2, 3)))
        return outputs


def _widened(channels: int, width: float) -> int:
    # multiples of 8, so that every layer can be normalised in groups
    return max(8, round(channels * width / 8) * 8)


def _activated(convolution: nn.Conv2d) -> list[nn.Module]:
    return [convolution, nn.BatchNorm2d(convolution.out_channels), nn.ReLU()]
