"""Gradients of single examples through stock vision transformers, whose class token and positions are in no layer."""

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from reference import per_example
from torch import Tensor, nn

from thresher import signals, weigh
from thresher.engine.gradients.factored import record
from thresher.engine.gradients.layers import NotFactored
from thresher.rules import KeepSmallest, MetaGradient

PATCHES = 4  # of an image, so that with its class token each example has 5 positions
WEIGHTS = [0.0, 2.0, 0.5, 1.0, 3.0]


def of_torchvision(dropout: float = 0.0) -> nn.Module:
    models = pytest.importorskip("torchvision.models")
    sizes = {"image_size": 8, "patch_size": 4, "hidden_dim": 12, "num_layers": 2, "num_heads": 2, "mlp_dim": 16}
    model: nn.Module = models.VisionTransformer(**sizes, num_classes=3, dropout=dropout, attention_dropout=dropout)
    return model


def of_timm(**more: Any) -> nn.Module:
    timm = pytest.importorskip("timm")
    sizes = {"img_size": 8, "patch_size": 4, "embed_dim": 12, "depth": 2, "num_heads": 2, "num_classes": 3}
    model: nn.Module = timm.create_model("vit_tiny_patch16_224", **sizes, **more)
    return model


class OfHuggingFace(nn.Module):
    """transformers' ViTForImageClassification, of whose answer the logits are given."""

    def __init__(self, dropout: float = 0.0):
        super().__init__()
        transformers = pytest.importorskip("transformers")
        sizes = {"hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
        config = transformers.ViTConfig(**sizes, image_size=8, patch_size=4, num_labels=3, hidden_dropout_prob=dropout)
        self.model = transformers.ViTForImageClassification(config)

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.model(images).logits
        return logits


def of_convolutions() -> nn.Module:
    """torchvision's ConvNeXt, whose blocks scale what they add by a parameter of their own."""
    convnext = pytest.importorskip("torchvision.models.convnext")
    setting = [convnext.CNBlockConfig(8, 12, 1), convnext.CNBlockConfig(12, None, 1)]
    model: nn.Module = convnext.ConvNeXt(setting, num_classes=3, layer_scale=0.5)
    return model


MAKERS: dict[str, Callable[[], nn.Module]] = {
    "torchvision": of_torchvision,
    "torchvision with dropout": partial(of_torchvision, 0.2),
    "timm": of_timm,
    "timm with scales, registers, and positions of patches only": partial(
        of_timm, init_values=0.1, reg_tokens=2, no_embed_class=True
    ),
    "timm with mean pooling": partial(of_timm, global_pool="avg", class_token=False),
    "transformers": OfHuggingFace,
    "transformers with dropout": partial(OfHuggingFace, 0.2),
    "ConvNeXt": of_convolutions,
}


def tiny(name: str) -> nn.Module:
    """One of these models with no parameter at zero, because a zero hides what follows it."""
    torch.manual_seed(0)
    model = MAKERS[name]()
    for parameter in model.parameters():
        with torch.no_grad():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def images(n: int, size: int = 8) -> tuple[Tensor, Tensor]:
    return torch.randn(n, 3, size, size), torch.arange(n) % 3


def losses_of(outputs: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(outputs, targets, reduction="none")


def check(model: nn.Module, inputs: Tensor, targets: Tensor, rtol: float) -> None:
    """Norms, agreements and weighted gradients against one backward pass for each image."""
    own = [parameter for parameter in model.parameters() if parameter.requires_grad]
    with record(model) as recorder:
        losses = losses_of(model(inputs), targets)
    recorder.verify(losses)
    factors = recorder.differentiate(losses, retain_graph=True)
    rows = torch.stack([torch.cat([g.flatten() for g in row]) for row in per_example.gradients(losses, own)])
    torch.testing.assert_close(factors.norms(), rows.norm(dim=1), rtol=rtol, atol=0)
    direction = {parameter: torch.randn_like(parameter) for parameter in own}
    along, limit = rows @ torch.cat([value.flatten() for value in direction.values()]), rtol * float(rows.norm())
    torch.testing.assert_close(factors.along(direction), along, rtol=rtol, atol=limit)
    weights = torch.tensor(WEIGHTS, dtype=rows.dtype)[: len(inputs)]
    factors.accumulate(weights)
    found = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in own])
    torch.testing.assert_close(found, weights @ rows, rtol=rtol, atol=limit)


@pytest.mark.parametrize("n", [1, 3, PATCHES + 1])  # the last: as many examples as positions
@pytest.mark.parametrize("name", MAKERS)
def test_norms_agreements_and_weighted_gradients_are_exact(name: str, n: int) -> None:
    inputs, targets = images(n, 16 if name == "ConvNeXt" else 8)
    check(tiny(name).double(), inputs.double(), targets, rtol=1e-9)


class Lowered(nn.Module):
    """A model under autocast to bfloat16."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            outputs: Tensor = self.model(images)
        return outputs.float()


@pytest.mark.parametrize("name", MAKERS)
def test_under_autocast_to_bfloat16(name: str) -> None:
    check(Lowered(tiny(name)), *images(4, 16 if name == "ConvNeXt" else 8), rtol=0.02)  # of numbers with eight bits


@pytest.mark.parametrize("name", ["torchvision", "timm", "transformers"])
def test_where_only_the_class_token_is_tuned(name: str) -> None:
    model = tiny(name).double()
    for key, parameter in model.named_parameters():
        parameter.requires_grad_("cls_token" in key or "class_token" in key or "head" in key)
    inputs, targets = images(4)
    check(model, inputs.double(), targets, rtol=1e-9)


def refused(*_: Any) -> None:
    raise AssertionError("not by the factored way")


@pytest.mark.parametrize("name", ["torchvision with dropout", "timm", "transformers with dropout"])
def test_weigh_takes_them_by_one_chain(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("thresher.engine.start.gradient_trial.Unfactored", refused)
    model, (inputs, targets) = tiny(name).eval(), images(5)
    own = list(model.parameters())
    rows = [
        torch.cat([g.flatten() for g in row]) for row in per_example.gradients(losses_of(model(inputs), targets), own)
    ]
    norms = torch.stack(rows).norm(dim=1)
    kept = weigh(KeepSmallest(by=signals.gradient_norm, count=2), model, inputs, targets)
    assert kept.nonzero()[:, 0].tolist() == norms.argsort()[:2].sort().values.tolist()
    found = weigh(MetaGradient(), model, inputs, targets, clean=(inputs[2:], targets[2:]))
    expected = (torch.stack(rows) @ torch.stack(rows[2:]).mean(0)).clamp_min(0)
    torch.testing.assert_close(found, expected / expected.sum(), rtol=1e-4, atol=1e-6)


class Beside(nn.Module):
    """A model that uses a parameter beside its layers in the given way."""

    def __init__(self, shape: tuple[int, ...], use: Callable[[Tensor, Tensor], Tensor]):
        super().__init__()
        self.token, self.layer, self.use = nn.Parameter(torch.randn(shape)), nn.Linear(4, 3), use

    def forward(self, inputs: Tensor) -> Tensor:
        hidden: Tensor = self.layer(self.use(inputs.clone(), self.token))
        return hidden.flatten(1)[:, :3]


EXACT = {
    "one number": SimpleNamespace(shape=(), use=lambda inputs, token: inputs * token),
    "before the inputs": SimpleNamespace(shape=(4,), use=lambda inputs, token: token + inputs),
    "a column": SimpleNamespace(shape=(1, 2, 1), use=lambda inputs, token: inputs * token),
    "in place": SimpleNamespace(shape=(2, 4), use=lambda inputs, token: inputs.add_(token)),
    "repeated": SimpleNamespace(
        shape=(1, 1, 4), use=lambda inputs, token: torch.cat([token.repeat(len(inputs), 1, 1), inputs], 1)
    ),
    "twice": SimpleNamespace(shape=(4,), use=lambda inputs, token: torch.mul(inputs, token) + token),
}
REFUSED = {
    "a part": SimpleNamespace(shape=(3, 4), use=lambda inputs, token: inputs + token[:2]),
    "a power": SimpleNamespace(shape=(4,), use=lambda inputs, token: inputs + token * token),
    "another factor": SimpleNamespace(shape=(4,), use=lambda inputs, token: torch.add(inputs, token, alpha=2)),
    "repeated wider": SimpleNamespace(shape=(1, 1, 2), use=lambda inputs, token: inputs + token.repeat(5, 1, 2)),
    "a row for each example": SimpleNamespace(shape=(5, 1, 4), use=lambda inputs, token: inputs + token),
    "also otherwise": SimpleNamespace(shape=(4,), use=lambda inputs, token: inputs + token + token.exp()),
}


@pytest.mark.parametrize("case", EXACT.values(), ids=EXACT.keys())
def test_parameters_that_are_expanded_added_or_multiplied(case: Any) -> None:
    torch.manual_seed(0)
    model, (_, targets) = Beside(case.shape, case.use).double(), images(5)
    check(model, torch.randn(5, 2, 4).double(), targets, rtol=1e-9)


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED.keys())
def test_other_uses_are_named_and_taken_by_vmap(case: Any) -> None:
    torch.manual_seed(0)
    model, inputs, (_, targets) = Beside(case.shape, case.use), torch.randn(5, 2, 4), images(5)
    with record(model) as recorder:
        losses = losses_of(model(inputs), targets)
    with pytest.raises(NotFactored, match="does not only expand token over the examples"):
        recorder.verify(losses)


def test_the_slow_way_stays_exact_for_them() -> None:
    torch.manual_seed(0)
    model, inputs, (_, targets) = Beside((3, 4), REFUSED["a part"].use), torch.randn(5, 2, 4), images(5)
    norms = per_example.norms(losses_of(model(inputs), targets), list(model.parameters()))
    kept = weigh(KeepSmallest(by=signals.gradient_norm, count=2), model, inputs, targets)
    assert kept.nonzero()[:, 0].tolist() == norms.argsort()[:2].sort().values.tolist()
