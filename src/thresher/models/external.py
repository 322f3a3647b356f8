"""Models from elsewhere: timm's, and any function that can be imported."""

import inspect
import os
import sys
from difflib import get_close_matches
from importlib import import_module, invalidate_caches
from types import ModuleType
from typing import Any

import torch
from torch import nn

from thresher.core.errors import ThresherError, needs_extra, raised_in
from thresher.models.images import image_shape
from thresher.models.pretrained import Probe, load_weights, name_and_weights

VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def from_timm(setting: str, input_shape: tuple[int, ...], outputs: int) -> nn.Module:
    """timm's model of this name for these images and outputs, untrained, or with the weights of a file.

    NAME@weights.safetensors is tuned as a whole; with `,frozen` after it only a new last layer is trained.
    """
    name, weights, frozen = name_and_weights(setting)
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
    model: nn.Module = timm.create_model(
        name, pretrained=False, in_chans=channels, num_classes=0 if frozen else outputs, **size
    )
    if weights is not None:
        last = configuration.classifier if configuration is not None and not frozen else ()
        load_weights(model, weights, (last,) if isinstance(last, str) else tuple(last or ()))
    if not frozen:
        return model
    with torch.no_grad():
        features = model.eval()(torch.zeros(1, channels, height, width)).shape[1]
    return Probe(model, features, outputs)


def import_here(name: str) -> ModuleType:
    """Import a module that is installed, or a file of the current folder; `sys.path` stays as it was."""
    before = list(sys.path)
    sys.path.append(os.getcwd())
    try:
        invalidate_caches()
        with raised_in(f"the import of {name}"):
            return import_module(name)
    finally:
        sys.path[:] = before


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
    needed = [each.name for each in named.values() if each.default is each.empty and each.kind not in VARIABLE]
    if unknown := [name for name in needed if name not in offered]:
        path = f"{module.__name__}:{factory_name}"
        raise ThresherError(f"{path} needs {unknown[0]}: give a function of input_shape and outputs, or of neither.")
    with raised_in(f"{module.__name__}:{factory_name}"):
        model = factory(**{name: value for name, value in offered.items() if name in named})
    if not isinstance(model, nn.Module):
        path = f"{module.__name__}:{factory_name}"
        raise ThresherError(f"{path} made a {type(model).__name__}: let it return a torch.nn.Module.")
    return model
