"""Residual networks that normalise before they convolve (He et al. 2016b): WRN-28-10 and ResNet-11."""

from collections.abc import Callable

from torch import Tensor, nn
from torch.nn import functional

from thresher.core.errors import ThresherError
from thresher.models.images import he_start, image_shape

Residual = Callable[[int, int, int], nn.Module]  # channels before, channels after, stride


class PreActivationBlock(nn.Module):
    """x + residual(relu(bn(x))); where the channels change, x itself becomes a 1x1 convolution of relu(bn(x))."""

    def __init__(self, before: int, after: int, stride: int, residual: Residual):
        super().__init__()
        self.norm = nn.BatchNorm2d(before)
        self.residual = residual(before, after, stride)
        self.projection = nn.Conv2d(before, after, 1, stride, bias=False) if before != after else None

    def forward(self, inputs: Tensor) -> Tensor:
        active = functional.relu(self.norm(inputs))
        shortcut = inputs if self.projection is None else self.projection(active)
        outputs: Tensor = shortcut + self.residual(active)
        return outputs


class PreActivationResNet(nn.Module):
    """A 3x3 stem, stages of blocks that each halve the image (but the first), normalised, averaged, the head."""

    def __init__(self, channels: int, outputs: int, *, widths: tuple[int, ...], blocks: int, residual: Residual):
        super().__init__()
        self.stem = nn.Conv2d(channels, 16, 3, padding=1, bias=False)
        self.stages = nn.Sequential()
        before = 16
        for stage, width in enumerate(widths):
            for place in range(blocks):
                stride = 2 if stage > 0 and place == 0 else 1
                self.stages.append(PreActivationBlock(before, width, stride, residual))
                before = width
        self.norm = nn.BatchNorm2d(before)
        self.head = nn.Linear(before, outputs)
        he_start(self)

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.head(functional.relu(self.norm(self.stages(self.stem(inputs)))).mean((2, 3)))
        return outputs


def wrn_28_10(input_shape: tuple[int, ...], outputs: int, dropout: float = 0.0) -> PreActivationResNet:
    """Wide ResNet of depth 28 and width 10 (Zagoruyko & Komodakis 2016), with dropout between the convolutions."""
    if not 0 <= dropout < 1:
        raise ThresherError(f"wrn-28-10 needs a dropout from 0 to below 1, not {dropout}: write wrn-28-10:0.3.")
    channels, _, _ = image_shape("wrn-28-10", input_shape, least=4)

    def wide(before: int, after: int, stride: int) -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(before, after, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Conv2d(after, after, 3, padding=1, bias=False),
        )

    return PreActivationResNet(channels, outputs, widths=(160, 320, 640), blocks=4, residual=wide)


def resnet11(input_shape: tuple[int, ...], outputs: int) -> PreActivationResNet:
    """ResNet of 9n + 2 layers with n = 1: one bottleneck block a stage, of 64, 128 and 256 channels.

    >>> sum(p.numel() for p in resnet11((3, 64, 64), 2).parameters())
    124690
    """
    channels, _, _ = image_shape("resnet11", input_shape, least=4)
    return PreActivationResNet(channels, outputs, widths=(64, 128, 256), blocks=1, residual=_bottleneck)


def _bottleneck(before: int, after: int, stride: int) -> nn.Module:
    narrow = after // 4
    return nn.Sequential(
        nn.Conv2d(before, narrow, 1, stride, bias=False),
        nn.BatchNorm2d(narrow),
        nn.ReLU(),
        nn.Conv2d(narrow, narrow, 3, padding=1, bias=False),
        nn.BatchNorm2d(narrow),
        nn.ReLU(),
        nn.Conv2d(narrow, after, 1, bias=False),
    )
