"""The laws of the engine: each test fails when its law is broken."""

import ast
import gc
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny import (
    Streamed,
    assert_same_run,
    assert_same_tensors,
    by_id,
    examples,
    net,
    real_examples,
    streamed,
    tensors,
)
from torch import Tensor, nn
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

import thresher
from thresher import Examples, Recipe, Run, fit, signals, weigh
from thresher.average import Growing
from thresher.clip import Clamped
from thresher.engine.evidence import Evidence
from thresher.engine.optimizer import prepare, step_unless
from thresher.engine.step import Step
from thresher.engine.sweep import Sweeper
from thresher.mix import ClusterMixup, Mixup, Pairing, SameClassMixup
from thresher.objectives import CrossEntropy
from thresher.recipes import METHODS, Setting
from thresher.recipes.reclaim import reclaim
from thresher.relabel import AverageLabels
from thresher.rules import (
    Centrality,
    ClipNorm,
    FacilityLocation,
    KeepLargest,
    KeepSmallest,
    MetaGradient,
    Rule,
    Uniform,
    every,
    from_peer,
    per_class,
    product,
    warmup,
)
from thresher.schedules import cosine, ramp
from thresher.views import Flip, Shift

SOURCE = Path(thresher.__file__).parent
KEEP = KeepSmallest(by=signals.loss, fraction=0.5)


@dataclass(frozen=True)
class NearOrigin(Rule):
    """A rule that reads features: 1 / (1 + ‖features‖)."""

    by: signals.Signal = signals.features

    def __call__(self, evidence: Evidence) -> Tensor:
        return 1 / (1 + evidence.read(self.by).norm(dim=1))


def sgd(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.1)


# 1. Every rule of a step is asked before any optimizer moves.


def test_law_1_every_rule_is_asked_before_any_optimizer_moves() -> None:
    events: list[str] = []

    class Watched(torch.optim.SGD):
        def step(self, closure: Any = None) -> Any:
            events.append("move")
            return super().step(closure)

    def rule(evidence: Evidence) -> Tensor:
        events.append("ask")
        return torch.ones(len(evidence))

    def mix(evidence: Evidence) -> Pairing:
        events.append("ask")
        return Pairing(torch.arange(len(evidence)), torch.ones(len(evidence)))

    recipe = Recipe(peers=2, each_batch=from_peer(rule), mix=mix)
    fit(recipe, net, examples(), steps=3, batch=8, optimizer=lambda p: Watched(p, lr=0.1), device="cpu")
    assert events == ["ask", "ask", "ask", "move", "move"] * 3


def test_law_1_both_peers_are_judged_as_they_were_before_the_step() -> None:
    """The second network's rule must see the first one's losses from before it moved."""
    train, models = examples(8), [net(seed=1), net(seed=2)]
    before = [functional.cross_entropy(m(train.inputs), train.targets, reduction="none").detach() for m in models]
    supply, seen = iter(models), []

    def rule(evidence: Evidence) -> Tensor:
        peer = evidence.other("peer")
        seen.append((evidence.ids, evidence.losses.detach(), peer.losses.detach()))
        return torch.ones(len(evidence))

    class Reads(type(from_peer(rule))):  # declares that the peer is read, and reads it and its own
        def __call__(self, evidence: Evidence) -> Any:
            return self.rule(evidence)

    fit(Recipe(peers=2, each_batch=Reads(rule)), lambda: next(supply), train, steps=1, batch=8, optimizer=sgd)
    order = torch.stack([(train.ids == i).nonzero()[0, 0] for i in seen[0][0]])
    torch.testing.assert_close(seen[0][1], before[0][order])
    torch.testing.assert_close(seen[0][2], before[1][order])
    torch.testing.assert_close(seen[1][1], before[1][order])
    torch.testing.assert_close(seen[1][2], before[0][order])


# 2. Only engine/step.py reduces and differentiates for training; nothing moves where nothing counts.


def calls_in(path: Path) -> Iterator[tuple[str, int]]:
    """(dotted end of what is called, how many arguments) for every call of a file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), len(node.args) + len(node.keywords)


def files_that(condition: Callable[[str, int], bool]) -> set[str]:
    return {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if any(condition(name, count) for name, count in calls_in(path))
    }


def test_law_2_only_the_step_differentiates_for_training() -> None:
    assert files_that(lambda name, _: name.endswith(".backward")) == {"engine/step.py"}
    assert files_that(lambda name, count: name.endswith(".step") and count == 0) <= {
        "engine/optimizer.py",
        "engine/step.py",
    }
    assert files_that(lambda name, _: name.split(".")[-1] == "step_unless") == {"engine/step.py"}
    # For signals only: the gradient of the outputs, the norms of single examples, and the clean set's gradient.
    allowed = {"engine/step.py", "engine/factored.py", "engine/tangent.py", "engine/vmapped.py"}
    allowed |= {"objectives/objective.py"}
    differentiating = {"grad", "jacrev", "jacfwd", "vjp", "jvp"}
    assert files_that(lambda name, _: name.split(".")[-1] in differentiating) <= allowed


def order_of(train: Examples, seed: int = 0, epoch: int = 0) -> Tensor:
    """The order in which the first epoch visits a set, by the published seeding."""
    return torch.randperm(len(train), generator=thresher.seeding.generator(seed, "order", epoch))


def hand_step(model: nn.Module, total: Tensor, rate: float = 0.1) -> list[Tensor]:
    gradients = torch.autograd.grad(total, list(model.parameters()))
    return [(p - rate * g).detach() for p, g in zip(model.parameters(), gradients, strict=True)]


def hand_losses(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    return functional.cross_entropy(model(inputs), targets, reduction="none")


def close(model: nn.Module, expected: list[Tensor]) -> None:
    for parameter, value in zip(model.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.detach(), value, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("divide_by", ["weights", "batch"])
@pytest.mark.parametrize("norms", [False, True], ids=["plain", "factored"])
def test_law_2_total_is_weighted_mean(divide_by: Any, norms: bool) -> None:
    train, model, twin = examples(12), net(seed=1), net(seed=1)
    weights = by_id(lambda ids: (ids % 4) * 0.7)
    rule = product(weights, ClipNorm(bound=1e9)) if norms else weights
    at = order_of(train)
    w = (train.ids[at] % 4) * 0.7
    losses = hand_losses(twin, train.inputs[at], train.targets[at])
    expected = hand_step(twin, (w * losses).sum() / (w.sum() if divide_by == "weights" else 12))
    fit(Recipe(each_batch=rule, divide_by=divide_by), model, train, steps=1, batch=12, optimizer=sgd, device="cpu")
    close(model, expected)


def test_law_2_views_share_the_weights_and_mixing_blends_them() -> None:
    train, at = examples(12), order_of(examples(12))
    w = (train.ids[at] % 4).float()
    x, y = train.inputs[at], train.targets[at]

    def double(images: Tensor, generator: torch.Generator) -> Tensor:  # noqa: ARG001
        return 2 * images

    def same(images: Tensor, generator: torch.Generator) -> Tensor:  # noqa: ARG001
        return images

    model, twin = net(seed=1), net(seed=1)
    both = (hand_losses(twin, x, y) + hand_losses(twin, 2 * x, y)) / 2
    expected = hand_step(twin, (w * both).sum() / w.sum())
    rule = by_id(lambda ids: ids % 4)
    fit(Recipe(each_batch=rule, views=(same, double)), model, train, steps=1, batch=12, optimizer=sgd, device="cpu")
    close(model, expected)

    def with_next(evidence: Evidence) -> Pairing:
        n = len(evidence)
        return Pairing(torch.arange(n).roll(-1), torch.linspace(0.5, 1.0, n))

    model, twin, partner, share = net(seed=1), net(seed=1), torch.arange(12).roll(-1), torch.linspace(0.5, 1.0, 12)
    mixed_x = share[:, None, None, None] * x + (1 - share)[:, None, None, None] * x[partner]
    own_w, other_w = share * w, (1 - share) * w[partner]  # each label counts as far as its example does
    total = own_w.dot(hand_losses(twin, mixed_x, y)) + other_w.dot(hand_losses(twin, mixed_x, y[partner]))
    expected = hand_step(twin, total / (own_w + other_w).sum())
    fit(Recipe(each_batch=rule, mix=with_next), model, train, steps=1, batch=12, optimizer=sgd, device="cpu")
    close(model, expected)


def copied(state: Any) -> Any:
    if isinstance(state, Tensor):
        return state.detach().clone()
    if isinstance(state, dict):
        return {key: copied(value) for key, value in state.items()}
    return state


@pytest.mark.parametrize("skipped", [1, 6])
@pytest.mark.parametrize(
    "make",
    [
        lambda p: torch.optim.Adam(p, lr=0.1),
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
        lambda p: torch.optim.RMSprop(p, lr=0.01, momentum=0.9),
    ],
    ids=["adam", "sgd", "rmsprop"],
)
@pytest.mark.parametrize("clock", ["batch", "epoch"])
def test_law_2_a_step_where_nothing_counts_changes_nothing(make: Any, skipped: int, clock: str) -> None:
    """An epoch rule that counts nobody of one batch alone is a peer's: the other one still visits the examples."""
    asked, held, shots = [0], [], []
    peers = 2 if clock == "epoch" else 1

    def remember(parameters: Any) -> torch.optim.Optimizer:
        held.append(make(parameters))
        return held[-1]

    def zero_once(evidence: Evidence) -> Tensor:
        asked[0] += 1
        return torch.full((len(evidence),), 0.0 if asked[0] == skipped else 1.0)

    def first_peer_zero_in_one_epoch(evidence: Evidence) -> Tensor:
        asked[0] += 1
        zero = asked[0] == 2 * skipped - 1  # asked once for each of the two networks
        return torch.full((len(evidence),), 0.0 if zero else 1.0)

    rules: dict[str, Any] = {"batch": {"each_batch": zero_once}, "epoch": {"each_epoch": first_peer_zero_in_one_epoch}}
    models: list[nn.Module] = []

    def supply() -> nn.Module:
        models.append(net(seed=len(models)))
        return models[-1]

    def watch(moment: Any) -> None:
        if moment.record is None:
            shots.append((copied(models[0].state_dict()), copied(dict(held[0].state))))

    train = examples(8)
    run = fit(
        Recipe(average=0.5, peers=peers, **rules[clock]), supply, train, epochs=7, batch=8, optimizer=remember,
        watch=watch, device="cpu",
    )  # fmt: skip
    assert [record["skipped"] for record in run.history] == [int(e == skipped) for e in range(1, 8)]
    before = shots[skipped - 2] if skipped > 1 else (net(seed=0).state_dict(), None)
    after, following = shots[skipped - 1], shots[skipped]
    assert_same_tensors(list(before[0].values()), list(after[0].values()))
    assert any((a != b).any() for a, b in zip(after[0].values(), following[0].values(), strict=True))
    for parameter, state in after[1].items():
        for name, value in state.items():
            old = torch.zeros_like(value) if before[1] is None else before[1][parameter][name]
            assert_same_tensors([value], [old])


def test_law_2_a_skipped_step_leaves_the_average() -> None:
    train, asked, model = examples(8), [0], net(seed=0, batch_norm=True)

    def only_first(evidence: Evidence) -> Tensor:
        asked[0] += 1
        return torch.full((len(evidence),), float(asked[0] == 1))

    recipe = Recipe(each_batch=only_first, average=0.5)
    once = fit(recipe, net(seed=0, batch_norm=True), train, steps=1, batch=8, device="cpu")
    asked[0] = 0
    more = fit(recipe, model, train, steps=4, batch=8, device="cpu")
    assert [record["skipped"] for record in more.history] == [0, 1, 1, 1]
    assert_same_tensors(list(once.averages[0].state_dict().values()), list(more.averages[0].state_dict().values()))
    assert_same_tensors(list(once.model.parameters()), list(more.model.parameters()))


OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "adam": lambda p: torch.optim.Adam(p, lr=0.1),
    "adam amsgrad": lambda p: torch.optim.Adam(p, lr=0.1, amsgrad=True, weight_decay=0.1),
    "adam foreach": lambda p: torch.optim.Adam(p, lr=0.1, foreach=True),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.1),
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "sgd nesterov": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "sgd unfused": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, fused=False),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.1, momentum=0.9, centered=True),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.1, initial_accumulator_value=0.5),
    "adadelta": lambda p: torch.optim.Adadelta(p, lr=0.1),
    "adamax": lambda p: torch.optim.Adamax(p, lr=0.1),
    "nadam": lambda p: torch.optim.NAdam(p, lr=0.1),
    "radam": lambda p: torch.optim.RAdam(p, lr=0.1),
}


@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS.keys())
@pytest.mark.parametrize("skips", [(0,), (5,), (0, 1, 5)])
def test_law_2_skipped_steps_might_never_have_been(make: Any, skips: tuple[int, ...]) -> None:
    """The same gradients, with and without skipped ones between them, end at the same parameters."""

    def end(with_skips: bool) -> Tensor:
        parameter = nn.Parameter(torch.linspace(-1, 1, 6))
        optimizer = prepare(make([parameter]))
        draws = torch.Generator().manual_seed(0)
        for place in range(8):
            gradient = torch.randn(6, generator=draws)
            if place in skips and not with_skips:
                continue
            parameter.grad = gradient
            step_unless(torch.tensor(float(place in skips)), optimizer)
        return parameter.detach()

    torch.testing.assert_close(end(True), end(False), rtol=1e-6, atol=1e-7)


# 3. Sweeps run in eval mode, without augmentation, and touch no buffer and no global random state.


class Spy(nn.Module):
    """Notes in which mode it was called, and on how many examples."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[bool, int]] = []

    def forward(self, inputs: Tensor) -> Tensor:
        self.calls.append((self.training, len(inputs)))
        return inputs


def everything_random() -> tuple[Any, ...]:
    return torch.get_rng_state().tolist(), random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002


def test_law_3_sweeps_leave_no_trace() -> None:
    train, spy = examples(44), Spy()
    model = nn.Sequential(net(dropout=0.5, batch_norm=True, seed=0), spy)
    viewed = [0]

    def view(images: Tensor, generator: torch.Generator) -> Tensor:
        viewed[0] += 1
        return images + torch.randn(images.shape, generator=generator)

    recipe = Recipe(each_epoch=KeepSmallest(by=signals.loss, fraction=0.8), views=(view,), average=0.9)
    before = everything_random()
    run = fit(
        recipe, model, train, epochs=3, batch=8, test=examples(20, seed=1), validation=examples(20, seed=2),
        keep="best_on_validation", device="cpu",
    )  # fmt: skip
    assert everything_random() == before
    steps = sum(record["steps"] for record in run.history)
    assert [size for training, size in spy.calls if training] == [8] * steps
    assert {size for training, size in spy.calls if not training} >= {44, 20}
    assert viewed[0] == steps + 1  # one more to see at the start whether the view fits
    best = max(run.history, key=lambda record: record["validation"])
    counted = [b for name, b in model.named_buffers() if name.endswith("num_batches_tracked")]
    assert counted[0] == sum(record["steps"] for record in run.history[: best["epoch"]])


@pytest.mark.parametrize("wanted", [signals.loss, signals.gradient_norm], ids=["loss", "gradient norm"])
def test_law_3_one_sweep(wanted: signals.Signal) -> None:
    train, model = examples(30), net(dropout=0.5, batch_norm=True, seed=0)
    model[0].eval()
    state, modes, random_state = copied(model.state_dict()), [m.training for m in model.modules()], everything_random()
    swept = Sweeper(batch=7, factored=True)(model, CrossEntropy(), train, wanted=[wanted])
    assert_same_tensors(list(state.values()), list(model.state_dict().values()))
    assert [m.training for m in model.modules()] == modes
    assert everything_random() == random_state
    assert all(p.grad is None for p in model.parameters())
    torch.testing.assert_close(swept.outputs, model.eval()(train.inputs).detach(), rtol=1e-5, atol=1e-6)
    assert not swept.outputs.requires_grad


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_law_3_an_interrupted_run_leaves_the_random_state(error: type[BaseException]) -> None:
    def stop(moment: Any) -> None:
        if moment.step == 2:
            raise error("stop")

    before = everything_random()
    with pytest.raises(error) as caught:
        fit(Recipe(), net(dropout=0.5, seed=0), examples(), epochs=1, batch=8, watch=stop, device="cpu")
    assert everything_random() == before
    del caught
    torch.rand(3)
    before = everything_random()
    gc.collect()
    assert everything_random() == before


def test_law_3_weigh_leaves_no_trace() -> None:
    train, model = examples(30), net(dropout=0.5, batch_norm=True, seed=0)
    state, random_state = copied(model.state_dict()), everything_random()
    for rule in (KEEP, KeepLargest(by=signals.entropy, count=2), product(KEEP, per_class(KEEP)), NearOrigin()):
        weigh(rule, model, train.inputs, train.targets)
    assert_same_tensors(list(state.values()), list(model.state_dict().values()))
    assert everything_random() == random_state
    assert model.training
    assert all(p.grad is None for p in model.parameters())


# 4. Batch weight = epoch weight × batch rule's weight.


@pytest.mark.parametrize("norms", [False, True], ids=["plain", "factored"])
def test_law_4_epoch_weight_times_batch_weight(norms: bool) -> None:
    train, model, twin = examples(24), net(seed=1), net(seed=1)
    batch_rule: Any = by_id(lambda ids: 1 + ids % 2)
    batch_rule = product(batch_rule, ClipNorm(1e9)) if norms else batch_rule
    recipe = Recipe(each_epoch=by_id(lambda ids: ids % 4 * 0.5), each_batch=batch_rule)
    run = fit(recipe, model, train, epochs=1, batch=len(train) * 3 // 4, optimizer=sgd, device="cpu")
    table = run.ledger.to_pandas()
    assert (
        table["weight"][table["visited"]] == (table["id"] % 4 * 0.5 * (1 + table["id"] % 2))[table["visited"]]
    ).all()
    assert (table["visited"] == (table["id"] % 4 > 0)).all()
    assert (table["weight"][~table["visited"]] == 0).all()
    assert (table["kept"] == (table["weight"] > 0)).all()
    w = train.ids % 4 * 0.5 * (1 + train.ids % 2)
    close(model, hand_step(twin, (w * hand_losses(twin, train.inputs, train.targets)).sum() / w.sum()))


# 5. Every decision enters the ledger.

CLEAN = examples(9, seed=5, corrupt=0.0)
OTHER_RECIPES: dict[str, Recipe] = {
    "agreement and mix": Recipe(each_batch=MetaGradient(), mix=Mixup()),
    "agreement, norms and views": Recipe(
        each_batch=product(KeepLargest(by=signals.clean_agreement, fraction=0.5), ClipNorm(1.0)),
        views=(Flip(), Shift(0.25)),
    ),
    "agreement of the peer": Recipe(peers=2, each_batch=from_peer(MetaGradient())),
    "agreement and labels of the average": Recipe(
        each_batch=MetaGradient(), relabel=AverageLabels(), average=0.9, each_epoch=KEEP
    ),
    "views": Recipe(each_batch=KEEP, views=(Flip(), Shift(0.25))),
    "mix": Recipe(mix=Mixup()),
    "mix and rule": Recipe(each_batch=KEEP, mix=Mixup()),
    "mix and norms": Recipe(each_batch=KeepSmallest(by=signals.gradient_norm, fraction=0.5), mix=Mixup()),
    "most central, mixed within the class": Recipe(
        each_epoch=per_class(Centrality(fraction=0.5)), mix=SameClassMixup(), views=(Flip(),)
    ),
    "medoids, mixed within the cluster": Recipe(
        each_epoch=warmup(1, per_class(FacilityLocation(fraction=0.5))), mix=ClusterMixup(), views=(Flip(), Shift(0.25))
    ),
    "medoids, a rule and mixing": Recipe(
        each_epoch=FacilityLocation(fraction=0.7), each_batch=KEEP, mix=ClusterMixup(0.3), average=0.9
    ),
    "relabel": Recipe(relabel=AverageLabels(), average=0.9),
    "relabel and mix": Recipe(each_batch=KEEP, relabel=AverageLabels(), average=0.9, mix=Mixup(), views=(Flip(),)),
    "norms, relabel and views": Recipe(
        each_batch=KeepSmallest(by=signals.gradient_norm, fraction=0.5),
        relabel=AverageLabels(),
        average=0.9,
        views=(Flip(), Shift(0.25)),
    ),
    "average": Recipe(average=0.9),
    "growing average": Recipe(average=Growing(0.9), each_batch=KEEP, clip=Clamped(0.1)),
    "clip": Recipe(clip=1.0),
    "per class": Recipe(each_batch=per_class(KEEP)),
    "per given class": Recipe(each_batch=warmup(1, per_class(KEEP, of=signals.given))),
    "clipped norms": Recipe(each_batch=ClipNorm(ramp(1.0, 0.5, epochs=2)), divide_by="batch"),
    "epoch rule": Recipe(each_epoch=every(2, KEEP), each_batch=KEEP),
    "epoch rule per class": Recipe(each_epoch=per_class(product(KEEP, Uniform()))),
    "peers and epochs": Recipe(peers=2, each_epoch=from_peer(KEEP)),
    "features": Recipe(each_batch=product(KEEP, NearOrigin())),
    "reclaim with views, two networks": replace(
        reclaim(Setting(0.25, 3, 3), rest=Uniform(), views=(Flip(), Shift(0.25))), peers=2
    ),
    "reclaim and agreement": reclaim(Setting(0.25, 3, 3), correct=MetaGradient(), rest=Uniform()),
    "reclaim as seen": reclaim(
        Setting(0.25, 3, 3), correct=KeepSmallest(by=signals.gradient_norm, fraction=0.9), rest=Uniform(), mix=None
    ),
    "largest": Recipe(each_batch=KeepLargest(by=signals.margin, fraction=0.5)),
}


def registered() -> dict[str, Recipe]:
    """Every registered recipe for classes; those that read a clean set get CLEAN."""
    known = METHODS.items()
    chosen = {name: method for name, method in known if "classification" in method.tasks and method.make is not None}
    return {name: method.recipe(noise_rate=0.25, classes=3, epochs=3) for name, method in chosen.items()}


ALL_RECIPES = {**registered(), **OTHER_RECIPES}


@pytest.mark.parametrize("recipe", ALL_RECIPES.values(), ids=ALL_RECIPES.keys())
def test_law_5_every_method_has_its_figures(recipe: Recipe) -> None:
    train = examples(44)
    run = fit(recipe, net, train, epochs=3, batch=8, clean=CLEAN, device="cpu")
    table = run.ledger.to_pandas()
    assert len(table) == 3 * recipe.peers * len(train)
    for record in run.history:
        everyone = table[table["epoch"] == record["epoch"]]
        rows = everyone[everyone["visited"]]
        true = train.columns["true_target"].numpy()[(rows["id"] - 1) // 3]
        right = (rows["taught"] if "taught" in rows else rows["target"]).to_numpy() == true
        weights = rows["weight"].to_numpy(np.float64)
        assert record["clean_share"] == pytest.approx(right[weights > 0].mean())
        left_out = (~everyone["visited"] & (everyone["weight"] == 0)).sum()
        assert record["kept"] == pytest.approx((weights > 0).sum() / (len(rows) + left_out))
        assert record["effective"] == pytest.approx(weights.sum() ** 2 / (weights**2).sum() / len(weights))
        assert record["loss"] == pytest.approx((weights * rows["loss"]).sum() / weights.sum(), rel=1e-5)
        assert rows["loss"].notna().all()
    ids, trust = run.trust()
    assert sorted(ids.tolist()) == sorted(train.ids.tolist())
    assert ((trust >= 0) & (trust <= 1)).all()
    assert trust.unique().numel() > 1


# 6. No host synchronisation inside a step, and static shapes.

WAITING = {
    "_local_scalar_dense",
    "nonzero",
    "masked_select",
    "_unique2",
    "unique_dim",
    "bincount",
    "is_nonzero",
    "equal",
}


class Strict(TorchDispatchMode):
    """Fails on operations whose result the host must wait for; notes what is done, with shapes."""

    def __init__(self) -> None:
        super().__init__()
        self.done: list[tuple[str, Any]] = []

    def __torch_dispatch__(self, function: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = function.overloadpacket.__name__
        if name in WAITING:
            raise AssertionError(f"{name} makes the host wait")
        if name in ("index", "index_put", "index_put_"):
            picks = [pick for pick in args[1] if pick is not None]
            if any(pick.dtype in (torch.bool, torch.uint8) for pick in picks):
                raise AssertionError("a boolean index makes the host wait")
        result = function(*args, **(kwargs or {}))
        several = result if isinstance(result, (list, tuple)) else [result]
        self.done.append((str(function), [list(each.shape) for each in several if isinstance(each, Tensor)]))
        return result


@contextmanager
def strictly(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[list[tuple[str, Any]]]]:
    """Every step inside is strict; gives what each did."""
    notes: list[list[tuple[str, Any]]] = []
    original = Step.__call__

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a copy to the host makes it wait")

    def call(self: Step, *args: Any) -> None:
        with Strict() as mode, pytest.MonkeyPatch.context() as patch:
            for name in ("cpu", "numpy", "tolist", "item", "__bool__", "__float__", "__int__", "__array__"):
                patch.setattr(Tensor, name, refuse)
            original(self, *args)
        notes.append(mode.done)

    monkeypatch.setattr(Step, "__call__", call)
    yield notes


@pytest.mark.parametrize("recipe", ALL_RECIPES.values(), ids=ALL_RECIPES.keys())
def test_law_6_no_step_waits_and_all_steps_do_the_same(recipe: Recipe, monkeypatch: pytest.MonkeyPatch) -> None:
    with strictly(monkeypatch) as notes:
        fit(recipe, net, examples(44), steps=9, batch=8, clean=CLEAN, device="cpu")
    assert len(notes) == 9
    # The first step creates the optimizer's state; a schedule's or warmup's epoch may change what a rule does.
    for epoch in (notes[1:5], notes[6:]):
        for step in epoch[1:]:
            assert step == epoch[0]


def test_law_6_regression(monkeypatch: pytest.MonkeyPatch) -> None:
    for recipe in (Recipe(each_batch=KEEP), Recipe(mix=Mixup()), Recipe(relabel=AverageLabels(), average=0.5)):
        with strictly(monkeypatch) as notes:
            fit(recipe, lambda: net(2), real_examples(44), steps=5, batch=8, device="cpu")
        monkeypatch.undo()
        assert len(notes) == 5
        assert notes[1] == notes[2] == notes[3]


def test_law_6_a_skipped_step_does_what_every_step_does(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = [0]

    def zero_once(evidence: Evidence) -> Tensor:
        asked[0] += 1
        return torch.full((len(evidence),), float(asked[0] != 3))

    with strictly(monkeypatch) as notes:
        run = fit(
            Recipe(each_batch=zero_once, average=0.9, clip=1.0), net, examples(44), steps=5, batch=8, device="cpu"
        )
    assert sum(record["skipped"] for record in run.history) == 1
    assert notes[1] == notes[2] == notes[3]


# 7. Same seed, same result.

SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "momentum and schedule": {
        "optimizer": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9),
        "schedule": cosine(1.0),
    },
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS.keys())
@pytest.mark.parametrize("recipe", ALL_RECIPES.values(), ids=ALL_RECIPES.keys())
def test_law_7_same_seed_same_bits_and_other_seed_other_bits(recipe: Recipe, settings: dict[str, Any]) -> None:
    def run(seed: int, noise: int) -> Run:
        torch.manual_seed(noise)
        random.seed(noise)
        np.random.seed(noise)  # noqa: NPY002
        data: dict[str, Any] = {"train": examples(), "clean": CLEAN}
        return fit(recipe, lambda: net(dropout=0.5), **data, epochs=2, batch=8, seed=seed, device="cpu", **settings)

    first = run(0, 1)
    assert_same_run(first, run(0, 2))
    assert any((a != b).any() for a, b in zip(tensors(first), tensors(run(1, 1)), strict=True))


def test_law_7_dropout_differs_between_steps_and_epochs_but_not_between_runs() -> None:
    """A network that only passes on what dropout leaves, so that the masks themselves can be compared."""

    def masks(seed: int) -> list[list[float]]:
        seen: list[list[float]] = []

        class Noted(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.drop, self.head = nn.Dropout(0.5), nn.Linear(16, 3)

            def forward(self, inputs: Tensor) -> Tensor:
                dropped = self.drop(torch.ones_like(inputs.flatten(1)))
                if self.training:
                    seen.append(dropped.flatten().tolist())
                outputs: Tensor = self.head(dropped)
                return outputs

        fit(Recipe(), Noted(), examples(16), epochs=2, batch=8, seed=seed, device="cpu")
        return seen

    first = masks(0)
    assert first == masks(0)
    assert len({str(mask) for mask in first}) == 4
    assert all(a != b for a, b in zip(first, masks(1), strict=True))


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("name", ["standard", "prl-l", "co-teaching"])
def test_law_7_streamed_equals_in_memory(name: str, workers: int) -> None:
    recipe, train = registered()[name], examples()
    settings: dict[str, Any] = {"epochs": 2, "batch": 8, "device": "cpu"}
    here = fit(recipe, lambda: net(dropout=0.5), train, test=examples(20, seed=1), **settings)
    there = fit(
        recipe,
        lambda: net(dropout=0.5),
        streamed(train),
        test=streamed(examples(20, seed=1)),
        workers=workers,
        **settings,
    )
    assert_same_run(here, there)


class Jittered(Streamed):
    """Items with random transforms of all three global generators."""

    def __getitem__(self, position: int) -> Any:
        noise = torch.rand(1) + random.random() + np.random.random()  # noqa: NPY002
        return self.inputs[position] + noise.float(), "item"


def test_law_7_random_transforms_do_not_depend_on_workers_or_global_state() -> None:
    train = examples()
    moving = Examples(Jittered(train.inputs), train.targets, ids=train.ids, classes=3)
    runs = []
    for noise, workers in ((1, 0), (2, 1), (3, 2)):
        torch.manual_seed(noise)
        random.seed(noise)
        runs.append(fit(Recipe(), net, moving, epochs=2, batch=8, workers=workers, device="cpu"))
    assert_same_run(runs[0], runs[1])
    assert_same_run(runs[0], runs[2])
    losses = runs[0].ledger.to_pandas().groupby("epoch")["loss"].mean()
    still = (
        fit(Recipe(), net, train, epochs=2, batch=8, device="cpu").ledger.to_pandas().groupby("epoch")["loss"].mean()
    )
    assert (losses != still).all()


def test_law_7_a_watcher_cannot_change_the_run() -> None:
    def busy(moment: Any) -> None:  # noqa: ARG001
        torch.rand(7)
        torch.manual_seed(5)

    quiet = fit(Recipe(mix=Mixup()), lambda: net(dropout=0.5), examples(), epochs=2, batch=8, device="cpu")
    watched = fit(
        Recipe(mix=Mixup()), lambda: net(dropout=0.5), examples(), epochs=2, batch=8, watch=busy, device="cpu"
    )
    assert_same_run(quiet, watched)


# 8. Rules know nothing of processes or devices.

RULES: dict[str, Any] = {
    "smallest": KEEP,
    "smallest gradient": KeepSmallest(by=signals.gradient_norm, fraction=0.4),
    "largest": KeepLargest(by=signals.entropy, count=5),
    "clip": ClipNorm(0.5),
    "uniform": Uniform(),
    "per class": per_class(KEEP, of=signals.given),
    "product": product(KEEP, ClipNorm(0.5)),
    "features": NearOrigin(),
}


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES.keys())
def test_law_8_the_order_of_a_batch_does_not_matter(rule: Any) -> None:
    train, model = examples(20), net(seed=0)
    shuffle = torch.randperm(20, generator=torch.Generator().manual_seed(0))
    weights = weigh(rule, model, train.inputs, train.targets)
    torch.testing.assert_close(weigh(rule, model, train.inputs[shuffle], train.targets[shuffle]), weights[shuffle])
    again = weigh(rule, model.double(), train.inputs.double(), train.targets)
    torch.testing.assert_close(again.float(), weights, rtol=1e-4, atol=1e-5)


def test_law_8_rules_and_signals_import_nothing_about_processes_or_devices() -> None:
    known = {
        "abc",
        "collections",
        "dataclasses",
        "typing",
        "math",
        "torch",
        "numpy",
        "thresher",
        "functools",
        "itertools",
    }
    for path in [*SOURCE.glob("rules/*.py"), SOURCE / "signals.py", SOURCE / "schedules.py"]:
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert {name.split(".")[0] for name in names} <= known, path.name
            assert not any(name.startswith("torch.distributed") for name in names), path.name
            if isinstance(node, ast.Attribute):
                assert node.attr not in ("cuda", "distributed", "get_rank", "is_cuda", "multiprocessing"), path.name
            if isinstance(node, ast.Attribute) and node.attr == "type":
                assert not ast.unparse(node.value).endswith("device"), f"{path.name} asks which device it is on"


# 9. Wrong input fails at the start: see test_refusals.py.
