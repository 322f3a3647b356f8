"""LeNet-5 (LeCun et al. 1998) with ReLU and max pooling."""

import torch
from torch import Tensor, nn

from thresher.models.images import he_start, image_shape


class LeNet(nn.Module):
    """Two 5x5 convolutions of 6 and 16 channels, each pooled, then layers of 120 and 84 units.

    The first convolution is padded for images under 32 pixels (so 28 gives what 32 gives), the second under 28.

    >>> sum(p.numel() for p in LeNet((1, 28, 28), 10).parameters())
    61706
    """

    def __init__(self, input_shape: tuple[int, ...], outputs: int):
        super().__init__()
        channels, height, width = image_shape("lenet", input_shape, least=4)
        small = min(height, width)
        first, second = 2 if small < 32 else 0, 2 if small < 28 else 0
        self.convolutions = nn.Sequential(
            nn.Conv2d(channels, 6, 5, padding=first),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(6, 16, 5, padding=second),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
        )
        flat = self.convolutions(torch.zeros(1, channels, height, width)).shape[1]
        self.dense = nn.Sequential(nn.Linear(flat, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU())
        self.head = nn.Linear(84, outputs)
        he_start(self)

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.head(self.dense(self.convolutions(inputs)))
        return outputs
