"""Models: known sizes and depths, any channels, small images, nothing that disturbs gradient hooks, clear refusals."""

import sys
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from thresher.core.errors import ThresherError
from thresher.models import MODELS, batch_to_group_norm, build, names
from thresher.models.cnn9 import CNN9
from thresher.models.quick import QuickNet, patch_filters
from thresher.models.resnet import Block

EVERY_NAME = [*names(), "mlp:32x16", "mobilenet:0.5", "mobilenet-gn:0.5", "wrn-28-10:0.3"]


def parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def unallocated(name: str, input_shape: tuple[int, ...] = (3, 32, 32), outputs: int = 10) -> nn.Module:
    with torch.device("meta"):
        return build(name, input_shape=input_shape, outputs=outputs)


def small(name: str) -> nn.Module:
    """The model of this name for 2-channel images of 8 x 8 pixels and 3 outputs."""
    torch.manual_seed(0)
    return build(name, input_shape=(2, 8, 8), outputs=3)


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("mlp", 3072 * 256 + 256 + 256 * 256 + 256 + 2570),
        ("cnn9", 4_434_570),
        ("resnet20", 269_722),
        ("resnet32", 464_154),
        ("resnet56", 853_018),
        ("resnet110", 1_727_962),
        ("resnet18", 11_173_962),
        ("wrn-28-10", 36_479_194),
        ("mobilenet", 3_217_226),
        ("quick:64", 2_489_354),
    ],
)
def test_parameter_counts_are_the_known_ones(name: str, count: int) -> None:
    assert parameters(unallocated(name)) == count


def test_lenet_on_mnist_has_the_known_size() -> None:
    assert parameters(unallocated("lenet", (1, 28, 28))) == 61_706


@pytest.mark.parametrize(
    ("name", "depth"),
    [("resnet11", 11), ("resnet18", 18), ("resnet20", 20), ("resnet32", 32), ("resnet56", 56), ("resnet110", 110)],
)
def test_depth_is_what_the_name_says(name: str, depth: int) -> None:
    layers = [
        path
        for path, module in unallocated(name).named_modules()
        if isinstance(module, (nn.Conv2d, nn.Linear)) and "projection" not in path
    ]
    assert len(layers) == depth


def test_a_width_multiplies_the_channels() -> None:
    head = unallocated("mobilenet:2").head
    assert isinstance(head, nn.Linear)
    assert head.in_features == 2048


def test_settings_reach_the_model() -> None:
    wide = unallocated("wrn-28-10:0.3")
    assert {module.p for module in wide.modules() if isinstance(module, nn.Dropout)} == {0.3}
    sizes = [layer.out_features for layer in unallocated("mlp-leaky:64x32").modules() if isinstance(layer, nn.Linear)]
    assert sizes == [64, 32, 10]
    assert any(isinstance(module, nn.LeakyReLU) for module in unallocated("mlp-leaky").modules())


@pytest.mark.parametrize("name", EVERY_NAME)
def test_every_model_ends_in_its_head_and_uses_every_parameter(name: str) -> None:
    model = small(name)
    from_head: list[Tensor] = []
    assert isinstance(model.head, nn.Linear)
    model.head.register_forward_hook(lambda *call: from_head.append(call[-1]))
    outputs = model(torch.rand(4, 2, 8, 8))
    assert outputs.shape == (4, 3)
    assert outputs is from_head[0]
    outputs.square().sum().backward()
    for path, parameter in model.named_parameters():
        assert parameter.grad is not None, path
        assert torch.isfinite(parameter.grad).all(), path


@pytest.mark.parametrize("name", EVERY_NAME)
def test_no_layer_runs_twice_and_no_layer_output_is_overwritten(name: str) -> None:
    model = small(name).train()
    kept: dict[nn.Module, list[tuple[Tensor, Tensor]]] = {}

    def keep(module: nn.Module, inputs: Any, output: Tensor) -> None:
        del inputs
        kept.setdefault(module, []).append((output, output.detach().clone()))

    leaves = [module for module in model.modules() if not list(module.children())]
    for leaf in leaves:
        leaf.register_forward_hook(keep)
    model(torch.rand(4, 2, 8, 8))
    assert {leaf: len(kept.get(leaf, [])) for leaf in leaves} == dict.fromkeys(leaves, 1)
    assert all(torch.equal(output, copy) for calls in kept.values() for output, copy in calls)


@pytest.mark.parametrize("name", [name for name in MODELS if not name.startswith(("mlp", "quick"))])
def test_every_kernel_starts_with_the_deviation_its_inputs_ask_for(name: str) -> None:
    for path, module in small(name).named_modules():
        if isinstance(module, nn.Conv2d):
            fan_in = module.weight[0].numel()
            assert module.weight.std().item() == pytest.approx((2 / fan_in) ** 0.5, rel=0.2), path
            assert module.bias is None or not module.bias.any(), path


@pytest.mark.parametrize("name", ["lenet", "cnn9"])
@pytest.mark.parametrize("size", [(4, 4), (8, 8), (12, 8), (27, 27), (28, 28), (31, 40), (32, 32)])
def test_the_padding_rules_fit_every_size(name: str, size: tuple[int, int]) -> None:
    model = build(name, input_shape=(1, *size), outputs=2).eval()
    assert model(torch.rand(1, 1, *size)).shape == (1, 2)


def test_lenet_gives_28_and_32_pixels_the_same_layers() -> None:
    assert parameters(unallocated("lenet", (1, 28, 28))) == parameters(unallocated("lenet", (1, 32, 32)))


def test_cnn9_shrinks_its_last_block_as_published() -> None:
    assert CNN9((3, 32, 32), 10).eval().body(torch.rand(1, 3, 32, 32)).shape == (1, 128, 2, 2)


def test_cnn9_can_drop_whole_channels_as_the_released_code_does() -> None:
    assert any(isinstance(module, nn.Dropout2d) for module in CNN9((3, 8, 8), 10, dropout=nn.Dropout2d).modules())


def test_the_padded_shortcut_keeps_every_second_pixel_between_zero_channels() -> None:
    block, images = Block(2, 6, 2, projected=False).eval(), torch.rand(1, 2, 4, 4)
    nn.init.zeros_(block.norm2.weight)
    expected = torch.zeros(1, 6, 2, 2)
    for channel, row, column in [(c, r, k) for c in range(2) for r in range(2) for k in range(2)]:
        expected[0, 2 + channel, row, column] = images[0, channel, 2 * row, 2 * column]
    assert torch.equal(block(images), expected)


def test_resnet18_equals_torchvisions_with_a_cifar_stem() -> None:
    torchvision = pytest.importorskip("torchvision")
    theirs = torchvision.models.resnet18(num_classes=3)
    theirs.conv1, theirs.maxpool = nn.Conv2d(2, 64, 3, padding=1, bias=False), nn.Identity()
    ours = small("resnet18")
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        other.data.copy_(mine.data)
    images = torch.rand(4, 2, 16, 16)
    torch.testing.assert_close(ours(images), theirs(images))


def test_group_norm_takes_the_place_of_batch_norm_and_keeps_scale_and_shift() -> None:
    norm = nn.BatchNorm2d(12)
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    inner = nn.Sequential(norm, nn.ReLU())
    model = batch_to_group_norm(nn.Sequential(inner, nn.Conv2d(12, 12, 1), norm), groups=8)
    images = torch.rand(2, 12, 5, 5)
    expected = functional.group_norm(images, 4, norm.weight, norm.bias)
    assert torch.equal(inner[0](images), expected)
    assert model[2] is inner[0]  # type: ignore[index]
    assert not any(isinstance(module, nn.BatchNorm2d) for module in model.modules())


@pytest.mark.parametrize("name", [name for name in names() if name.endswith("-gn")])
def test_with_group_norm_an_example_does_not_see_its_neighbours(name: str) -> None:
    model = small(name).train()
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.eval()
    images = torch.rand(3, 2, 8, 8)
    torch.testing.assert_close(model(images)[:1], model(images[:1]), rtol=1e-3, atol=1e-4)


def test_timm_models_fit_the_images_and_outputs() -> None:
    pytest.importorskip("timm")
    assert build("timm:resnet10t", input_shape=(1, 32, 32), outputs=4)(torch.rand(2, 1, 32, 32)).shape == (2, 4)
    vit = build("timm:vit_tiny_patch16_224", input_shape=(3, 32, 32), outputs=4)
    assert vit(torch.rand(2, 3, 32, 32)).shape == (2, 4)
    with pytest.raises(ThresherError, match="did you mean timm:resnet18"):
        build("timm:resnet18_", input_shape=(3, 32, 32), outputs=4)


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module of a user, with factories of several kinds."""
    module = ModuleType("own_networks")
    members: dict[str, Any] = {
        "told": lambda *, input_shape, outputs: nn.Linear(input_shape[0], outputs),
        "told_half": lambda outputs: nn.Linear(7, outputs),
        "untold": lambda **other: nn.Linear(5, 6 + len(other)),
        "number": lambda: 3,
        "constant": 3,
    }
    for name, member in members.items():
        setattr(module, name, member)
    monkeypatch.setitem(sys.modules, "own_networks", module)
    return module


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize(("factory", "shape"), [("told", (2, 4)), ("told_half", (2, 7)), ("untold", (6, 5))])
def test_a_factory_is_told_what_it_names(factory: str, shape: tuple[int, int]) -> None:
    made = build(f"own_networks:{factory}", input_shape=(4,), outputs=2)
    assert next(made.parameters()).shape == shape


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("resnet33", "did you mean 'resnet"),
        ("zzz", "choose one of cnn9"),
        ("mobilnet:2", "did you mean mobilenet?"),
        ("no_such_package.networks:make", "give package.module:factory"),
        (":make", "give package.module:factory"),
        ("own_networks:missing", "no function 'missing'"),
        ("own_networks:constant", "no function 'constant'"),
        ("own_networks:number", "return a torch.nn.Module"),
        ("mlp-gn", "did you mean 'mlp"),
        ("resnet20:3", "takes no setting"),
        ("mobilenet:wide", "write mobilenet:2"),
        ("mobilenet:", "write mobilenet:2"),
        ("mobilenet:0", "positive width"),
        ("mobilenet:nan", "positive width"),
        ("wrn-28-10:1", "dropout from 0 to below 1"),
        ("quick:16", "a width of at least 24"),
        ("mlp:0", "at least one unit"),
        ("mlp:2x", "write mlp:256x256"),
    ],
)
def test_a_wrong_name_gets_a_sentence_with_the_fix(name: str, said: str) -> None:
    with pytest.raises(ThresherError) as refused:
        unallocated(name)
    assert said in str(refused.value)


@pytest.mark.parametrize("name", [name for name in MODELS if not name.startswith(("mlp", "head", "linear"))])
@pytest.mark.parametrize(("shape", "said"), [((64,), "reads images"), ((1, 3, 3), "at least")])
def test_image_models_refuse_what_is_no_image_or_too_small(name: str, shape: tuple[int, ...], said: str) -> None:
    with pytest.raises(ThresherError, match=f"{name} .*{said}.*mlp"):
        unallocated(name, shape)


def test_a_model_needs_an_output() -> None:
    with pytest.raises(ThresherError, match="at least one output"):
        build("mlp", input_shape=(4,), outputs=0)


def test_quick_passes_its_inputs_on_before_it_has_learned() -> None:
    """Each convolution begins as the identity on its first channels, so no feature of the filters is lost."""
    conv = QuickNet((3, 32, 32), 10, width=24).stages[0].get_submodule("convs.0")
    seen = torch.randn(2, 24, 6, 6)
    assert torch.equal(conv(seen), seen)


def test_quick_takes_a_maximum_from_one_place_even_among_equal_ones() -> None:
    """A gradient that looks for the maximum by its value finds none where a compiled pass rounds it: 0 / 0."""
    network, maps = QuickNet((3, 16, 16), 3, 24), list[Tensor]()
    network.stages.register_forward_hook(lambda layer, given, output: maps.append(output))  # noqa: ARG005
    outputs = network(torch.zeros(2, 3, 16, 16))
    (gradient,) = torch.autograd.grad(outputs.sum(), maps)
    assert maps[0].shape[2:].numel() > 1
    assert (gradient != 0).sum((2, 3)).eq(1).all()


def test_the_filters_of_quick_keep_all_of_a_patch() -> None:
    filters = patch_filters(3)
    patches = torch.randn(5, 3, 2, 2)
    answers = nn.functional.conv2d(patches, filters).flatten(1)
    assert torch.equal(answers[:, 12:], -answers[:, :12])
    assert torch.allclose(answers[:, :12].square().sum(1), patches.square().sum((1, 2, 3)), rtol=1e-5)
