"""GroupNorm in the place of BatchNorm, for methods that look at one example's gradient at a time."""

from math import gcd

from torch import nn


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
