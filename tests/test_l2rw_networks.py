"""weigh(MetaGradient(), ...) with networks from elsewhere: the weights of Algorithm 1, whatever they are made of."""

from collections.abc import Callable

import pytest
import torch
from reference import l2rw as reference
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from thresher import weigh
from thresher.rules import MetaGradient

timm, torchvision = pytest.importorskip("timm"), pytest.importorskip("torchvision")


def of_timm(name: str, **settings: float) -> Callable[[], nn.Module]:
    return lambda: timm.create_model(name, pretrained=False, num_classes=4, **settings)


def of_torchvision(name: str) -> Callable[[], nn.Module]:
    return lambda: torchvision.models.get_model(name, weights=None, num_classes=4)


NETWORKS = {
    "resnet": of_timm("test_resnet", drop_path_rate=0.2),
    "efficientnet": of_timm("test_efficientnet", drop_rate=0.2),
    "convnext": of_timm("test_convnext"),
    "vision transformer": of_timm("test_vit", proj_drop_rate=0.1, drop_path_rate=0.1),
    "squeezenet": of_torchvision("squeezenet1_1"),
    "shufflenet": of_torchvision("shufflenet_v2_x0_5"),
}


def pictures(count: int, size: int, seed: int) -> tuple[Tensor, Tensor]:
    draws = torch.Generator().manual_seed(seed)
    return torch.randn(count, 3, size, size, generator=draws), torch.arange(count) % 4


def cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    return functional.cross_entropy(outputs, targets, reduction="none")


@pytest.mark.parametrize("make", NETWORKS.values(), ids=NETWORKS.keys())
def test_the_weights_are_those_of_algorithm_1(make: Callable[[], nn.Module]) -> None:
    torch.manual_seed(0)
    model = make()
    size = model.patch_embed.img_size[0] if isinstance(model, timm.models.VisionTransformer) else 48
    train, clean = pictures(6, size, 0), pictures(4, size, 1)
    torch.manual_seed(3)
    weights = weigh(MetaGradient(), model, *train, clean=clean)
    torch.manual_seed(3)
    with sdpa_kernel(SDPBackend.MATH):  # backward on backward cannot do without
        expected = reference.weights(reference.meta_gradient(model, cross_entropy, train, clean))
    assert 0 < (expected > 0).sum() < 6
    torch.testing.assert_close(weights, expected, rtol=0, atol=1e-5)
