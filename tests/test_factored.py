"""Factored gradients against one backward pass for each example, and against vmap(grad)."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import per_example
from torch import Tensor, nn
from torch.nn.utils import parametrizations, prune, spectral_norm, weight_norm
from torch.utils._python_dispatch import TorchDispatchMode

from thresher import ThresherError
from thresher.engine.gradients import convolution, layers
from thresher.engine.gradients.factored import Factors, record
from thresher.engine.gradients.formulas import refuse_batch_norm, supported
from thresher.engine.gradients.layers import NotFactored
from thresher.engine.gradients.unfactored import norms_by_vmap

EVEN_SAME = pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")  # torch, of its own copy
WEIGHTS = [0.0, 2.0, 0.5, 1.0, 3.0, 0.1]


def squares(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs.flatten(1) - targets.flatten(1)).square().sum(1)


def cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(outputs, targets, reduction="none")


def by_vmap(model: nn.Module, inputs: Tensor, targets: Tensor, chunk: int = 16) -> Tensor:
    outputs = model(inputs).detach().requires_grad_()
    (gradients,) = torch.autograd.grad(cross_entropy(outputs, targets).sum(), outputs)
    return norms_by_vmap(model, inputs, gradients, chunk)


def check(
    model: nn.Module, inputs: Tensor, objective: Callable[[Tensor, Tensor], Tensor], targets: Tensor, rtol: float = 1e-5
) -> None:
    """Norms and weighted gradients equal those of the reference, to `rtol` of the largest entry."""
    model.zero_grad()
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    weights = torch.tensor(WEIGHTS, dtype=trained[0].dtype)[: len(inputs)]
    losses = objective(model(inputs), targets)
    norms, gradients = per_example.norms(losses, trained), per_example.weighted(losses, weights, trained)
    with record(model) as recorder:
        outputs = model(inputs)
    losses = objective(outputs, targets)
    recorder.verify(losses)
    factors = recorder.differentiate(losses)
    factors.accumulate(weights)
    torch.testing.assert_close(factors.norms(), norms, rtol=rtol, atol=1e-12)
    for parameter, gradient in zip(trained, gradients, strict=True):
        found = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        torch.testing.assert_close(found, gradient, rtol=rtol, atol=rtol * (1e-12 + float(gradient.abs().max())))


def check_layer(layer: nn.Module, inputs: Tensor) -> None:
    layer, inputs = layer.double(), inputs.double() if inputs.is_floating_point() else inputs
    check(layer, inputs, squares, torch.randn_like(layer(inputs)), rtol=1e-9)


class Residual(nn.Module):
    def __init__(self, inner: nn.Module):
        super().__init__()
        self.inner = inner

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs + self.inner(inputs)


class Block(nn.Module):
    """Embedding, attention by hand over [n, t, d], LayerNorm, a feed-forward part."""

    def __init__(self, width: int = 12):
        super().__init__()
        self.tokens = nn.Embedding(7, width, padding_idx=0)
        self.query, self.key, self.value = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.norm, self.last_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.head = nn.Linear(width, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        hidden = self.tokens(tokens)
        seen = self.norm(hidden)
        hidden = hidden + F.scaled_dot_product_attention(self.query(seen), self.key(seen), self.value(seen))
        return self.head((hidden + self.feed(self.last_norm(hidden))).mean(1))


def small_cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.GroupNorm(2, 8),
        nn.ReLU(inplace=True),
        Residual(nn.Sequential(nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.GroupNorm(4, 8), nn.LeakyReLU())),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 32, 3, stride=2, padding=1),
        nn.ReLU(inplace=True),
        nn.Conv2d(32, 16, 1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Dropout(0.5),
        nn.Linear(16, 4),
    )


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture(params=[2**23, 1], ids=["one block", "a block each"])
def _blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers, "CPU_BLOCK", request.param)


@EVEN_SAME
@settings(max_examples=120, deadline=None, derandomize=True)
@given(data=st.data(), dimensions=st.sampled_from([1, 2]))
def test_convolutions_of_every_geometry(data: st.DataObject, dimensions: int) -> None:
    groups = data.draw(st.sampled_from([1, 1, 2, 3]), "groups")
    channels = [groups * data.draw(st.integers(1, 8), "channels per group") for _ in range(2)]
    kernel, dilation = (tuple(data.draw(st.integers(1, 3)) for _ in range(dimensions)) for _ in range(2))
    padding = data.draw(st.sampled_from(["same", "valid", 0, 1, 2, (1, 0)[:dimensions]]), "padding")
    stride = 1 if padding == "same" else data.draw(st.integers(1, 3), "stride")
    make = nn.Conv1d if dimensions == 1 else nn.Conv2d
    bias = data.draw(st.booleans(), "bias")
    layer = make(
        *channels,
        kernel,
        padding=padding,
        stride=stride,
        dilation=dilation,
        groups=groups,
        bias=bias,
        dtype=torch.double,
    )
    inputs = torch.randn(3, channels[0], *(data.draw(st.integers(7, 9)) for _ in range(dimensions)), dtype=torch.double)
    check_layer(layer, inputs)
    deltas = torch.randn_like(layer(inputs))
    shaped = [rows[:, :, None] if dimensions == 1 else rows for rows in (inputs, deltas)]
    how = convolution.geometry_of(layer)  # type: ignore[arg-type]
    torch.testing.assert_close(
        convolution.gradients_by_patches(how, *shaped), convolution.gradients_by_groups(how, *shaped)
    )


@EVEN_SAME
@pytest.mark.usefixtures("_blocks")
@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.Linear(5, 4), (6, 5)),
        (nn.Linear(5, 1, bias=False), (6, 5)),
        (nn.Linear(30, 20), (6, 3, 30)),
        (nn.Linear(3, 2), (6, 4, 5, 3)),
        (nn.Conv2d(24, 16, 3, padding=1), (6, 24, 4, 4)),
        (nn.Conv2d(3, 4, 3, padding=1), (6, 3, 8, 8)),
        (nn.Conv2d(3, 64, 4, stride=4), (6, 3, 12, 12)),
        (nn.Conv1d(16, 16, 5, padding="same", dilation=2), (6, 16, 7)),
        (nn.Conv2d(24, 48, (2, 3), padding="same", groups=2), (6, 24, 3, 3)),
        (nn.LayerNorm(5), (6, 5)),
        (nn.LayerNorm((4, 5)), (6, 3, 4, 5)),
        (nn.LayerNorm(5, bias=False), (6, 4, 5)),
        (nn.GroupNorm(2, 6), (6, 6, 5, 4)),
        (nn.GroupNorm(3, 6), (6, 6)),
    ],
    ids=str,
)
def test_single_layers(layer: nn.Module, shape: tuple[int, ...]) -> None:
    for parameter in layer.parameters():
        nn.init.normal_(parameter)
    check_layer(layer, torch.randn(shape))


@pytest.mark.usefixtures("_blocks")
@pytest.mark.parametrize("padding", [None, 2])
@pytest.mark.parametrize("shape", [(6,), (6, 5), (6, 2, 4)])
def test_embedding_counts_repeated_tokens_once_and_padding_never(padding: int | None, shape: tuple[int, ...]) -> None:
    check_layer(nn.Embedding(4, 3, padding_idx=padding), torch.randint(0, 4, shape))


@pytest.mark.parametrize(("layer", "shape"), [(nn.BatchNorm1d(4), (6, 4)), (nn.BatchNorm2d(4), (6, 4, 3, 3))], ids=str)
def test_batch_norm_by_running_statistics(layer: nn.Module, shape: tuple[int, ...]) -> None:
    layer(torch.randn(shape) * 3 + 1)
    check_layer(layer.eval(), torch.randn(shape))


MODELS = {
    "mlp": (
        nn.Sequential(nn.Flatten(), nn.Linear(48, 32), nn.LeakyReLU(), nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 4)),
        (6, 3, 4, 4),
    ),
    "cnn": (small_cnn().eval(), (6, 3, 16, 16)),
    "block": (Block(), None),
}


@pytest.mark.parametrize("name", MODELS)
def test_models_in_float32(name: str) -> None:
    model, shape = MODELS[name]
    inputs = torch.randint(0, 7, (6, 5)) if shape is None else torch.randn(shape)
    check(model, inputs, cross_entropy, torch.tensor([0, 1, 2, 0, 1, 2]))


@pytest.mark.parametrize("name", MODELS)
def test_vmap_gives_the_same_norms(name: str) -> None:
    model, shape = MODELS[name]
    inputs = torch.randint(0, 7, (6, 5)) if shape is None else torch.randn(shape)
    targets = torch.tensor([0, 1, 2, 0, 1, 2])
    expected = per_example.norms(cross_entropy(model(inputs), targets), list(model.parameters()))
    torch.testing.assert_close(by_vmap(model, inputs, targets, chunk=4), expected, rtol=1e-5, atol=0)


def test_the_weighted_gradient_is_that_of_plain_training_and_adds_up() -> None:
    model, inputs, targets = small_cnn().eval(), torch.randn(6, 3, 16, 16), torch.arange(6) % 4
    weights = torch.tensor(WEIGHTS)
    (weights * cross_entropy(model(inputs), targets)).sum().backward()
    plain = [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
    with record(model) as recorder:
        outputs = model(inputs)
    recorder.differentiate(cross_entropy(outputs, targets)).accumulate(weights)
    for parameter, gradient in zip(model.parameters(), plain, strict=True):
        torch.testing.assert_close(parameter.grad, 2 * gradient, rtol=1e-4, atol=1e-5)


def test_dropout_keeps_the_mask_of_the_forward_pass() -> None:
    model, inputs, targets = small_cnn().train(), torch.randn(6, 3, 16, 16), torch.arange(6) % 4
    with record(model) as recorder:
        outputs = model(inputs)
    losses = cross_entropy(outputs, targets)
    expected = per_example.norms(losses, list(model.parameters()))
    torch.testing.assert_close(recorder.differentiate(losses).norms(), expected, rtol=1e-5, atol=0)


def test_frozen_parameters_do_not_count() -> None:
    model = small_cnn().eval()
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name not in {"0.weight", "0.bias", "1.bias", "5.weight", "11.bias"})
    check(model, torch.randn(6, 3, 16, 16), cross_entropy, torch.arange(6) % 4)
    assert model[0].weight.grad is None
    assert model[5].weight.grad is None


def test_unused_layers_add_nothing() -> None:
    class Spare(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.seen, self.idle = nn.Linear(3, 2), nn.Linear(3, 2), nn.Linear(3, 2)

        def forward(self, inputs: Tensor) -> Tensor:
            self.seen(inputs)
            return self.used(inputs)

    check(Spare(), torch.randn(6, 3), cross_entropy, torch.arange(6) % 2)


def test_bfloat16_is_as_exact_as_plain_autocast() -> None:
    model, inputs, targets = small_cnn().eval(), torch.randn(6, 3, 16, 16), torch.arange(6) % 4
    with torch.autocast("cpu", dtype=torch.bfloat16):
        with record(model) as recorder:
            outputs = model(inputs)
        losses = cross_entropy(outputs.float(), targets)
        expected = per_example.norms(losses, list(model.parameters()))
        gradients = per_example.weighted(losses, torch.ones(6), list(model.parameters()))
        factors = recorder.differentiate(losses)
        factors.accumulate(torch.ones(6))
    assert factors.norms().dtype == torch.float32
    torch.testing.assert_close(factors.norms(), expected, rtol=2e-3, atol=0)
    for parameter, gradient in zip(model.parameters(), gradients, strict=True):
        assert parameter.grad is not None
        assert parameter.grad.dtype == torch.float32
        assert (gradient - parameter.grad).norm() < 0.01 * gradient.norm()


class NoSynchronisation(TorchDispatchMode):
    """Fails on operations whose result the host must wait for."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        name = function.__name__.split(".")[0]
        assert name not in {"_local_scalar_dense", "nonzero", "masked_select", "equal", "is_nonzero"}, name
        if name in {"index", "index_put", "index_put_"}:
            assert all(index is None or index.dtype != torch.bool for index in args[1]), name
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", MODELS)
def test_nothing_waits_for_the_device(name: str) -> None:
    model, shape = MODELS[name]
    inputs = torch.randint(0, 7, (6, 5)) if shape is None else torch.randn(shape)
    with NoSynchronisation():
        with record(model) as recorder:
            outputs = model(inputs)
        factors = recorder.differentiate(cross_entropy(outputs, torch.arange(6) % 3))
        factors.accumulate(factors.norms())


def test_the_watch_for_synchronisation_sees_one() -> None:
    with pytest.raises(AssertionError, match="_local_scalar_dense"), NoSynchronisation():
        torch.ones(()).item()


def test_norms_by_vmap_with_shared_and_frozen_parameters() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.PReLU(), nn.Linear(4, 4), nn.Linear(4, 3))
    model[3].weight = model[0].weight
    model[4].weight.requires_grad_(False)
    inputs, targets = torch.randn(6, 4), torch.arange(6) % 3
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    expected = per_example.norms(cross_entropy(model(inputs), targets), trained)
    torch.testing.assert_close(by_vmap(model, inputs, targets, chunk=4), expected, rtol=1e-5, atol=0)


class Last(nn.Module):
    """The last hidden state of a recurrent layer."""

    def __init__(self, kind: type[nn.RNNBase]):
        super().__init__()
        self.memory = kind(3, 2, batch_first=True)

    def forward(self, inputs: Tensor) -> Tensor:
        states: Tensor = self.memory(inputs)[0]
        return states[:, -1]


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_vmap_covers_an_lstm() -> None:
    model, inputs, targets = Last(nn.LSTM), torch.randn(4, 5, 3), torch.zeros(4, dtype=torch.long)
    expected = per_example.norms(cross_entropy(model(inputs), targets), list(model.parameters()))
    torch.testing.assert_close(by_vmap(model, inputs, targets), expected, rtol=1e-5, atol=0)


def test_vmap_refuses_dropout_batch_norm_and_what_torch_cannot_do() -> None:
    inputs, gradients = torch.randn(4, 5, 3), torch.ones(4, 1)
    with pytest.raises(ThresherError, match=r"1 draws dropout masks.*0 is a GRU"):
        norms_by_vmap(nn.Sequential(nn.GRU(3, 3), nn.Dropout(0.5)), inputs[:, 0], gradients)
    with pytest.raises(ThresherError, match="memory is a GRU"):
        norms_by_vmap(Last(nn.GRU), inputs, gradients)
    with pytest.raises(ThresherError, match="batch_to_group_norm"):
        norms_by_vmap(nn.BatchNorm1d(3), inputs[:, 0], gradients)


@pytest.mark.parametrize("affine", [True, False])
def test_batch_norm_by_batch_statistics_is_refused(affine: bool) -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4, affine=affine))
    with pytest.raises(ThresherError, match=r"1 is a BatchNorm1d.*batch_to_group_norm.*freeze_batch_norm"):
        refuse_batch_norm(model)
    model[1].eval()
    refuse_batch_norm(model)
    with pytest.raises(ThresherError, match="BatchNorm2d"):
        refuse_batch_norm(nn.BatchNorm2d(3, track_running_stats=False).eval())


def test_supported_names_the_first_layer_without_a_formula() -> None:
    assert supported(small_cnn()) is None
    assert supported(nn.Sequential(nn.Conv2d(1, 1, 3, padding=1, padding_mode="reflect"))) == (
        "0 is a Conv2d with reflect padding, which has no formula"
    )
    assert "sparse" in str(supported(nn.Embedding(3, 2, sparse=True)))
    assert "sparse or frequency" in str(supported(nn.Embedding(3, 2, scale_grad_by_freq=True)))
    assert "LSTM" in str(supported(nn.Sequential(nn.LSTM(2, 2))))
    assert "mixes" in str(supported(nn.BatchNorm1d(2)))
    assert supported(nn.BatchNorm1d(2, affine=False)) is None
    assert supported(nn.MultiheadAttention(4, 2)) is None
    for more in ({"kdim": 3}, {"add_bias_kv": True}, {"add_zero_attn": True}):
        assert "is a MultiheadAttention whose keys or values have" in str(
            supported(nn.MultiheadAttention(4, 2, **more))
        )
    assert supported(nn.Sequential(nn.PReLU())) is None
    made = parametrizations.weight_norm(nn.Linear(2, 2))
    assert supported(nn.Sequential(made)) == "0 is a ParametrizedLinear, which has no formula"
    with pytest.raises(NotFactored, match="LSTM"):
        record(nn.Sequential(nn.LSTM(2, 2)))


MADE = {
    "weight norm": weight_norm,
    "spectral norm": lambda layer: spectral_norm(layer).eval(),
    "pruned": lambda layer: prune.random_unstructured(layer, "weight", amount=0.3),
    "pruned bias": lambda layer: prune.random_unstructured(layer, "bias", amount=0.5),
}


@pytest.mark.filterwarnings("ignore:`torch.nn.utils.weight_norm` is deprecated")
@pytest.mark.parametrize("change", MADE.values(), ids=MADE.keys())
def test_weights_made_of_other_parameters_are_left_to_vmap(change: Callable[[nn.Module], nn.Module]) -> None:
    model, inputs, targets = nn.Sequential(change(nn.Linear(4, 4)), nn.Tanh()), torch.randn(6, 4), torch.arange(6) % 3
    assert supported(model) == "0 is a Linear whose weight or bias is no parameter of its own"
    expected = per_example.norms(cross_entropy(model(inputs), targets), list(model.parameters()))
    torch.testing.assert_close(by_vmap(model, inputs, targets), expected, rtol=1e-5, atol=0)


class Scaled(nn.Module):
    """A model with a parameter that is a single number."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.scale = nn.Linear(4, 3), nn.Parameter(torch.tensor(0.5))

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.layer(inputs) * self.scale.exp()
        return outputs


def test_a_parameter_may_be_a_single_number() -> None:
    model, inputs, targets = Scaled(), torch.randn(6, 4), torch.arange(6) % 3
    expected = per_example.norms(cross_entropy(model(inputs), targets), list(model.parameters()))
    torch.testing.assert_close(by_vmap(model, inputs, targets), expected, rtol=1e-5, atol=0)


class Steps(nn.Module):
    """A model whose forward pass is the given function of (its layer, inputs)."""

    def __init__(self, layer: nn.Module, forward: Callable[[nn.Module, Tensor], Tensor]):
        super().__init__()
        self.layer, self.steps = layer, forward

    def forward(self, inputs: Tensor) -> Tensor:
        return self.steps(self.layer, inputs)


def in_place_afterwards(layer: nn.Module, inputs: Tensor) -> Tensor:
    hidden = inputs * 2
    outputs: Tensor = layer(hidden)
    hidden.add_(1)
    return outputs


@pytest.mark.parametrize(
    ("forward", "reason"),
    [
        (lambda layer, inputs: layer(inputs[:5]).repeat(2, 1)[:6], "rows"),
        (lambda layer, inputs: layer(inputs.T[:, None].expand(4, 3, 6).reshape(-1, 4)).reshape(-1, 6).T, "mixes"),
        (lambda layer, inputs: layer(inputs[0]) + inputs, "rows"),
        (in_place_afterwards, "in place"),
        (lambda layer, inputs: layer(inputs) @ layer.weight, "also used outside"),
        (lambda layer, inputs: inputs @ layer.weight, "No layer"),
        (lambda layer, inputs: layer(inputs) - layer(inputs).mean(0), "mixes examples"),
        (lambda layer, inputs: (lambda hidden: hidden - hidden.mean(0))(layer(inputs)), "mixes examples"),
    ],
)
def test_what_the_formulas_do_not_cover_is_refused(forward: Callable[[nn.Module, Tensor], Tensor], reason: str) -> None:
    model, inputs = Steps(nn.Linear(4, 4), forward), torch.randn(6, 4)
    with record(model) as recorder:
        outputs = model(inputs)
    with pytest.raises(NotFactored, match=reason):
        recorder.verify(squares(outputs, torch.zeros_like(outputs)))


@pytest.mark.parametrize("forward", [lambda layer, inputs: layer(inputs[:5]).repeat(2, 1)[:6], in_place_afterwards])
def test_differentiate_itself_refuses_what_it_can_see(forward: Callable[[nn.Module, Tensor], Tensor]) -> None:
    model = Steps(nn.Linear(4, 4), forward)
    with record(model) as recorder:
        outputs = model(torch.randn(6, 4))
    with pytest.raises(NotFactored):
        recorder.differentiate(outputs.sum(1))


def tied(layer: nn.Module, inputs: Tensor) -> Tensor:
    """A matrix used by an embedding, and by a Linear layer twice."""
    hidden = layer["in"](inputs)  # type: ignore[index]
    return layer["out"](hidden.tanh()) + layer["out"](hidden)  # type: ignore[index]


def tied_layers(width: int) -> nn.ModuleDict:
    layer = nn.ModuleDict({"in": nn.Embedding(7, width, padding_idx=2), "out": nn.Linear(width, 7)})
    layer["out"].weight = layer["in"].weight
    return layer


def of_positions(layer: nn.Module, inputs: Tensor) -> Tensor:
    """Rows that all examples share, and rows that are positions of examples."""
    numbered: Tensor = layer[0](torch.arange(3)[None])  # type: ignore[index]
    hidden = inputs[:, None] + numbered
    return layer[1](hidden.flatten(0, 1)).reshape(len(inputs), -1)  # type: ignore[index,no-any-return]


class Root(nn.Module):
    """A layer without a formula that reads its parameter twice."""

    def __init__(self, rows: int, columns: int):
        super().__init__()
        self.scale, self.held = nn.Parameter(torch.randn(rows, columns)), nn.Parameter(torch.ones(()), False)

    def forward(self, inputs: Tensor) -> Tensor:
        return (inputs[..., None, :] * self.scale).sum(-1).tanh() * self.scale.sum() * self.held


SEVERAL = {
    "called twice": (nn.Linear(4, 4), lambda layer, inputs: layer(layer(inputs).tanh())),
    "called twice, without a formula": (
        Root(4, 4),
        lambda layer, inputs: layer(layer(inputs[:, None].expand(-1, 4, -1))),
    ),
    "normalised twice": (nn.RMSNorm(4), lambda layer, inputs: layer(layer(inputs).tanh() + inputs)),
    "tied, by outer products": (tied_layers(5), tied),
    "tied, wide": (tied_layers(40), tied),
    "positions": (nn.Sequential(nn.Embedding(3, 4), nn.Linear(4, 2)), of_positions),
    "flat and normalised": (nn.Sequential(nn.Embedding(3, 4), nn.LayerNorm(4)), of_positions),
    "large, without a formula": (Root(9, 4), lambda layer, inputs: layer(inputs)),
    "PReLU of channels": (nn.PReLU(4), lambda layer, inputs: layer(inputs[:, :, None].expand(-1, -1, 3))),
}


@pytest.mark.usefixtures("_blocks")
@pytest.mark.parametrize("name", SEVERAL)
def test_uses_of_one_parameter_add_up_and_layers_without_a_formula_are_asked_alone(name: str) -> None:
    layer, forward = SEVERAL[name]
    model = Steps(layer.double(), forward)
    inputs = torch.randint(0, 7, (6, 5)) if name.startswith("tied") else torch.randn(6, 4, dtype=torch.double)
    check(model, inputs, squares, torch.randn_like(model(inputs)), rtol=1e-9)


@pytest.mark.parametrize("name", SEVERAL)
def test_the_gradient_along_a_direction(name: str) -> None:
    layer, forward = SEVERAL[name]
    model = Steps(layer.double(), forward)
    inputs = torch.randint(0, 7, (6, 5)) if name.startswith("tied") else torch.randn(6, 4, dtype=torch.double)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    direction = {parameter: torch.randn_like(parameter) for parameter in trained}
    with record(model) as recorder:
        losses = squares(outputs := model(inputs), torch.zeros_like(outputs))
    rows = per_example.gradients(losses, trained)
    expected = [sum(float((g * d).sum()) for g, d in zip(row, direction.values(), strict=True)) for row in rows]
    for norms in (True, False):
        factors = recorder.differentiate(losses, retain_graph=True, norms=norms) if norms else again(model, inputs)
        torch.testing.assert_close(factors.along(direction).tolist(), expected, rtol=1e-9, atol=1e-12)


def again(model: nn.Module, inputs: Tensor) -> Factors:
    """The factors of a pass of its own, without norms."""
    with record(model) as recorder:
        outputs = model(inputs)
    return recorder.differentiate(squares(outputs, torch.zeros_like(outputs)), norms=False)


class Noisy(nn.Module):
    """A layer without a formula that draws random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs * self.scale * torch.rand_like(inputs)


def test_a_layer_without_a_formula_must_do_the_same_each_time_and_take_one_tensor() -> None:
    with record(model := nn.Sequential(Noisy())) as recorder:
        losses = model(torch.randn(6, 4)).sum(1)
    with pytest.raises(NotFactored, match="Noisy does not do the same"):
        recorder.verify(losses)
    both = Steps(nn.Bilinear(4, 4, 2), lambda layer, inputs: layer(inputs, inputs))
    with record(both), pytest.raises(NotFactored, match="one tensor to one tensor"):
        both(torch.randn(6, 4))


def test_a_convolution_used_twice_is_left_to_vmap_unless_its_gradients_are_small() -> None:
    def twice(layer: nn.Module, inputs: Tensor) -> Tensor:
        return layer(layer(inputs))

    small, large = (Steps(nn.Conv2d(width, width, 3, padding=1), twice) for width in (2, 32))
    check(small, torch.randn(6, 2, 4, 4), squares, torch.zeros(6, 2, 4, 4))
    with record(large) as recorder:
        outputs = large(torch.randn(6, 32, 2, 2))
    with pytest.raises(NotFactored, match="in another way"):
        recorder.differentiate(outputs.flatten(1).sum(1))


def test_an_output_changed_in_place_is_seen_as_the_layer_gave_it() -> None:
    model = Steps(nn.Linear(4, 4), lambda layer, inputs: F.relu_(layer(inputs)).exp())
    check(model, torch.randn(6, 4), squares, torch.zeros(6, 4))


@pytest.mark.parametrize("prepend", [False, True])
def test_hooks_of_ones_own_may_change_what_a_layer_gets_and_gives(prepend: bool) -> None:
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))
    model[0].register_forward_pre_hook(lambda _, args: (args[0] * 2,), prepend=prepend)
    model[0].register_forward_hook(lambda _, args, output: output * 3 + args[0].sum(1, keepdim=True), prepend=prepend)
    model[2].register_forward_hook(lambda *seen: seen[2].mul_(2), prepend=prepend)
    check(model, torch.randn(6, 4), cross_entropy, torch.arange(6) % 3)


def test_hooks_are_gone_after_the_block() -> None:
    model = nn.Linear(3, 2)
    with pytest.raises(RuntimeError), record(model):
        model(torch.randn(4, 5))
    assert not model._forward_hooks
