"""Residual networks for small images (He et al. 2016): the CIFAR family 6n + 2, and ResNet-18 with a CIFAR stem."""

from torch import Tensor, nn
from torch.nn import functional

from thresher.models.images import he_start, image_shape


class Block(nn.Module):
    """relu(shortcut(x) + bn(conv(relu(bn(conv(x)))))).

    Where the shape changes, the shortcut is a 1x1 convolution if `projected` (option B), and otherwise
    every `stride`-th pixel with zeros for the new channels, half before and half after (option A).
    """

    def __init__(self, before: int, after: int, stride: int, *, projected: bool):
        super().__init__()
        self.stride = stride
        self.new_channels = after - before
        self.conv1 = nn.Conv2d(before, after, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(after)
        self.projection = None
        if projected and (stride != 1 or self.new_channels):
            self.projection = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, inputs: Tensor) -> Tensor:
        inner = functional.relu(self.norm1(self.conv1(inputs)))
        return functional.relu(self.norm2(self.conv2(inner)) + self.shortcut(inputs))

    def shortcut(self, inputs: Tensor) -> Tensor:
        if self.projection is not None:
            projected: Tensor = self.projection(inputs)
            return projected
        if self.stride == 1 and not self.new_channels:
            return inputs
        half = self.new_channels // 2
        seen = inputs[:, :, :: self.stride, :: self.stride]
        return functional.pad(seen, (0, 0, 0, 0, half, self.new_channels - half))


class ResNet(nn.Module):
    """A 3x3 stem, stages of blocks that each halve the image (but the first), the mean over the image, the head."""

    def __init__(self, channels: int, outputs: int, *, widths: tuple[int, ...], blocks: int, projected: bool):
        super().__init__()
        self.stem = nn.Conv2d(channels, widths[0], 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(widths[0])
        self.stages = nn.Sequential()
        before = widths[0]
        for stage, width in enumerate(widths):
            for place in range(blocks):
                stride = 2 if stage > 0 and place == 0 else 1
                self.stages.append(Block(before, width, stride, projected=projected))
                before = width
        self.head = nn.Linear(before, outputs)
        he_start(self)

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.head(self.stages(functional.relu(self.norm(self.stem(inputs)))).mean((2, 3)))
        return outputs


def cifar_resnet(input_shape: tuple[int, ...], outputs: int, *, depth: int) -> ResNet:
    """The CIFAR ResNet of `depth` = 6n + 2 layers: 16, 32 and 64 channels, n blocks each, shortcuts of option A.

    >>> sum(p.numel() for p in cifar_resnet((3, 32, 32), 10, depth=20).parameters())
    269722
    """
    channels, _, _ = image_shape(f"resnet{depth}", input_shape, least=4)
    return ResNet(channels, outputs, widths=(16, 32, 64), blocks=(depth - 2) // 6, projected=False)


def resnet18(input_shape: tuple[int, ...], outputs: int) -> ResNet:
    """ResNet-18 whose stem is one 3x3 convolution without pooling, as small images need it."""
    channels, _, _ = image_shape("resnet18", input_shape, least=8)
    return ResNet(channels, outputs, widths=(64, 128, 256, 512), blocks=2, projected=True)
