"""BatchNorm replaced or frozen, for methods that need the gradients of single examples."""

from math import gcd

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm


def batch_to_group_norm(model: nn.Module, groups: int = 8) -> nn.Module:
    """Replace every BatchNorm2d inside `model` by a GroupNorm with the same scale and shift (Wu & He 2018).

    Groups are gcd(channels, groups), so that they always divide the channels. The model is changed and returned.

    >>> batch_to_group_norm(nn.Sequential(nn.Conv2d(3, 12, 3), nn.BatchNorm2d(12)))[1]
    GroupNorm(4, 12, eps=1e-05, affine=True)
    """
    replaced: dict[nn.Module, nn.Module] = {}
    for path, module in list(model.named_modules(remove_duplicate=False)):
        if isinstance(module, nn.BatchNorm2d):
            if module not in replaced:
                replaced[module] = _group_norm_like(module, groups)
            model.set_submodule(path, replaced[module])
    return model


def _group_norm_like(batch_norm: nn.BatchNorm2d, groups: int) -> nn.GroupNorm:
    channels = batch_norm.num_features
    group_norm = nn.GroupNorm(gcd(channels, groups), channels, batch_norm.eps, affine=batch_norm.affine)
    if batch_norm.affine:
        # the parameters themselves, so that an optimizer that already holds them still trains them
        group_norm.weight, group_norm.bias = batch_norm.weight, batch_norm.bias
    return group_norm.train(batch_norm.training)


def freeze_batch_norm(model: nn.Module, inputs: Tensor | None = None) -> nn.Module:
    """Let every BatchNorm inside `model` normalise by fixed statistics, in training too; scale and shift still learn.

    The statistics are those the model has (a pretrained one's), or those of `inputs`: a fresh model has none, and
    without them its BatchNorms do nothing but scale and shift. `fit` keeps the layers frozen; in a loop of one's own
    call this after every model.train(). The model is changed and returned.

    >>> model = freeze_batch_norm(nn.Sequential(nn.BatchNorm1d(1)), torch.tensor([[1.0], [3.0]]))
    >>> model.training, model[0].training, model[0].running_mean.item()
    (True, False, 2.0)
    """
    model.train()
    layers = [module for module in model.modules() if isinstance(module, _BatchNorm)]
    if inputs is not None:
        momenta = [layer.momentum for layer in layers]
        for layer in layers:
            layer.momentum = 1.0  # only the statistics of this pass
        with torch.no_grad():
            model(inputs)
        for layer, momentum in zip(layers, momenta, strict=True):
            layer.momentum = momentum
    for layer in layers:
        layer.eval()
    return model
