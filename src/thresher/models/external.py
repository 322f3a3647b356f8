"""Models from elsewhere: timm's, and any function that can be imported."""

import inspect
from difflib import get_close_matches
from types import ModuleType
from typing import Any

from torch import nn

from thresher.core.errors import ThresherError
from thresher.core.extras import needs_extra
from thresher.models.images import image_shape


def from_timm(name: str, input_shape: tuple[int, ...], outputs: int) -> nn.Module:
    """timm's model of this name, untrained, for these images and outputs."""
    needs_extra(f"timm:{name}", "vision", "timm", "torchvision")
    import timm

    if not timm.is_model(name):
        nearest = get_close_matches(name, timm.list_models(), n=1, cutoff=0)
        raise ThresherError(f"timm has no model {name!r}: did you mean timm:{nearest[0]}?")
    channels, height, width = image_shape(f"timm:{name}", input_shape, least=1)
    configuration = timm.get_pretrained_cfg(name)
    # transformers are built for one image size; convolutional networks do not take this argument
    size: dict[str, Any] = (
        {"img_size": (height, width)} if configuration is not None and configuration.fixed_input_size else {}
    )
    model: nn.Module = timm.create_model(name, pretrained=False, in_chans=channels, num_classes=outputs, **size)
    return model


def from_module(module: ModuleType, factory_name: str, input_shape: tuple[int, ...], outputs: int) -> nn.Module:
    """What the module's factory returns, called with `input_shape` and `outputs` if it has these parameters.

    >>> from_module(nn, "Identity", (4,), 4)
    Identity()
    """
    factory = getattr(module, factory_name, None)
    if not callable(factory):
        raise ThresherError(f"{module.__name__} has no function {factory_name!r}: give package.module:factory.")
    offered = {"input_shape": input_shape, "outputs": outputs}
    named = inspect.signature(factory).parameters
    model = factory(**{name: value for name, value in offered.items() if name in named})
    if not isinstance(model, nn.Module):
        path = f"{module.__name__}:{factory_name}"
        raise ThresherError(f"{path} made a {type(model).__name__}: let it return a torch.nn.Module.")
    return model
