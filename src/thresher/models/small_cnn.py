"""A small convolutional network for images of any size, quick enough for a CPU."""

from itertools import pairwise

from torch import Tensor, nn

from thresher.models.images import he_start, image_shape

CHANNELS = (32, 64, 128, 256)  # of the four convolutions, each of which halves the image


class SmallCNN(nn.Module):
    """Four 3x3 convolutions of stride 2 with BatchNorm and ReLU, averaged over the image.

    >>> sum(p.numel() for p in SmallCNN((3, 64, 64), 10).parameters())
    391466
    """

    def __init__(self, input_shape: tuple[int, ...], outputs: int):
        super().__init__()
        channels, _, _ = image_shape("small-cnn", input_shape, least=4)
        layers: list[nn.Module] = []
        for before, after in pairwise((channels, *CHANNELS)):
            layers += [nn.Conv2d(before, after, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU()]
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(CHANNELS[-1], outputs)
        he_start(self)

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.head(self.body(inputs).mean((2, 3)))
        return outputs
