"""What all image models share: the check of the input's shape, and He's initialisation."""

from torch import nn

from thresher.core.errors import ThresherError


def image_shape(model: str, input_shape: tuple[int, ...], *, least: int) -> tuple[int, int, int]:
    """Channels, height and width of an input that `model` can read; anything else is refused.

    >>> image_shape("lenet", (1, 28, 28), least=8)
    (1, 28, 28)
    """
    if len(input_shape) != 3:
        raise ThresherError(
            f"{model} reads images [channels, height, width], not inputs of shape {list(input_shape)}: "
            "reshape the inputs, or use mlp."
        )
    channels, height, width = input_shape
    if min(height, width) < least:
        raise ThresherError(
            f"{model} needs images of at least {least} x {least} pixels, not {height} x {width}: "
            "enlarge the images, or use mlp."
        )
    return channels, height, width


def he_start(model: nn.Module) -> None:
    """Draw every convolution's kernel from N(0, 2 / fan-in) and set its bias to zero (He et al. 2015).

    Fan-in and not fan-out: for depthwise convolutions torch counts the fan-out over all channels.
    """
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_in", nonlinearity="relu")
            if module.bias is not None:
                nn.init.zeros_(module.bias)
