"""L2RW: agreement with the clean set is Algorithm 1 exactly, whatever the model; the clean set; the baselines."""

import json
import runpy
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from reference import l2rw as reference
from strict import strictly
from tiny import assert_same_run, assert_same_tensors, examples, net, real_examples, streamed, trainer, trusted
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import parametrizations, prune

from thresher import Examples, Recipe, ThresherError, fit, weigh
from thresher.core import seeding
from thresher.core.evidence import Evidence, Signal
from thresher.core.signals import clean_agreement
from thresher.corruption import corrupt
from thresher.data import take_clean
from thresher.data.loading import digits
from thresher.engine import weigh as weigh_module
from thresher.engine.gradients.strategy import Factored, Strategy, Unfactored
from thresher.engine.loop.feed import CleanStream
from thresher.engine.start.gradient_trial import choose_strategy
from thresher.engine.step.forward import Batch
from thresher.methods import clean_only, fine_tune
from thresher.models import build
from thresher.objectives import CrossEntropy, NoiseLayer, smoothed_identity
from thresher.rules import (
    Curriculum,
    KeepLargest,
    MetaGradient,
    Rule,
)
from thresher.slots.draw import repeated


def cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    return functional.cross_entropy(outputs, targets, reduction="none")


def squared_error(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs - targets).square().sum(1) / 2


class Residual(nn.Module):
    """Adds its layers' output to its input, in place, after an activation in place."""

    def __init__(self, *layers: nn.Module):
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, inputs: Tensor) -> Tensor:
        inner = self.layers(inputs)
        inner += inputs
        return functional.relu_(inner)


class Attention(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.into, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, inputs: Tensor) -> Tensor:  # [n, T, width]
        queries, keys, values = self.into(inputs).chunk(3, -1)
        outputs: Tensor = self.out(functional.scaled_dot_product_attention(queries, keys, values))
        return outputs


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.Module]):
        super().__init__()
        self.inner = kind(4, 6, batch_first=True)

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.inner(inputs.flatten(2).mT if inputs.ndim == 4 else inputs)[0][:, -1]
        return outputs


class DropPath(nn.Module):
    """Leaves out whole examples, as residual networks in the wild do it: by a tensor filled in place."""

    def forward(self, inputs: Tensor) -> Tensor:
        kept = inputs.new_empty(len(inputs), *[1] * (inputs.ndim - 1)).bernoulli_(0.7)
        return inputs * kept.div_(0.7) if self.training else inputs


class Gain(nn.Module):
    """A parameter beside layers; the factored way does not take it where it is squared before it meets the examples."""

    def __init__(self, width: int, squared: bool = True):
        super().__init__()
        self.scale, self.inner, self.squared = nn.Parameter(torch.rand(width)), nn.Tanh(), squared

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.inner(inputs * (self.scale.square() if self.squared else self.scale))
        return outputs


def convolutions(norm: Callable[[int], nn.Module], *more: nn.Module) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 6, 3, padding=1), norm(6), nn.ReLU(inplace=True),
        Residual(nn.Conv2d(6, 6, 3, padding="same", bias=False), norm(6)), *more,
        nn.Conv2d(6, 8, 2, stride=2, groups=2), nn.Tanh(), nn.Flatten(), nn.Linear(32, 3),
    )  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A model for images [n, 1, 4, 4] and by which ways its derivatives are taken."""

    make: Callable[[], nn.Module]
    strategy: Strategy
    least: int = 1  # examples that a batch must have


AGREEMENT = (clean_agreement,)
FACTORED = Factored((), AGREEMENT)
FORWARD, BACKWARD = Unfactored((), AGREEMENT, True), Unfactored((), AGREEMENT, False)
CASES = {
    "mlp": Case(net, FACTORED),
    "mlp with dropout": Case(lambda: net(dropout=0.4), FACTORED),
    "cnn": Case(lambda: convolutions(lambda _: nn.Identity()), FACTORED),
    "cnn, GroupNorm": Case(lambda: convolutions(lambda width: nn.GroupNorm(2, width)), FACTORED),
    "LayerNorm": Case(
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 3)), FACTORED
    ),
    "mlp, BatchNorm": Case(lambda: net(batch_norm=True), FORWARD, least=2),
    "mlp, BatchNorm and dropout": Case(lambda: net(batch_norm=True, dropout=0.4), FORWARD, least=2),
    "cnn, BatchNorm": Case(lambda: convolutions(nn.BatchNorm2d), FORWARD),
    "cnn, BatchNorm without scale": Case(lambda: convolutions(lambda w: nn.BatchNorm2d(w, affine=False)), FORWARD),
    "cnn, BatchNorm, no moving mean": Case(
        lambda: convolutions(lambda w: nn.BatchNorm2d(w, track_running_stats=False)), FORWARD
    ),
    "cnn, BatchNorm and dropped channels": Case(lambda: convolutions(nn.BatchNorm2d, nn.Dropout2d(0.4)), FORWARD),
    "cnn, BatchNorm and dropped examples": Case(lambda: convolutions(nn.BatchNorm2d, DropPath()), FORWARD),
    "resnet20": Case(lambda: build("resnet20", input_shape=(1, 4, 4), outputs=3), FORWARD, least=2),
    "resnet20-gn": Case(lambda: build("resnet20-gn", input_shape=(1, 4, 4), outputs=3), FACTORED),
    "PReLU": Case(lambda: nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.PReLU(), nn.Linear(8, 3)), FACTORED),
    "a gain of one's own": Case(
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(16, 8), Gain(8, squared=False), nn.Linear(8, 3)), FACTORED
    ),
    "a squared gain": Case(lambda: nn.Sequential(nn.Flatten(), nn.Linear(16, 8), Gain(8), nn.Linear(8, 3)), FORWARD),
    "attention": Case(
        lambda: nn.Sequential(nn.Flatten(1, 2), Attention(4), Gain(4), nn.Flatten(), nn.Linear(16, 3)), FORWARD
    ),
    "GRU": Case(lambda: nn.Sequential(nn.Flatten(1, 2), Recurrent(nn.GRU), nn.Linear(6, 3)), FORWARD),
    "LSTM": Case(lambda: nn.Sequential(nn.Flatten(1, 2), Recurrent(nn.LSTM), nn.Linear(6, 3)), BACKWARD),
    "attention and LSTM": Case(
        lambda: nn.Sequential(nn.Flatten(1, 2), Attention(4), Recurrent(nn.LSTM), nn.Linear(6, 3)), BACKWARD
    ),
    "weight norm": Case(lambda: nn.Sequential(nn.Flatten(), parametrizations.weight_norm(nn.Linear(16, 3))), BACKWARD),
    "pruned": Case(
        lambda: nn.Sequential(nn.Flatten(), prune.l1_unstructured(nn.Linear(16, 3), "weight", amount=0.3)), FORWARD
    ),
    "alpha dropout": Case(
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(16, 8), Gain(8), nn.AlphaDropout(0.3), nn.Linear(8, 3)),
        BACKWARD,
    ),
}


@dataclass(frozen=True)
class Noted(Rule):
    """MetaGradient that keeps what it read."""

    kept: list[Tensor]
    by: Signal = clean_agreement

    def __call__(self, evidence: Evidence) -> Tensor:
        self.kept.append(evidence.read(self.by).clone())
        return MetaGradient(self.by)(evidence)

    def __hash__(self) -> int:
        return id(self)


def made(case: Case, seed: int = 1) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return case.make()


def data(n: int, task: str, seed: int = 0) -> tuple[Tensor, Tensor]:
    draws = torch.Generator().manual_seed(seed)
    inputs = torch.randn(n, 1, 4, 4, generator=draws)
    return inputs, torch.randint(3, (n,), generator=draws) if task == "classes" else torch.randn(n, 3, generator=draws)


def taken_by_backwards(case: Case) -> Any:
    """The warning that such a model must give."""
    return (
        pytest.warns(UserWarning, match="backward on backward")
        if case.strategy == BACKWARD
        else warnings.catch_warnings()
    )


@pytest.mark.parametrize("task", ["classes", "real"])
@pytest.mark.parametrize(
    ("case", "n"),
    [pytest.param(case, n, id=f"{name}-{n}") for name, case in CASES.items() for n in (1, 2, 100) if n >= case.least],
)
def test_agreement_is_algorithm_1(case: Case, n: int, task: str) -> None:
    model, loss = made(case), cross_entropy if task == "classes" else squared_error
    train, clean, kept = data(n, task), data(7, task, seed=9), []
    state = {name: value.clone() for name, value in model.state_dict().items()}
    torch.manual_seed(4)
    with taken_by_backwards(case):
        weights = weigh(Noted(kept), model, *train, clean=clean)
    torch.manual_seed(4)  # the same dropout masks as the pass that comes after weigh()
    expected = reference.meta_gradient(model, loss, train, clean)
    torch.testing.assert_close(kept[0], expected, rtol=1e-4, atol=1e-5 * float(expected.abs().max()))
    torch.testing.assert_close(weights, reference.weights(expected), rtol=0, atol=1e-5)
    assert_same_tensors(list(model.state_dict().values()), list(state.values()))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_the_strategies_are_those_the_table_says(case: Case) -> None:
    model = made(case)
    batches = [Batch(torch.arange(2), torch.arange(2), *data(2, "classes", seed), {}) for seed in (0, 1)]
    with taken_by_backwards(case):
        assert choose_strategy(model, CrossEntropy(), [clean_agreement], *batches, 3) == case.strategy


@pytest.mark.parametrize("name", ["cnn, BatchNorm", "cnn, GroupNorm"])
def test_agreement_in_channels_last_and_in_mixed_precision(name: str) -> None:
    train, clean = examples(16), trusted(examples(16), 6)
    found = {}
    for kind, more in {
        "plain": {},
        "channels last": {"channels_last": True},
        "mixed": {"precision": torch.bfloat16},
    }.items():
        kept: list[Tensor] = []
        fitted(
            train,
            made(CASES[name]),
            recipe=Recipe(each_batch=Noted(kept)),
            steps=1,
            epochs=None,
            batch=16,
            clean=clean,
            **more,
        )
        found[kind] = kept[0]
    torch.testing.assert_close(found["channels last"], found["plain"], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found["mixed"], found["plain"], rtol=0.1, atol=0.05 * float(found["plain"].abs().max()))


def test_step_size_of_the_look_ahead_does_not_matter() -> None:
    model, train, clean = made(CASES["cnn, BatchNorm"]), data(20, "classes"), data(7, "classes", 1)
    one, other = (reference.meta_gradient(model, cross_entropy, train, clean, rate) for rate in (1.0, 0.01))
    torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-7)


# Refusals, and models that do something unusual.


class OneWay(torch.autograd.Function):
    """A function with a derivative and no second one, and no forward mode."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor) -> Tensor:  # noqa: ARG004
        return inputs * 2

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # noqa: ARG004
        return gradient * 2


class Strange(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(8))

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = OneWay.apply(inputs * self.scale)
        return outputs


def test_a_layer_without_a_way_is_named() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 8), Strange(), nn.Linear(8, 3))
    with pytest.raises(ThresherError, match=r"no way through 2 \(Strange\).*: replace that layer"):
        weigh(MetaGradient(), model, *data(4, "classes"), clean=data(2, "classes"))


def test_frozen_layers_do_not_agree_with_anything() -> None:
    for case in ("cnn", "cnn, BatchNorm"):
        model, kept = made(CASES[case]), []
        model[0].requires_grad_(False)
        model[3].layers[0].requires_grad_(False)
        train, clean = data(9, "classes"), data(4, "classes", 1)
        weigh(Noted(kept), model, *train, outputs=torch.zeros(9, 3), clean=clean)
        expected = reference.meta_gradient(model, cross_entropy, train, clean)
        torch.testing.assert_close(kept[0], expected, rtol=1e-4, atol=1e-7)


def test_an_objective_that_detaches_is_differentiated_as_it_says() -> None:
    """Forward mode must not go through what is detached."""

    def own(outputs: Tensor, targets: Tensor) -> Tensor:
        return cross_entropy(outputs, targets) * outputs.detach().square().sum(1)

    model, kept, train, clean = made(CASES["cnn, BatchNorm"]), [], data(9, "classes"), data(4, "classes", 1)
    weigh(Noted(kept), model, *train, outputs=torch.zeros(9, 3), clean=clean, objective=own)
    expected = reference.meta_gradient(model, own, train, clean)
    torch.testing.assert_close(kept[0], expected, rtol=1e-4, atol=1e-6)


WRONG: dict[str, tuple[Callable[[], object], str]] = {
    "no clean set": (lambda: fitted(examples(), clean=None), r"pass clean=Examples\(...\) to fit"),
    "no clean batch to weigh with": (
        lambda: weigh(MetaGradient(), net(), *data(4, "classes")),
        "clean=.inputs, targets.",
    ),
    "a clean batch of nobody": (lambda: fitted(examples(), clean_batch=0), "give 1 to 12"),
    "a clean batch too large": (lambda: fitted(examples(), clean_batch=13), "give 1 to 12"),
    "a clean batch of nothing": (
        lambda: fit(Recipe(), net(), examples(), epochs=1, batch=8, clean_batch=3),
        "takes batches of a clean set",
    ),
    "a clean set of another kind": (lambda: fitted(examples(), clean=real_examples(5)), "make them equal"),
    "a clean set of more classes": (lambda: fitted(examples(), clean=examples(8, 4)), "make them equal"),
    "one clean example for BatchNorm": (
        lambda: fitted(examples(), net(batch_norm=True), clean_batch=1),
        "give two clean examples or more",
    ),
    "every epoch": (
        lambda: fitted(examples(), recipe=Recipe(each_epoch=KeepLargest(by=clean_agreement, count=3))),
        "into each_batch",
    ),
    "MetaGradient every epoch": (
        lambda: fitted(examples(), recipe=Recipe(each_epoch=MetaGradient())),
        "into each_batch",
    ),
    "a noise layer of other classes": (
        lambda: fit(Recipe(objective=NoiseLayer(smoothed_identity(4))), net(), examples(), epochs=1, batch=8),
        "make them equal",
    ),
    "no probabilities": (lambda: NoiseLayer(torch.eye(3)), "make each row positive"),
    "clean-only without a clean set": (lambda: clean_only(trainer({"train": examples()})), "needs a clean set"),
    "no fine-tuning": (lambda: fine_tune(None, examples(), steps=0), "at least 1 step"),  # type: ignore[arg-type]
    "nobody is drawn": (lambda: repeated(0), "give at least 1"),
    "a curriculum that widens backwards": (lambda: Curriculum(0.5, width=-1.0), "at least 0"),
}


@pytest.mark.parametrize(("act", "sentence"), WRONG.values(), ids=WRONG.keys())
def test_refused_with_a_fix(act: Callable[[], object], sentence: str) -> None:
    with pytest.raises(ThresherError, match=sentence):
        act()


# Training.

UNSET: Any = object()


def fitted(
    train: Examples, model: nn.Module | None = None, *, clean: Any = UNSET, recipe: Any = None, **more: Any
) -> Any:
    given = trusted(train, 12) if clean is UNSET else clean
    settings = {"epochs": 2, "batch": 8, "device": "cpu", **more}
    model = net(train.outputs, seed=1) if model is None else model
    return fit(recipe or Recipe(each_batch=MetaGradient()), model, train, clean=given, **settings)


STEPWISE = ["mlp", "cnn, GroupNorm", "mlp, BatchNorm and dropout", "cnn, BatchNorm", "pruned"]
CARRIED = ["mlp, BatchNorm", "cnn, BatchNorm", "cnn, BatchNorm without scale", "cnn, BatchNorm, no moving mean", "GRU"]
CARRIED += ["attention", "a squared gain"]


@pytest.mark.filterwarnings("ignore:.*torch.jit.*deprecated:DeprecationWarning")  # torch of itself
@pytest.mark.parametrize(
    ("case", "compiled"), [*((name, False) for name in STEPWISE), *((name, True) for name in CARRIED)]
)
def test_training_is_algorithm_1_step_by_step(case: str, compiled: bool) -> None:
    """Compiled passes are traced here as on a GPU, and then run by torch's own kernels."""
    train = examples(40)
    clean, model, twin = trusted(train, 12), made(CASES[case]), made(CASES[case])
    how: dict[str, Any] = {"epochs": 1, "clean_batch": 5, "optimizer": lambda p: torch.optim.SGD(p, lr=0.1)}
    with torch.compiler.set_stance(force_backend="aot_eager") if compiled else nullcontext():
        fitted(train, model, compiled=compiled, **how)
    order = torch.randperm(40, generator=seeding.generator(0, "order", 0)).view(5, 8)
    beside = CleanStream(clean, 5, 0).order(0, 5)
    assert beside is not None
    twin.train()
    for step, (at, few) in enumerate(zip(order, beside, strict=True)):
        pairs = (train.inputs[at], train.targets[at]), (clean.inputs[few], clean.targets[few])
        seeding.seed_global(torch.device("cpu"), 0, 0, step)
        weights = reference.weights(reference.meta_gradient(twin, cross_entropy, *pairs))
        seeding.seed_global(torch.device("cpu"), 0, 0, step)
        losses = cross_entropy(twin(pairs[0][0]), pairs[0][1])
        gradients = torch.autograd.grad(weights.dot(losses), list(twin.parameters()))
        with torch.no_grad():
            for parameter, gradient in zip(twin.parameters(), gradients, strict=True):
                parameter -= 0.1 * gradient
    for mine, other in zip(model.state_dict().values(), twin.state_dict().values(), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("case", ["mlp, BatchNorm and dropout", "cnn, BatchNorm", "LSTM"])
def test_no_step_waits_and_all_steps_do_the_same(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with taken_by_backwards(CASES[case]), strictly(monkeypatch) as notes:
        fitted(examples(44), made(CASES[case]), epochs=1, clean_batch=5)
    assert len(notes) == 5
    assert notes[1] == notes[2] == notes[3] == notes[4]


def test_where_no_example_helps_the_step_is_skipped() -> None:
    """Clean examples that say the opposite of every training example."""
    inputs = torch.randn(16, 1, 4, 4)
    train = Examples(inputs, torch.zeros(16).long(), classes=2)
    clean = Examples(inputs, torch.ones(16).long(), classes=2)
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 2))
    nn.init.zeros_(model[1].weight)
    nn.init.zeros_(model[1].bias)
    state = [value.clone() for value in model.state_dict().values()]
    assert weigh(MetaGradient(), model, train.inputs, train.targets, clean=(clean.inputs, clean.targets)).sum() == 0
    run = fitted(train, model, clean=clean, epochs=1, batch=16, clean_batch=16)
    assert run.history[0]["skipped"] == 1
    assert_same_tensors(list(model.state_dict().values()), state)


@pytest.mark.parametrize("batch_norm", [False, True])
def test_a_clean_set_may_lack_classes_or_have_one_example(batch_norm: bool) -> None:
    train = examples(60, corrupt=0.0)
    first = train.subset(torch.arange(0, 60, 3))  # of class 0
    for count in (6, 2 if batch_norm else 1):
        clean = Examples(first.inputs[:count], first.targets[:count])
        assert clean.classes == 1
        run = fitted(train, net(batch_norm=batch_norm, seed=1), clean=clean, epochs=4)
        weights = run.ledger.to_pandas().groupby("target")["weight"].mean()
        assert weights[0] > 1.5 * max(weights[1], weights[2]), "who helps is whom the clean set speaks of"


def test_clean_examples_are_drawn_without_replacement() -> None:
    clean = examples(10)
    stream, seen = CleanStream(clean, 4, seed=3), []
    for epoch, steps in enumerate((3, 1, 6)):
        order = stream.order(epoch, steps)
        assert order is not None
        assert order.shape == (steps, 4)
        assert all(len(set(row.tolist())) == 4 for row in order), "no batch holds an example twice"
        seen += order.flatten().tolist()
    counts = torch.tensor(seen).bincount(minlength=10)
    assert counts.tolist() == [4] * 10, "forty places for ten examples"
    assert CleanStream(None, 4, 0).order(0, 3) is None


def test_streamed_clean_sets_and_resumed_runs_are_the_same(tmp_path: Any) -> None:
    train = examples(44)
    straight = fitted(train, net(batch_norm=True, seed=2), epochs=4, clean_batch=5)
    beside = fitted(train, net(batch_norm=True, seed=2), epochs=4, clean_batch=5, clean=streamed(trusted(train, 12)))
    assert_same_run(straight, beside)

    class Stop(Exception):  # noqa: N818
        pass

    def stop(moment: Any) -> None:
        if moment.epoch == 2 and moment.step == 3:
            raise Stop

    settings = {"epochs": 4, "clean_batch": 5, "out": tmp_path / "run", "commit_every": 0.0}
    with pytest.raises(Stop):
        fitted(train, net(batch_norm=True, seed=2), watch=stop, **settings)
    resumed = fitted(train, net(batch_norm=True, seed=2), **settings)
    assert_same_tensors(list(resumed.model.state_dict().values()), list(straight.model.state_dict().values()))
    with pytest.raises(ThresherError, match="its clean_batch differs"):
        fitted(train, net(batch_norm=True, seed=2), **{**settings, "clean_batch": 6})


def test_views_change_the_clean_batch_as_they_change_the_first_look() -> None:
    seen: list[int] = []

    def view(images: Tensor, generator: torch.Generator) -> Tensor:  # noqa: ARG001
        seen.append(len(images))
        return images

    fitted(examples(16), recipe=Recipe(each_batch=MetaGradient(), views=(view,)), epochs=1, clean_batch=5)
    assert seen == [2, 8, 5, 8, 5]  # two examples are tried at the start


def test_the_buffers_follow_the_training_batches_alone() -> None:
    train, model = examples(40), net(batch_norm=True, seed=2)
    fitted(train, model, epochs=1, clean_batch=5, optimizer=lambda p: torch.optim.SGD(p, lr=0.0))
    plain = net(batch_norm=True, seed=2)
    fit(Recipe(), plain, train, epochs=1, batch=8, optimizer=lambda p: torch.optim.SGD(p, lr=0.0), device="cpu")
    for mine, other in zip(model.buffers(), plain.buffers(), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-6, atol=1e-7)


def test_pairflip_digits() -> None:
    """40% of the labels wrong in one direction, where losses alone mislead, and five clean digits of each class."""
    split = digits()
    train, clean = take_clean(corrupt(split.train, "pairflip:0.4", seed=0), 50)
    settings: dict[str, Any] = {"test": split.test, "epochs": 15, "batch": 64, "device": "cpu"}
    make = partial(build, "mlp:128", input_shape=(1, 8, 8), outputs=10)
    ours = fit(Recipe(each_batch=MetaGradient()), make, train, clean=clean, **settings)
    plain = fit(Recipe(), make, train, clean=clean, **settings)
    assert ours.last(5) >= plain.last(5) + 0.1
    assert ours.clean_share(5) >= 0.8


def test_weigh_finds_its_ways_once_for_a_model_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    real = weigh_module.choose_strategy
    monkeypatch.setattr(weigh_module, "choose_strategy", lambda *given: asked.append(given[0]) or real(*given))
    train, model = examples(16), nn.Sequential(nn.Flatten(), nn.Linear(16, 3), nn.BatchNorm1d(3))
    pairs = (train.inputs, train.targets), (train.inputs[:5], train.targets[:5])

    def weights() -> Tensor:
        return weigh(MetaGradient(), model, *pairs[0], clean=pairs[1])

    first, _ = weights(), weights()
    assert len(asked) == 1
    model[2] = nn.Identity()  # now all layers have formulas
    expected = reference.weights(reference.meta_gradient(model, cross_entropy, *pairs))
    torch.testing.assert_close(weights(), expected, rtol=1e-4, atol=1e-5)
    assert len(asked) == 2
    model.eval()
    weights()
    assert len(asked) == 3
    assert first.shape == (16,)


def test_a_pretrained_network_may_be_frozen_first_and_trained_as_a_whole_later() -> None:
    model, train, clean = made(CASES["cnn, BatchNorm"]), data(9, "classes"), data(4, "classes", 1)
    for trained in (model[-1], model):
        model.requires_grad_(False)
        trained.requires_grad_(True)
        expected = reference.weights(reference.meta_gradient(model, cross_entropy, train, clean))
        torch.testing.assert_close(weigh(MetaGradient(), model, *train, clean=clean), expected, rtol=0, atol=1e-5)


def test_weigh_makes_no_pass_over_the_batch_that_is_not_needed() -> None:
    seen: list[int] = []
    model, train, clean = made(CASES["cnn, BatchNorm"]), data(50, "classes"), data(7, "classes", 1)
    weigh(MetaGradient(), model, *train, clean=clean)
    model.register_forward_pre_hook(lambda _, given: seen.append(len(given[0])))
    weigh(MetaGradient(), model, *train, clean=clean)
    assert sorted(seen) == [2, 7, 50, 50], "two for the width, the clean ones, the batch, and its tangents"


class Chatty(nn.Module):
    """Returns more than its outputs in training mode, as some of torchvision's networks do."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = net()

    def forward(self, inputs: Tensor) -> Any:
        outputs = self.inner(inputs)
        return (outputs, outputs) if self.training else outputs


@pytest.mark.parametrize("recipe", [Recipe(), Recipe(each_batch=MetaGradient())], ids=["standard", "l2rw"])
def test_a_model_that_returns_more_than_outputs_is_refused(recipe: Recipe) -> None:
    with pytest.raises(ThresherError, match="returns a tuple: let it return its outputs alone"):
        fitted(examples(), Chatty(), recipe=recipe)
    with pytest.raises(ThresherError, match="returns a tuple"):
        weigh(MetaGradient(), Chatty(), *data(4, "classes"), clean=data(2, "classes"))


def test_everything_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    root = Path(__file__).parent.parent
    monkeypatch.syspath_prepend(root / "benchmarks")
    bench = runpy.run_path(str(root / "benchmarks" / "l2rw.py"))
    rows = [json.loads(line) for line in (root / "results" / "l2rw-cpu.jsonl").read_text().splitlines()]
    wanted = [(model, clean) for model in bench["MODELS"] for clean in bench["CLEAN_BATCHES"]]
    assert [(row["model"], row["clean_batch"]) for row in rows if row["who"] == "l2rw"] == wanted


def test_corrupted_real_targets_do_not_count() -> None:
    true = real_examples(120)
    wrong = torch.arange(120) % 5 < 2
    targets = torch.where(wrong[:, None], -true.targets, true.targets)
    train = true.with_targets(targets, is_corrupt=wrong)
    run = fitted(train, clean=true.subset(range(12)), epochs=6)
    assert run.clean_share(3) > 0.8
