"""Outputs that are not one row of classes: tokens, pixels, several labels, a single logit, objects with logits."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score, roc_auc_score
from strict import strictly
from tiny import assert_same_run, examples, hand_step, net, tensors, trusted
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy
from torch.utils._python_dispatch import TorchDispatchMode

from thresher import Examples, Recipe, Run, acquire, audit, fit, open_run, signals, weigh
from thresher.core import chunks
from thresher.core.errors import ThresherError
from thresher.core.evidence import Evidence
from thresher.corruption import corrupt
from thresher.engine.loop.scores import mean_average_precision
from thresher.methods import method
from thresher.objectives import BinaryCrossEntropy, PositionCrossEntropy
from thresher.rules import KeepSmallest, MetaGradient
from thresher.slots import Mixup

VOCABULARY, LENGTH = 7, 6


class Words(nn.Module):
    """Outputs [n, T, classes]: the next token of each."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(VOCABULARY, 12), nn.Linear(12, VOCABULARY)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.embed(ids).relu())


class Pixels(nn.Module):
    """Outputs [n, classes, h, w]."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 3, 1))

    def forward(self, images: Tensor) -> Tensor:
        return self.layers(images)


def drawn(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def texts(count: int = 96, seed: int = 0) -> Examples:
    """Each token is followed by the next number; in a quarter of the texts the targets are random."""
    ids = torch.randint(0, VOCABULARY, (count, LENGTH), generator=drawn(seed))
    targets = (ids + 1) % VOCABULARY
    wrong = torch.arange(count) % 4 == 0
    targets[wrong] = torch.randint(0, VOCABULARY, (int(wrong.sum()), LENGTH), generator=drawn(seed + 1))
    targets[1::3, -2:] = -100
    return Examples(ids, targets, columns={"is_corrupt": wrong}, name="texts")


def images(count: int = 96, seed: int = 0) -> Examples:
    """The class of a pixel is its brightness; in a quarter of the images the classes are random."""
    inputs = torch.rand(count, 1, 5, 4, generator=drawn(seed)) * 3
    targets = inputs[:, 0].long()
    wrong = torch.arange(count) % 4 == 0
    targets[wrong] = torch.randint(0, 3, (int(wrong.sum()), 5, 4), generator=drawn(seed + 1))
    targets[1::3, 0] = -1
    return Examples(inputs, targets, columns={"is_corrupt": wrong}, name="images")


def tags(count: int = 96, seed: int = 0) -> Examples:
    """Three labels, each the sign of an input; in a quarter of the examples they are turned over."""
    inputs = torch.randn(count, 16, generator=drawn(seed))
    targets = (inputs[:, :3] > 0).long()
    wrong = torch.arange(count) % 4 == 0
    targets[wrong] = 1 - targets[wrong]
    return Examples(inputs, targets, columns={"is_corrupt": wrong}, name="tags")


@dataclass(frozen=True)
class Kind:
    make: Callable[..., Examples]
    network: Callable[[], nn.Module]
    task: str
    metric: str


KINDS = {
    "tokens": Kind(texts, Words, "dense", "accuracy"),
    "pixels": Kind(images, Pixels, "dense", "accuracy"),
    "labels": Kind(tags, lambda: nn.Sequential(nn.Linear(16, 24), nn.ReLU(), nn.Linear(24, 3)), "multi-label",
                   "mean_average_precision"),
}  # fmt: skip


def slow_losses(kind: str, outputs: Tensor, targets: Tensor) -> Tensor:
    """Example by example, position by position."""
    found = []
    for own, given in zip(outputs, targets, strict=True):
        if kind == "labels":
            each = [binary_cross_entropy_with_logits(o, t.float()) for o, t in zip(own, given, strict=True)]
        else:
            own = own if kind == "tokens" else own.flatten(1).T
            each = [cross_entropy(o[None], t[None]) for o, t in zip(own, given.flatten(), strict=False) if t >= 0]
        found.append(torch.stack(each).mean())
    return torch.stack(found)


def run(kind: str, what: Any = "prl-l", **changes: Any) -> Run:
    asks = isinstance(what, str) and what != "auto" and "noise_rate" in method(what).needs
    known = {"noise_rate": 0.25} if asks else {}
    settings = {"epochs": 3, "batch": 24, "device": "cpu", "learning_rate": 0.02} | known | changes
    train = settings.pop("train", None) or KINDS[kind].make()
    return fit(what, KINDS[kind].network, train, **settings)


@pytest.mark.parametrize("kind", KINDS)
def test_the_task_is_what_the_targets_look_like(kind: str) -> None:
    assert KINDS[kind].make().task == KINDS[kind].task


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_learns_the_mean_over_an_examples_own_positions(kind: str) -> None:
    """One step of plain training and of keeping the smallest losses, against a loop over every position."""
    torch.manual_seed(0)
    train, network = KINDS[kind].make(8), KINDS[kind].network()
    every, some = (slow_losses(kind, network(train.inputs), train.targets) for _ in range(2))
    smallest = some.argsort()[:4]
    expected = {None: hand_step(network, every.mean()), "loss": hand_step(network, some[smallest].mean())}
    start = {name: value.clone() for name, value in network.state_dict().items()}
    for by, parameters in expected.items():
        network.load_state_dict(start)
        rule = None if by is None else KeepSmallest(by=by, count=4)
        fit(Recipe(each_batch=rule), network, train, steps=1, batch=8, device="cpu", optimizer="sgd", momentum=0.0)
        for ours, theirs in zip(network.parameters(), parameters, strict=True):
            torch.testing.assert_close(ours.detach(), theirs, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("by", ["output_gradient_norm", "gradient_norm"])
@pytest.mark.parametrize("kind", KINDS)
def test_norms_of_gradients_are_those_of_single_examples(kind: str, by: str) -> None:
    torch.manual_seed(0)
    train, network = KINDS[kind].make(12), KINDS[kind].network()
    norms = []
    for place in range(12):
        outputs = network(train.inputs[place, None])
        loss = slow_losses(kind, outputs, train.targets[place, None])[0]
        wanted = [outputs] if by == "output_gradient_norm" else list(network.parameters())
        gradients = torch.autograd.grad(loss, wanted)
        norms.append(torch.cat([gradient.flatten() for gradient in gradients]).norm())
    found = weigh(KeepSmallest(by=by, count=6), network, train.inputs, train.targets)
    assert torch.equal(found > 0, torch.stack(norms).argsort().argsort() < 6)


@pytest.mark.parametrize("kind", KINDS)
def test_agreements_with_clean_examples_are_those_of_single_examples(kind: str) -> None:
    torch.manual_seed(0)
    train, network = KINDS[kind].make(12), KINDS[kind].network()
    places = torch.tensor([1, 2, 3])
    flat = []
    for place in range(12):
        loss = slow_losses(kind, network(train.inputs[place, None]), train.targets[place, None])[0]
        flat.append(torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(network.parameters()))]))
    gradients = torch.stack(flat)
    agreement = (gradients @ gradients[places].mean(0)).clamp_min(0)
    clean = (train.inputs[places], train.targets[places])
    found = weigh(MetaGradient(), network, train.inputs, train.targets, clean=clean)
    torch.testing.assert_close(found / found.sum(), agreement / agreement.sum(), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("what", ["prl-l", "prl-g", "spl", "co-teaching", "l2rw"])
@pytest.mark.parametrize("kind", KINDS)
def test_methods_learn_and_do_not_trust_what_is_wrong(kind: str, what: str) -> None:
    train = KINDS[kind].make()
    clean = trusted(train, 12) if what == "l2rw" else None
    found = run(kind, what, train=train, test=KINDS[kind].make(seed=5), clean=clean, epochs=30)
    ids, trust = found.trust()
    wrong = train.columns["is_corrupt"].numpy()
    assert torch.equal(ids, train.ids)
    assert roc_auc_score(wrong, -trust.numpy()) > 0.85
    record = found.history[-1]
    assert record["metric"] == KINDS[kind].metric
    assert record["score"] == record["scores"][record["metric"]] > found.history[0]["score"]
    assert "r2" not in record["scores"]
    assert {"right", "loss", "weight", "belief"} <= set(found.ledger.table().column_names)


def test_standard_scores_of_tokens_and_labels_are_those_of_the_whole_test_set() -> None:
    for kind in KINDS:
        test = KINDS[kind].make(seed=5)
        found = run(kind, "standard", test=test)
        outputs, scores = found.model(test.inputs).detach(), found.history[-1]["scores"]
        if kind == "labels":
            right = (outputs > 0).long() == test.targets.long()
            assert scores["label_accuracy"] == pytest.approx(right.double().mean().item())
            assert scores["exact_match"] == pytest.approx(right.all(1).double().mean().item())
            known = average_precision_score(test.targets.numpy(), outputs.numpy(), average="macro")
            assert scores["mean_average_precision"] == pytest.approx(known)
        else:
            counted = test.targets >= 0
            predicted = outputs.argmax(-1 if kind == "tokens" else 1)
            assert scores["accuracy"] == pytest.approx((predicted == test.targets)[counted].double().mean().item())
            logits = outputs if kind == "tokens" else outputs.permute(0, 2, 3, 1)
            loss = cross_entropy(logits[counted], test.targets[counted]).item()
            assert scores["cross_entropy"] == pytest.approx(loss, rel=1e-5)
            assert ("perplexity" in scores) == (kind == "tokens")


def test_mean_average_precision_leaves_out_labels_that_nobody_has() -> None:
    outputs, targets = torch.randn(30, 4), (torch.rand(30, 4) > 0.6).float()
    targets[:, 2] = 0
    known = [average_precision_score(targets[:, k].numpy(), outputs[:, k].numpy()) for k in (0, 1, 3)]
    assert mean_average_precision(outputs, targets) == pytest.approx(np.mean(known))


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_opens_predicts_resumes_and_reports(kind: str, tmp_path: Path) -> None:
    train = KINDS[kind].make()
    whole, kept = run(kind), run(kind, out=tmp_path / "a")
    assert_same_run(whole, kept)
    assert_same_run(run(kind, epochs=5), run(kind, epochs=5, out=tmp_path / "a"))
    opened = open_run(tmp_path / "a", model=KINDS[kind].network)
    outputs = opened.model(train.inputs).detach()
    predicted = {"tokens": lambda: outputs.argmax(2), "pixels": lambda: outputs.argmax(1),
                 "labels": lambda: (outputs > 0).long()}[kind]()  # fmt: skip
    assert np.array_equal(opened.predict(train.inputs), predicted.numpy())
    if kind == "labels":
        np.testing.assert_allclose(opened.predict_proba(train.inputs), outputs.sigmoid().numpy(), rtol=1e-5)
    else:
        with pytest.raises(ThresherError, match="This run has dense targets and gives no probabilities"):
            opened.predict_proba(train.inputs)
    page = opened.report().read_text()
    assert "one minus the mean residual rank" in page
    assert len(opened.weights()) == len(train)


@pytest.mark.parametrize("kind", KINDS)
def test_no_step_makes_the_host_wait(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with strictly(monkeypatch) as notes:
        run(kind)
    assert notes


@pytest.mark.parametrize("by", ["confidence", "margin", "entropy", "predicted", "given", "p_given"])
@pytest.mark.parametrize("kind", KINDS)
def test_signals_of_one_class_are_refused(kind: str, by: str) -> None:
    with pytest.raises(ThresherError, match=f"The signal {by} is defined for classification only: choose another"):
        run(kind, Recipe(each_batch=KeepSmallest(by=by, fraction=0.5)))


REFUSED: dict[str, tuple[Callable[[str], Any], str]] = {
    "crust-central": (lambda kind: run(kind, "crust-central"), "crust-central is defined for classification only"),
    "auto": (lambda kind: run(kind, "auto", noise_rate=0.2), "No method is compared on .* targets yet: name one"),
    "a rate to find": (lambda kind: run(kind, "prl-l", noise_rate="auto", epochs=9), "cannot find the noise rate"),
    "a rate by folds": (lambda kind: run(kind, "prl-l", noise_rate="folds"), "Folds cannot find the noise rate"),
    "corruption": (lambda kind: corrupt(KINDS[kind].make(), "symmetric:0.4"), "which no corruption knows"),
    "an audit": (lambda kind: audit(KINDS[kind].make()), "An audit judges classes and real targets"),
    "acquire": (
        lambda kind: acquire(KeepSmallest(by="loss", count=2), KINDS[kind].network(), KINDS[kind].make()),
        "knows pools with classes or real targets",
    ),
    "another objective": (
        lambda kind: run(kind, "standard", objective=method("gce").recipe().objective),
        "GeneralizedCrossEntropy is defined for classification only",
    ),
    "a test set of classes": (
        lambda kind: run(kind, "standard", test=Examples(KINDS[kind].make().inputs, torch.arange(96) % 3)),
        r"The test set asks for 3 classes and the training set for",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
@pytest.mark.parametrize("kind", ["tokens", "labels"])
def test_what_makes_no_sense_is_refused_in_a_sentence(kind: str, what: str) -> None:
    act, sentence = REFUSED[what]
    with pytest.raises(ThresherError, match=sentence):
        act(kind)


@pytest.mark.parametrize(
    ("network", "train", "shape"),
    [
        (nn.Embedding(7, 4), texts(), r"make it give \[2, 6, classes\] with more than 6 classes"),
        (nn.Sequential(Words(), nn.Flatten()), texts(), r"\[2, 42\] for 2 examples: make it give \[2, 6, classes\]"),
        (nn.Conv2d(1, 3, 3), images(), r"make it give \[2, classes, 5, 4\] with more than"),
        (nn.Linear(16, 2), tags(), r"make it give \[2, 3\]"),
    ],
)
def test_outputs_of_another_shape_are_refused(network: nn.Module, train: Examples, shape: str) -> None:
    with pytest.raises(ThresherError, match=shape):
        fit("standard", network, train, epochs=1, batch=24)


@pytest.mark.parametrize("kind", KINDS)
def test_blends_are_for_real_inputs_and_targets(kind: str) -> None:
    if kind == "labels":
        assert run(kind, Recipe(mix=Mixup())).history[-1]["loss"] > 0
        return
    with pytest.warns(UserWarning, match="Mixup is left out"):
        mixed = run(kind, Recipe(mix=Mixup()))
    assert_same_run(mixed, run(kind, Recipe()))


# A single logit for two classes.


class OneLogit(nn.Module):
    def __init__(self, dims: int):
        super().__init__()
        self.body, self.dims = net(1), dims

    def forward(self, inputs: Tensor) -> Tensor:
        logit = self.body(inputs)
        if self.dims == 2:
            return logit
        return logit[:, 0] if self.dims == 1 else torch.cat([torch.zeros_like(logit), logit], 1)


def two_classes() -> Examples:
    return examples(60, classes=2)


@pytest.mark.parametrize("what", ["standard", "prl-l", "prl-g", "co-teaching", "l2rw", "crust-central", "reclaim"])
@pytest.mark.parametrize("dims", [1, 2])
def test_a_single_logit_trains_as_two_columns_do(what: str, dims: int) -> None:
    train = two_classes()
    settings: dict[str, Any] = {"test": two_classes(), "epochs": 7, "batch": 20, "device": "cpu"}
    settings |= {"clean": trusted(train, 8)} if what == "l2rw" else {}
    settings |= {"noise_rate": 0.25} if "noise_rate" in method(what).needs else {}
    one = fit(what, lambda: OneLogit(dims), train, **settings)
    two = fit(what, lambda: OneLogit(0), train, **settings)
    if what == "l2rw":  # whose products with the clean gradient are summed in another order
        for ours, theirs in zip(tensors(one), tensors(two), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)
    else:
        assert_same_run(one, two)
    assert np.array_equal(one.predict(train.inputs), two.predict(train.inputs))
    assert one.model(train.inputs).ndim == dims, "the model is afterwards as it was"


def bce(outputs: Tensor, targets: Tensor) -> Tensor:
    assert outputs.ndim == 2
    assert outputs.shape[1] == 1
    return binary_cross_entropy_with_logits(outputs[:, 0], targets.float(), reduction="none")


def test_an_objective_of_ones_own_gets_the_logit_as_the_model_gave_it() -> None:
    train = two_classes()
    own = fit(Recipe(objective=bce), lambda: OneLogit(2), train, test=train, epochs=5, batch=20, device="cpu")
    plain = fit(Recipe(), lambda: OneLogit(2), train, test=train, epochs=5, batch=20, device="cpu")
    assert own.history[-1]["metric"] == "accuracy"
    assert own.history[-1]["loss"] == pytest.approx(plain.history[-1]["loss"], rel=1e-4)
    rule, model = KeepSmallest(by="output_gradient_norm", count=9), OneLogit(2)
    assert torch.equal(
        weigh(rule, model, train.inputs, train.targets, objective=bce), weigh(rule, model, train.inputs, train.targets)
    )
    assert not model._forward_hooks


def test_acquire_reads_a_single_logit() -> None:
    pool, model = two_classes(), OneLogit(2)
    picked = acquire(KeepSmallest(by="confidence", count=5), model, pool)
    nearest = model(pool.inputs)[:, 0].abs().argsort()[:5]
    assert set(picked.tolist()) == set(pool.ids[nearest].tolist())


def test_a_single_real_output_may_be_flat() -> None:
    inputs = torch.randn(60, 4)
    train = Examples(inputs, inputs.sum(1))

    class Flat(nn.Linear):
        def forward(self, inputs: Tensor) -> Tensor:
            return super().forward(inputs)[:, 0]

    flat, column = (fit("standard", make, train, epochs=2, batch=20, device="cpu") for make in (
        lambda: Flat(4, 1), lambda: nn.Linear(4, 1)))  # fmt: skip
    assert_same_run(flat, column)


# Real targets of 0 and 1 under an objective of one's own.


@pytest.mark.parametrize("objective", [bce, BinaryCrossEntropy()])
def test_a_binary_objective_scores_no_r2(objective: Any) -> None:
    """Decimals are real targets, but not where they are 0 and 1 and the objective is one's own."""
    train = two_classes()
    real = (train.inputs, train.targets.float())
    shown = (lambda o, t: bce(o, t[:, 0])) if objective is bce else objective
    found = fit(Recipe(objective=shown), lambda: OneLogit(2), real, test=real, epochs=20, batch=20, learning_rate=0.01,
                device="cpu")  # fmt: skip
    assert found.history[-1]["metric"] == "mean_average_precision"
    assert found.history[-1]["scores"]["label_accuracy"] > 0.6
    assert found.predict(train.inputs).shape == (60, 1)
    assert fit("standard", lambda: OneLogit(2), real, test=real, epochs=1, device="cpu").history[-1]["metric"] == "r2"


def test_targets_that_could_be_two_things_are_what_is_said() -> None:
    bits = torch.tensor([[0, 1], [1, 1], [1, 0]])
    assert Examples(torch.zeros(3, 1), bits).task == "multi-label"
    assert Examples(torch.zeros(3, 1), bits, task="dense").task == "dense"
    assert Examples(torch.zeros(3, 1), bits.float(), task="regression").is_regression
    assert Examples(torch.zeros(3, 1), bits[[0, 2]].float().repeat(2, 1)[:3], classes=2).task == "classification"
    assert Examples(torch.zeros(3, 1), bits).subset([1]).task == "multi-label"
    with pytest.raises(ThresherError, match=r"has the task 'pixels': choose one of classification, regression"):
        Examples(torch.zeros(3, 1), bits, task="pixels")
    with pytest.raises(ThresherError, match=r"has no target of 0 or above"):
        Examples(torch.zeros(3, 1), torch.full((3, 2), -100))


class Largest(TorchDispatchMode):
    """Notes the size of the largest tensor that an operation makes; views and changes in place make none."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, function: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        if isinstance(result, Tensor) and not any(
            isinstance(given, Tensor) and given.untyped_storage().data_ptr() == result.untyped_storage().data_ptr()
            for given in args
        ):
            self.numbers = max(self.numbers, result.numel())
        return result


def test_norms_of_a_language_models_output_gradients_take_no_copy_of_its_outputs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A few examples at a time: outputs [n, T, words] are what fills the memory."""
    draws = torch.Generator().manual_seed(0)
    outputs, targets = torch.randn(6, 5, 40, generator=draws), torch.randint(0, 40, (6, 5), generator=draws)
    targets[0, 3:], targets[4] = -100, -100
    evidence = Evidence(torch.arange(6), targets, PositionCrossEntropy(), outputs, None)
    expected = evidence.read(signals.output_gradient).norm(dim=1)
    monkeypatch.setattr(chunks, "HOST_NUMBERS", 2 * 5 * 40)
    again = evidence.replace(known={})
    with Largest() as seen:
        found = again.read(signals.output_gradient_norm)
    torch.testing.assert_close(found, expected)
    assert found[4] == 0
    assert seen.numbers == 2 * 5 * 40
    assert signals.output_gradient not in again.known
