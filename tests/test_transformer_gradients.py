"""Factored gradients of stock transformers against one backward pass for each text."""

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from reference import per_example
from tiny_transformers import LENGTH, MAKERS, OTHERS, WORDS, Tiny, of_classes, of_next_tokens, texts, tiny
from torch import Tensor, nn

from thresher import Evidence, signals, weigh
from thresher.core.objective import Objective
from thresher.engine.gradients.factored import Factors, record
from thresher.engine.gradients.layers import NotFactored
from thresher.engine.gradients.strategy import Factored, Unfactored
from thresher.engine.start.gradient_trial import choose_strategy
from thresher.engine.step.forward import Batch, forward_pass
from thresher.engine.step.learner import Taps
from thresher.rules import KeepSmallest, MetaGradient

WEIGHTS = [0.0, 2.0, 0.5, 1.0]


def factored(given: Tiny) -> tuple[Factors, Tensor]:
    with record(given.model) as recorder:
        logits = given.model(**given.inputs).logits
    losses = given.losses_of(logits)
    recorder.verify(losses)
    return recorder.differentiate(losses, retain_graph=True), losses


def trained(model: nn.Module) -> list[nn.Parameter]:
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def check(given: Tiny, rtol: float) -> None:
    """Norms, agreements and the weighted gradient, each to `rtol` of its largest value."""
    own = trained(given.model)
    factors, losses = factored(given)
    direction = {parameter: torch.randn_like(parameter) for parameter in own}
    rows = per_example.gradients(losses, own)
    along = torch.stack([
        torch.stack([(g * d).sum().to(losses.dtype) for g, d in zip(row, direction.values(), strict=True)]).sum()
        for row in rows
    ])  # fmt: skip
    norms, weights = per_example.norms(losses, own).to(losses.dtype), torch.tensor(WEIGHTS, dtype=losses.dtype)
    torch.testing.assert_close(factors.norms(), norms, rtol=rtol, atol=0)
    scale = max(norms) * torch.cat([d.flatten() for d in direction.values()]).norm() / len(own) ** 0.5
    torch.testing.assert_close(factors.along(direction), along, rtol=rtol, atol=rtol * float(scale))
    factors.accumulate(weights)
    for parameter, gradient in zip(own, per_example.weighted(losses, weights, own), strict=True):
        found = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        assert float((found - gradient).norm()) <= rtol * max(float(gradient.norm()), 1e-6)


@pytest.mark.parametrize("name", MAKERS | OTHERS)
def test_norms_agreements_and_weighted_gradients_are_exact(name: str) -> None:
    given = tiny(name)
    given.model.double()
    check(given, rtol=1e-6 if name == "gemma" else 1e-9)  # Gemma's norms compute in float32


@pytest.mark.parametrize("name", MAKERS)
def test_in_float32(name: str) -> None:
    check(tiny(name), rtol=2e-5)


@pytest.mark.parametrize("name", MAKERS)
def test_under_autocast_to_bfloat16(name: str) -> None:
    with torch.autocast("cpu", torch.bfloat16):
        check(tiny(name), rtol=0.02)  # of numbers with eight bits


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "llama lora"])
def test_of_a_model_in_bfloat16(name: str) -> None:
    given = tiny(name)
    given.model.bfloat16()
    own, (factors, losses) = trained(given.model), factored(given)
    rows = per_example.gradients(losses, own)
    norms = torch.stack([torch.cat([g.flatten().float() for g in row]).norm() for row in rows])
    torch.testing.assert_close(factors.norms(), norms, rtol=0.02, atol=0)


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "gpt2 lora"])
def test_with_activation_checkpointing(name: str) -> None:
    plain, given = tiny(name), tiny(name)
    given.model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    found = []
    for each in (plain, given):
        each.model.double()
        torch.manual_seed(1)  # the same dropout
        found.append(factored(each)[0].norms())
    torch.testing.assert_close(*found, rtol=1e-9, atol=0)
    check(given, rtol=1e-9)


def test_checkpointing_that_hides_the_layers_is_refused() -> None:
    given = tiny("gpt2")
    given.model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": True})
    with pytest.raises(NotFactored, match="use_reentrant=False"):
        factored(given)


def test_gradients_accumulate_over_parts_of_a_batch() -> None:
    whole = tiny("gpt2")
    whole.model.eval()
    factored(whole)[0].accumulate(torch.tensor(WEIGHTS))
    expected = [parameter.grad.clone() for parameter in whole.model.parameters()]  # type: ignore[union-attr]
    whole.model.zero_grad()
    for rows in (slice(0, 2), slice(2, 4)):
        inputs = {name: value[rows] for name, value in whole.inputs.items()}
        part = Tiny(whole.model, inputs, of_next_tokens(inputs))
        factored(part)[0].accumulate(torch.tensor(WEIGHTS[rows]))
    for parameter, gradient in zip(whole.model.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, rtol=1e-4, atol=1e-6)


def refused(*_: Any) -> None:
    raise AssertionError("not by the factored way")


class Torchs(nn.Module):
    """A transformer of torch's own layers: attention to itself, with masks, then across, with the weights wanted."""

    def __init__(self, dropout: float = 0.3, bias: bool = True):
        super().__init__()
        self.words = nn.Embedding(WORDS, 8, padding_idx=0)
        self.block = nn.TransformerEncoderLayer(8, 2, 12, dropout, batch_first=True, bias=bias)
        self.across = nn.MultiheadAttention(8, 2, dropout, bias=bias)
        self.head = nn.Linear(8, 2)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        seen, later = self.words(input_ids), torch.ones(LENGTH, LENGTH).triu(1).bool()
        padding = attention_mask == 0
        seen = self.block(seen, src_mask=later, src_key_padding_mask=padding).transpose(0, 1)
        found, weights = self.across(seen[:2], seen, seen.flip(0), key_padding_mask=padding)
        self.weights = weights
        answer: Tensor = self.head(found.mean(0))
        return answer


@pytest.mark.parametrize("bias", [True, False])
def test_attention_of_torch_itself(bias: bool) -> None:
    """Its outputs as without notes, dropout and all; norms, agreements and weighted gradients exact."""
    torch.manual_seed(0)
    model, inputs = Torchs(bias=bias).double(), texts()
    found = []
    for notes in (nullcontext(), record(model)):
        torch.manual_seed(1)
        with notes:
            found.append((model(**inputs), model.weights))
    torch.testing.assert_close(*found, rtol=1e-9, atol=1e-12)
    given = Tiny(Wrapped(model), inputs, of_classes)
    check(given, rtol=1e-9)


class Wrapped(nn.Module):
    """A model whose answer has .logits."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, **inputs: Tensor) -> Any:
        return SimpleNamespace(logits=self.model(**inputs))


@pytest.mark.parametrize("rule", [KeepSmallest(by=signals.gradient_norm, count=2), MetaGradient()])
def test_attention_of_torch_goes_by_one_chain(rule: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("thresher.engine.start.gradient_trial.Unfactored", refused)
    inputs, targets = texts(), torch.arange(4) % 2
    weights = weigh(rule, Torchs(), inputs, targets, clean=(inputs, targets))
    assert weights.shape == (4,)


class Packed(nn.Module):
    """A model that takes ids and mask as one tensor [n, 2T]."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, both: Tensor) -> Tensor:
        ids, mask = both.chunk(2, 1)
        logits: Tensor = self.model(input_ids=ids, attention_mask=mask).logits
        return logits


def packed(inputs: dict[str, Tensor]) -> Tensor:
    return torch.cat([inputs["input_ids"], inputs["attention_mask"]], 1)


@pytest.mark.parametrize("name", ["bert", "distilbert"])
def test_weigh_takes_them_by_one_chain(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("thresher.engine.start.gradient_trial.Unfactored", refused)
    given, targets = tiny(name), torch.arange(4) % 2
    model = Packed(given.model.eval())
    losses = given.losses()
    rows = per_example.gradients(losses, trained(model))
    norms = torch.stack([torch.cat([g.flatten() for g in row]).norm() for row in rows])
    kept = weigh(KeepSmallest(by=signals.gradient_norm, count=2), model, packed(given.inputs), targets)
    assert kept.nonzero()[:, 0].tolist() == norms.argsort()[:2].sort().values.tolist()
    clean = (packed(given.inputs)[2:], targets[2:])
    found = weigh(MetaGradient(), model, packed(given.inputs), targets, clean=clean)
    mean = [sum(row[place] for row in rows[2:]) / 2 for place in range(len(rows[0]))]
    agreement = torch.stack(
        [torch.stack([(g * m).sum() for g, m in zip(row, mean, strict=True)]).sum() for row in rows]
    )
    expected = agreement.clamp_min(0) / agreement.clamp_min(0).sum()
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)


class Padded(Objective):
    """The mean loss over each text's own tokens; targets [n, T] with -100 where there is none."""

    def forward(self, evidence: Evidence) -> Tensor:
        logits, labels = evidence.outputs[:, :-1].mT, evidence.targets[:, 1:]
        tokens = F.cross_entropy(logits, labels, reduction="none", ignore_index=-100)
        return tokens.sum(1) / (labels != -100).sum(1)


def batch_of(inputs: dict[str, Tensor], rows: slice) -> Batch:
    labels = inputs["input_ids"].masked_fill(inputs["attention_mask"] == 0, -100)[rows]
    ids = torch.arange(len(labels))
    return Batch(ids, ids, packed(inputs)[rows], labels, {})


@pytest.mark.parametrize("name", ["gpt2", "llama tied", "gpt2 lora", "llama lora"])
@pytest.mark.parametrize("slow", [True, False], ids=["forward mode", "two backwards"])
def test_agreements_of_a_language_model_equal_those_of_the_slow_ways(name: str, slow: bool) -> None:
    given = tiny(name)
    model, objective = Packed(given.model.eval()), Padded()
    batch, clean = batch_of(given.inputs, slice(0, 4)), batch_of(texts(3), slice(0, 3))
    chosen = choose_strategy(model, objective, [signals.clean_agreement], batch, clean, None)
    assert isinstance(chosen, Factored)
    found = {}
    for strategy in (chosen, Unfactored((), chosen.agreements, slow)):
        seen = forward_pass(
            model, objective, Taps(model), batch, wanted=chosen.agreements, strategy=strategy, clean=clean, classes=None
        )
        found[type(strategy)] = seen.evidence.known[signals.clean_agreement]
    torch.testing.assert_close(found[Factored], found[Unfactored], rtol=1e-4, atol=1e-6)
