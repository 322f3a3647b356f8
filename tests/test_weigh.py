"""weigh() in a loop of one's own: the right weights, no trace left behind, and clear words for what is missing."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from reference import per_example
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.parametrizations import spectral_norm

from thresher import signals, weigh
from thresher.core.errors import ThresherError
from thresher.core.evidence import Evidence
from thresher.core.schedules import cosine, ramp
from thresher.objectives import DeterminantLoss, NearUniform, Objective
from thresher.rules import (
    ClipNorm,
    KeepLargest,
    KeepSmallest,
    MetaGradient,
    RandomWeights,
    Uniform,
    every,
    from_peer,
    per_class,
    product,
    warmup,
)

N, CLASSES = 12, 3


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


INPUTS, LABELS, REAL = drawn(N, 5), torch.arange(N) * 5 % CLASSES, drawn(N, CLASSES, seed=1)
SOFT = REAL.softmax(1)


def network(*middle: nn.Module, seed: int = 0, outputs: int = CLASSES) -> nn.Sequential:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(5, 8), nn.ReLU(), *middle, nn.Linear(8, outputs))


def by_loss(fraction: Any = 0.5) -> KeepSmallest:
    return KeepSmallest(by=signals.loss, fraction=fraction)


def smallest(values: Tensor, count: int) -> Tensor:
    weights = torch.zeros(len(values))
    numbers = values.tolist()
    weights[sorted(range(len(numbers)), key=numbers.__getitem__)[:count]] = 1
    return weights


class Forbidden(nn.Module):
    """A model that must not be asked."""

    def forward(self, inputs: Tensor) -> Tensor:
        raise AssertionError(f"a forward pass was made over {list(inputs.shape)}")


class Counted(nn.Module):
    """A model that counts its calls in a buffer."""

    def __init__(self, *middle: nn.Module) -> None:
        super().__init__()
        self.body = network(*middle)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, inputs: Tensor) -> Tensor:
        self.calls += 1
        return self.body(inputs)


def test_weights_are_the_rules_own_for_class_ids_soft_labels_and_real_targets() -> None:
    model = network()
    outputs = model(INPUTS).detach()
    for targets, classes, losses in (
        (LABELS, None, functional.cross_entropy(outputs, LABELS, reduction="none")),
        (SOFT, CLASSES, functional.cross_entropy(outputs, SOFT, reduction="none")),
        (REAL, None, (outputs - REAL).square().sum(1)),
    ):
        weights = weigh(by_loss(0.25), model, INPUTS, targets, classes=classes)
        assert torch.equal(weights, smallest(losses, 3))
        assert not weights.requires_grad


def test_one_real_target_may_be_given_flat() -> None:
    model = network(outputs=1)
    errors = (model(INPUTS)[:, 0] - REAL[:, 0]).abs()
    for targets in (REAL[:, 0], REAL[:, :1]):
        assert torch.equal(weigh(by_loss(), model, INPUTS, targets), smallest(errors, 6))


def test_an_objective_of_ones_own_is_the_one_that_is_ranked() -> None:
    def own(outputs: Tensor, targets: Tensor) -> Tensor:
        return -functional.cross_entropy(outputs, targets, reduction="none")

    model = network()
    plain, turned = weigh(by_loss(), model, INPUTS, LABELS), weigh(by_loss(), model, INPUTS, LABELS, objective=own)
    assert torch.equal(turned, 1 - plain)


RULES: dict[str, Any] = {
    "loss": by_loss(),
    "output gradients": KeepSmallest(by=signals.output_gradient_norm, fraction=0.5),
    "confidence": KeepLargest(by=signals.confidence, count=4),
    "per class": per_class(by_loss()),
    "uniform": Uniform(),
    "function": lambda evidence: evidence.losses.detach() + 1,
}
NORMED = {"norms": KeepSmallest(by=signals.gradient_norm, fraction=0.5), "clip": ClipNorm(0.5)}


def traces(model: nn.Module) -> tuple[dict[str, Tensor], list[bool], list[Any], Tensor]:
    hooks = [(len(m._forward_hooks), len(m._forward_pre_hooks)) for m in model.modules()]
    state = {name: value.clone() for name, value in model.state_dict().items()}
    return state, [m.training for m in model.modules()], hooks, torch.get_rng_state()


def assert_untouched(model: nn.Module, before: Any) -> None:
    state, modes, hooks, rng = traces(model)
    assert all(torch.equal(state[name], value) for name, value in before[0].items())
    assert modes == before[1]
    assert hooks == before[2]
    assert torch.equal(rng, before[3])
    assert all(parameter.grad is None for parameter in model.parameters())


MODELS = {
    "batch norm": (lambda: network(nn.BatchNorm1d(8)), RULES),
    "dropout": (lambda: network(nn.Dropout(0.5)), RULES | NORMED),
    "frozen batch norm": (lambda: network(nn.BatchNorm1d(8).eval(), nn.Dropout(0.3)), RULES | NORMED),
    "plain": (network, RULES | NORMED),
    "counting": (Counted, RULES | NORMED),
    "counting, no formulas": (lambda: Counted(nn.PReLU()), RULES | NORMED),
    "spectral norm": (lambda: network(spectral_norm(nn.Linear(8, 8))), RULES | NORMED),
}


@pytest.mark.parametrize(
    ("make", "rule"),
    [pytest.param(m, r, id=f"{a}-{b}") for a, (m, rules) in MODELS.items() for b, r in rules.items()],
)
def test_no_trace_is_left_on_the_model_or_on_global_random_numbers(make: Callable[[], nn.Module], rule: Any) -> None:
    model, peer = make(), make()
    before, peers_before = traces(model), traces(peer)
    weights = weigh(rule, model, INPUTS, LABELS, peer=peer, average=peer)
    assert weights.shape == (N,)
    assert_untouched(model, before)
    assert_untouched(peer, peers_before)


def test_features_leave_no_trace_and_are_what_the_last_linear_layer_reads() -> None:
    model = network(nn.BatchNorm1d(8))
    expected = copy.deepcopy(model)[:-1](INPUTS).detach()
    before, seen = traces(model), []
    rule = ReadsFeatures(seen)
    weigh(rule, model, INPUTS, LABELS)
    assert_untouched(model, before)
    torch.testing.assert_close(seen[0], expected)


class ReadsFeatures(KeepSmallest):
    """Declares the features, and shows what it reads of them."""

    def __init__(self, seen: list[Tensor]):
        super().__init__(by=signals.features, count=3)
        object.__setattr__(self, "seen", seen)

    def __call__(self, evidence: Evidence) -> Tensor:
        self.seen.append(evidence.read(signals.features))  # type: ignore[attr-defined]
        return torch.ones(len(evidence))


def test_an_error_inside_a_rule_leaves_no_trace_either() -> None:
    def broken(evidence: Evidence) -> Tensor:
        raise KeyError(len(evidence))

    model = network(nn.BatchNorm1d(8), nn.Dropout(0.5))
    before = traces(model)
    with pytest.raises(KeyError):
        weigh(broken, model, INPUTS, LABELS)
    with pytest.raises(ThresherError):
        weigh(NORMED["norms"], model, INPUTS, LABELS)
    assert_untouched(model, before)


@pytest.mark.parametrize("name", ["loss", "output gradients", "per class", "uniform", "function"])
def test_with_outputs_given_no_forward_pass_is_made(name: str) -> None:
    model = network()
    outputs = model(INPUTS)
    for targets, classes in ((LABELS, None), (SOFT, CLASSES)):
        expected = weigh(RULES[name], model, INPUTS, targets, classes=classes)
        found = weigh(RULES[name], Forbidden(), INPUTS, targets, classes=classes, outputs=outputs)
        torch.testing.assert_close(found, expected)
    outputs.sum().backward()  # the graph of the user's own pass is still there


def test_gradient_norms_are_exact_and_of_the_model_in_its_mode() -> None:
    model = network(nn.Dropout(0.5))
    for mode in (False, True):
        model.train(mode)
        torch.manual_seed(4)
        weights = weigh(ClipNorm(0.3), model, INPUTS, LABELS)
        if not mode:
            losses = functional.cross_entropy(model(INPUTS), LABELS, reduction="none")
            norms = per_example.norms(losses, list(model.parameters()))
            torch.testing.assert_close(weights, (0.3 / norms).clamp_max(1.0), rtol=1e-5, atol=1e-6)
            exact = weights
    assert not torch.equal(weights, exact)


def test_gradient_norms_of_layers_without_formulas_and_of_real_targets_are_exact_too() -> None:
    for model, targets in ((network(nn.PReLU()), LABELS), (network(), REAL)):
        outputs = model(INPUTS)
        losses = (
            functional.cross_entropy(outputs, targets, reduction="none")
            if targets is LABELS
            else (outputs - targets).square().sum(1) / 2
        )
        norms = per_example.norms(losses, list(model.parameters()))
        weights = weigh(ClipNorm(0.7), model, INPUTS, targets)
        torch.testing.assert_close(weights, (0.7 / norms).clamp_max(1.0), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("objective", [NearUniform(5.0), DeterminantLoss()], ids=["near uniform", "determinant"])
@pytest.mark.parametrize("middle", [nn.Identity, nn.PReLU])
def test_gradient_norms_are_exact_where_the_objective_looks_at_the_batch(
    objective: Objective, middle: Callable[[], nn.Module]
) -> None:
    model = network(middle())
    losses = objective(Evidence(torch.arange(N), LABELS, objective, model(INPUTS), CLASSES))
    norms = per_example.norms(losses, list(model.parameters()))
    weights = weigh(ClipNorm(0.01), model, INPUTS, LABELS, objective=objective)
    torch.testing.assert_close(weights, (0.01 / norms).clamp_max(1.0), rtol=1e-4, atol=1e-6)


def test_gradient_norms_and_output_gradients_go_together() -> None:
    model = network()
    norm, output = KeepSmallest(by=signals.gradient_norm, fraction=0.6), RULES["output gradients"]
    both = weigh(product(norm, output), model, INPUTS, LABELS)
    assert torch.equal(both, weigh(norm, model, INPUTS, LABELS) * weigh(output, model, INPUTS, LABELS))


@pytest.mark.parametrize("guard", [torch.no_grad, torch.enable_grad])
def test_gradients_are_found_whether_or_not_the_caller_records_them(guard: Any) -> None:
    model = network()
    for rule in (NORMED["norms"], RULES["output gradients"]):
        expected = weigh(rule, model, INPUTS, LABELS)
        with guard():
            assert torch.equal(weigh(rule, model, INPUTS, LABELS), expected)


def test_from_peer_weighs_by_the_peers_view_of_the_batch() -> None:
    model, peer = network(), network(seed=1)
    for rule in (by_loss(), NORMED["norms"], per_class(by_loss(), of=signals.given)):
        expected = weigh(rule, peer, INPUTS, LABELS)
        assert torch.equal(weigh(from_peer(rule), model, INPUTS, LABELS, peer=peer), expected)
        outputs = model(INPUTS)
        assert torch.equal(weigh(from_peer(rule), model, INPUTS, LABELS, peer=peer, outputs=outputs), expected)
        assert not torch.equal(expected, weigh(rule, model, INPUTS, LABELS))


def test_schedules_and_warmup_follow_the_epoch() -> None:
    model = network()
    rule = warmup(2, by_loss(ramp(1.0, 0.5, epochs=6)))
    kept = [float(weigh(rule, model, INPUTS, LABELS, epoch=epoch).sum()) for epoch in (0, 1, 2, 4, 6, 50)]
    assert kept == [12, 12, 10, 8, 6, 6]
    halfway = weigh(by_loss(cosine(1.0, 0.5)), model, INPUTS, LABELS, epoch=5, epochs=10)
    assert halfway.sum() == 9


def test_a_random_rule_draws_from_the_generator_given() -> None:
    def chance(evidence: Evidence) -> Tensor:
        return torch.rand(len(evidence), generator=evidence.generator)

    model, generator = network(), torch.Generator().manual_seed(3)
    first, second = (weigh(chance, model, INPUTS, LABELS, generator=generator) for _ in range(2))
    assert torch.equal(first, torch.rand(N, generator=torch.Generator().manual_seed(3)))
    assert not torch.equal(first, second)


def test_bytes_reach_the_model_as_floats() -> None:
    pixels = (INPUTS * 40 + 128).clamp(0, 255).to(torch.uint8)
    model = network()
    expected = weigh(by_loss(), model, pixels.float() / 255, LABELS)
    assert torch.equal(weigh(by_loss(), model, pixels, LABELS), expected)


class OfLayer(Objective):
    """Losses that look at a layer of the model."""

    layers = ("0",)

    def forward(self, evidence: Evidence) -> Tensor:
        return evidence.layer("0").square().sum(1)


@pytest.mark.parametrize("targets", [LABELS, REAL], ids=["classes", "real"])
def test_an_objective_may_look_at_a_layer_even_with_outputs_given(targets: Tensor) -> None:
    model = network()
    expected = smallest(model[0](INPUTS).square().sum(1), 6)
    for outputs in (None, model(INPUTS)):
        found = weigh(by_loss(), model, INPUTS, targets, objective=OfLayer(), outputs=outputs)
        assert torch.equal(found, expected)


def test_a_clean_batch_that_no_rule_reads_changes_nothing() -> None:
    model = network()
    plain = weigh(by_loss(), model, INPUTS, LABELS)
    assert torch.equal(weigh(by_loss(), model, INPUTS, LABELS, clean=[INPUTS[:3], LABELS[:3]]), plain)


def test_one_example_is_a_batch() -> None:
    for rule in (*RULES.values(), *NORMED.values()):
        assert weigh(rule, network(), INPUTS[:1], LABELS[:1]).shape == (1,)


REFUSALS: dict[str, tuple[Callable[[], Any], str]] = {
    "peer": (lambda: weigh(from_peer(by_loss()), network(), INPUTS, LABELS), "peer="),
    "clean examples without targets": (
        lambda: weigh(MetaGradient(), network(), INPUTS, LABELS, clean=INPUTS),  # type: ignore[arg-type]
        "give the pair",
    ),
    "a generator": (lambda: weigh(RandomWeights(), network(), INPUTS, LABELS), "pass generator="),
    "a generator for a function": (
        lambda: weigh(lambda e: torch.rand(len(e)), network(), INPUTS, LABELS),
        "generator=",
    ),
    "clock": (lambda: weigh(every(2, by_loss()), network(), INPUTS, LABELS), "every batch"),
    "confidence of real targets": (
        lambda: weigh(KeepSmallest(by=signals.confidence, count=1), network(), INPUTS, REAL),
        "confidence",
    ),
    "classes of real targets": (lambda: weigh(per_class(by_loss()), network(), INPUTS, REAL), "predicted"),
    "label too large": (lambda: weigh(by_loss(), network(), INPUTS, LABELS + 1), "labels from 1 to 3"),
    "fewer targets": (lambda: weigh(by_loss(), network(), INPUTS, LABELS[:3]), "3 targets"),
    "outputs of another batch": (
        lambda: weigh(by_loss(), network(), INPUTS, LABELS, outputs=torch.zeros(2, CLASSES)),
        "\\[12, 3\\]",
    ),
    "soft labels of another width": (lambda: weigh(by_loss(), network(), INPUTS, SOFT, classes=5), "width 3"),
    "outputs of another width": (lambda: weigh(by_loss(), network(outputs=4), INPUTS, SOFT, classes=3), "\\[12, 3\\]"),
    "NaN": (lambda: weigh(by_loss(), network(), INPUTS / 0 * 0, LABELS), "NaN"),
    "reduced loss": (
        lambda: weigh(by_loss(), network(), INPUTS, LABELS, objective=nn.CrossEntropyLoss()),
        "reduction",
    ),
    "batch norm": (lambda: weigh(NORMED["norms"], network(nn.BatchNorm1d(8)), INPUTS, LABELS), "freeze_batch_norm"),
    "no linear end": (
        lambda: weigh(
            KeepSmallest(by=signals.features, count=1), nn.Sequential(nn.Linear(5, 3), nn.Tanh()), INPUTS, LABELS
        ),
        "nn.Linear",
    ),
    "wide signal": (
        lambda: weigh(KeepSmallest(by=signals.output_gradient, count=1), network(), INPUTS, LABELS),
        "one number each",
    ),
    "undeclared norm": (lambda: weigh(lambda e: e.read(signals.gradient_norm), network(), INPUTS, LABELS), "declare"),
}


@pytest.mark.parametrize(("call", "says"), REFUSALS.values(), ids=REFUSALS.keys())
def test_what_is_missing_or_does_not_fit_is_said_plainly(call: Callable[[], Any], says: str) -> None:
    with pytest.raises(ThresherError, match=says):
        call()
