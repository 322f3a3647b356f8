"""The second law: one place learns, and where nothing counts nothing changes."""

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny import assert_same_tensors, by_id, close, copied, examples, hand_losses, hand_step, net, sgd
from torch import Tensor, nn

import thresher
from thresher import Examples, Recipe, fit
from thresher.core.evidence import Evidence
from thresher.engine.step.optimizer import fused_where_possible, step_unless
from thresher.rules import ClipNorm, product
from thresher.slots.mix import Pairing

SOURCE = Path(thresher.__file__).parent


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
    mentor = "rules/mentor.py"  # which is taught its curriculum from generated losses, before any training
    backward = {"backward", "_engine_run_backward"}
    assert files_that(lambda name, _: name.split(".")[-1] in backward) == {"engine/step/step.py", mentor}
    assert files_that(lambda name, count: name.endswith(".step") and count == 0) <= {
        "engine/step/optimizer.py",
        "engine/step/learner.py",
        mentor,
    }
    assert files_that(lambda name, _: name.split(".")[-1] == "step_unless") == {"engine/step/learner.py"}
    by_hand = {"engine/step/optimizer.py", "engine/step/learner.py"}
    assert files_that(lambda name, _: name.split(".")[-1] == "take_step") == by_hand
    # For signals only: the gradient of the outputs, the norms of single examples, and the clean set's gradient.
    gradients = ("factored", "formulas", "unfactored")
    allowed = {"engine/step/step.py", *(f"engine/gradients/{name}.py" for name in gradients)}
    allowed |= {"core/objective.py", "engine/step/carried.py"}
    differentiating = {"grad", "jacrev", "jacfwd", "vjp", "jvp"}
    assert files_that(lambda name, _: name.split(".")[-1] in differentiating) <= allowed


def order_of(train: Examples, seed: int = 0, epoch: int = 0) -> Tensor:
    """The order in which the first epoch visits a set, by the published seeding."""
    return torch.randperm(len(train), generator=thresher.core.seeding.generator(seed, "order", epoch))


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
        optimizer = fused_where_possible(make([parameter]))
        draws = torch.Generator().manual_seed(0)
        for place in range(8):
            gradient = torch.randn(6, generator=draws)
            if place in skips and not with_skips:
                continue
            parameter.grad = gradient
            step_unless(torch.tensor(float(place in skips)), optimizer)
        return parameter.detach()

    torch.testing.assert_close(end(True), end(False), rtol=1e-6, atol=1e-7)
