"""The nine-layer CNN of Co-teaching (Han et al. 2018, Table 2)."""

from collections.abc import Callable
from itertools import pairwise

from torch import Tensor, nn

from thresher.models.images import he_start, image_shape


class CNN9(nn.Module):
    """Three blocks of three 3x3 convolutions with BatchNorm and leaky ReLU, averaged over the image.

    The paper has dropout, its released code drops whole channels: `dropout=nn.Dropout2d` does so.
    As in that code the last block is not padded, except where an image is too small for it (under 28 pixels).

    >>> sum(p.numel() for p in CNN9((3, 32, 32), 10).parameters())
    4434570
    """

    def __init__(
        self,
        input_shape: tuple[int, ...],
        outputs: int,
        dropout: Callable[[float], nn.Module] = nn.Dropout,
    ):
        super().__init__()
        channels, height, width = image_shape("cnn9", input_shape, least=4)
        last_padding = 0 if min(height, width) >= 28 else 1
        self.body = nn.Sequential(
            *_block((channels, 128, 128, 128), padding=1),
            nn.MaxPool2d(2),
            dropout(0.25),
            *_block((128, 256, 256, 256), padding=1),
            nn.MaxPool2d(2),
            dropout(0.25),
            *_block((256, 512, 256, 128), padding=last_padding),
        )
        self.head = nn.Linear(128, outputs)
        he_start(self)

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.head(self.body(inputs).mean((2, 3)))
        return outputs


def _block(channels: tuple[int, int, int, int], *, padding: int) -> list[nn.Module]:
    layers: list[nn.Module] = []
    for before, after in pairwise(channels):
        layers += [nn.Conv2d(before, after, 3, padding=padding), nn.BatchNorm2d(after), nn.LeakyReLU(0.01)]
    return layers
