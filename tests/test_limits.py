"""Limits in which a method is plain training: there it must equal a hand-written loop exactly."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from tiny import assert_same_tensors, by_id, examples, net, real_examples
from torch import Tensor, nn
from torch.nn import functional

from thresher import Examples, Moment, Recipe, fit, signals
from thresher.core import seeding
from thresher.core.evidence import Evidence
from thresher.core.rule import Decision
from thresher.core.schedules import cosine, ramp
from thresher.engine.loop.feed import TrainStream
from thresher.methods import METHODS
from thresher.rules import ClipNorm, KeepSmallest, Uniform, every, from_peer, once, per_class, product, warmup
from thresher.slots.average import Growing
from thresher.slots.draw import shuffled
from thresher.slots.mix import Pairing

EPOCHS, BATCH = 3, 8
Make = Callable[[Any], torch.optim.Optimizer]
OPTIMIZERS: dict[str, Make] = {
    "adam": lambda p: torch.optim.Adam(p, lr=1e-2, fused=True),
    "sgd": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=1e-3, fused=True),
}


def orders(n: int, seed: int) -> Iterator[list[Tensor]]:
    """Full batches of every epoch: everyone once in random order, after what the last epoch left over."""
    left = torch.empty(0, dtype=torch.long)
    for epoch in range(EPOCHS):
        drawn = torch.randperm(n, generator=seeding.generator(seed, "order", epoch))
        again = torch.isin(drawn, left)
        order = torch.cat([left, drawn[~again], drawn[again]])
        cut = len(order) // BATCH * BATCH
        left = order[cut:]
        yield list(order[:cut].split(BATCH))


def plain_loop(
    model: nn.Module, train: Examples, make: Make, seed: int = 0, schedule: Any = None, clip: float | None = None
) -> list[Tensor]:
    """Plain training as anybody would write it, with the batches and the dropout seeds that fit() uses."""
    loss = nn.MSELoss() if train.is_regression else nn.CrossEntropyLoss()
    optimizer = make(model.parameters())
    rate = optimizer.param_groups[0]["lr"]
    model.train()
    assert isinstance(train.inputs, Tensor)
    with seeding.preserved():
        for epoch, batches in enumerate(orders(len(train), seed)):
            for step, at in enumerate(batches):
                if schedule is not None:
                    optimizer.param_groups[0]["lr"] = rate * schedule(epoch + step / len(batches), EPOCHS)
                seeding.seed_global(torch.device("cpu"), seed, epoch, step)
                optimizer.zero_grad()
                total = loss(model(train.inputs[at]), train.targets[at])
                if train.is_regression:  # ½ Σ over targets, mean over examples
                    total = total * train.targets.shape[1] / 2
                total.backward()
                if clip is not None:
                    nn.utils.clip_grad_norm_(model.parameters(), clip)
                optimizer.step()
    return list(model.state_dict().values())


def fitted(recipe: Recipe, train: Examples, make: Make, model: nn.Module, **settings: Any) -> list[Tensor]:
    run = fit(recipe, model, train, epochs=EPOCHS, batch=BATCH, optimizer=make, device="cpu", **settings)
    return list(run.model.state_dict().values())


def one_with_itself(evidence: Evidence) -> Pairing:
    n = len(evidence)
    return Pairing(torch.arange(n).roll(1), torch.ones(n))


def keep(by: signals.Signal) -> KeepSmallest:
    return KeepSmallest(by=by, fraction=1.0)


EXACT: dict[str, Recipe] = {
    "standard": METHODS["standard"].recipe(),
    "spl": METHODS["spl"].recipe(noise_rate=0.0),
    "prl-l": METHODS["prl-l"].recipe(noise_rate=0.0),
    "every epoch keeps all": Recipe(each_epoch=keep(signals.loss)),
    "keep all of each class": Recipe(each_batch=per_class(keep(signals.loss))),
    "a ramp from 1 to 1": Recipe(each_batch=KeepSmallest(by=signals.loss, fraction=ramp(1.0, 1.0, epochs=2))),
    "a clip nothing reaches": Recipe(clip=1e9),
    "no clip at all": Recipe(clip=float("inf")),
    "an average nobody reads": Recipe(average=0.9),
    "warmup longer than the run": Recipe(
        each_batch=warmup(EPOCHS, KeepSmallest(by=signals.loss, fraction=0.1)),
        each_epoch=warmup(EPOCHS, KeepSmallest(by=signals.loss, fraction=0.1)),
    ),
    "uniform": Recipe(each_batch=product(Uniform(), Uniform()), each_epoch=once(every(2, Uniform()))),
    "all weights 4": Recipe(each_batch=by_id(lambda ids: torch.full_like(ids, 4))),
    "all weights 1/4 by batch and 4 by epoch": Recipe(
        each_batch=by_id(lambda ids: torch.full_like(ids, 1) / 4),
        each_epoch=by_id(lambda ids: torch.full_like(ids, 4)),
        divide_by="batch",
    ),
    "a view that changes nothing": Recipe(views=(lambda images, generator: images,)),  # noqa: ARG005
}


@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS.keys())
@pytest.mark.parametrize("count", [40, 44], ids=["whole epochs", "a remainder"])
@pytest.mark.parametrize("recipe", EXACT.values(), ids=EXACT.keys())
def test_limit_equals_plain_training_bit_for_bit(recipe: Recipe, count: int, make: Make) -> None:
    train = examples(count)
    expected = plain_loop(net(seed=3, dropout=0.3, batch_norm=True), train, make)
    assert_same_tensors(fitted(recipe, train, make, net(seed=3, dropout=0.3, batch_norm=True)), expected)


def test_few_are_repeated_evenly_whatever_an_epoch_left_over() -> None:
    stream = TrainStream(examples(44), shuffled, 16, seed=0)
    stream.order(0, None, None)
    assert len(stream.carry) == 12
    few = torch.zeros(44).index_fill(0, torch.cat([stream.carry[:5], torch.arange(44)])[:9], 1.0)
    with pytest.warns(UserWarning, match="fewer examples than a batch of 16"):
        visits = torch.bincount(stream.order(1, [Decision(few)], None).flatten(), minlength=44)
    kept = int(few.sum())
    assert visits.shape == (44,)
    assert visits[few == 0].sum() == 0
    assert visits[few == 1].min() >= 16 // kept
    assert visits[few == 1].max() <= -(-16 // kept)


def test_fewer_than_a_batch_fill_one_by_turns() -> None:
    """A method that trusts three examples goes on with them; each appears as often as a batch of eight asks for."""
    train, make = examples(44), OPTIMIZERS["sgd"]
    seen: list[Tensor] = []

    def noted(evidence: Evidence) -> Tensor:
        seen.append(evidence.ids.clone())
        return torch.ones(len(evidence))

    trusted = train.ids[[3, 17, 40]]
    recipe = Recipe(each_epoch=by_id(lambda ids: torch.isin(ids, trusted).float()), each_batch=noted)
    with pytest.warns(UserWarning, match="fewer examples than a batch of 8"):
        run = fit(recipe, net(seed=3), train, epochs=2, batch=8, optimizer=make, device="cpu")
    batches = [ids for ids in seen if len(ids) == 8]
    assert len(batches) == 2, "one step an epoch"
    expected, model = net(seed=3), run.model
    moves = make(expected.parameters())
    for ids in batches:
        assert torch.unique(ids, return_counts=True)[1].sort().values.tolist() == [2, 3, 3]
        at = torch.argmax((train.ids[None] == ids[:, None]).int(), 1)
        moves.zero_grad()
        functional.cross_entropy(expected(train.inputs[at]), train.targets[at]).backward()
        moves.step()
    for mine, other in zip(model.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(mine, other)
    table = run.ledger.to_pandas()
    assert set(table[table["visited"]]["id"]) == set(trusted.tolist())


@pytest.mark.parametrize("name", ["standard", "spl", "prl-l"])
def test_limit_regression_equals_plain_training(name: str) -> None:
    train, make = real_examples(44), OPTIMIZERS["adam"]
    expected = plain_loop(net(2, seed=3), train, make)
    ours = fitted(METHODS[name].recipe(noise_rate=0.0), train, make, net(2, seed=3))
    for mine, other in zip(ours, expected, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS.keys())
def test_limit_schedule_and_clip_equal_the_hand_written_ones(make: Make) -> None:
    train = examples(44)
    expected = plain_loop(net(seed=3), train, make, seed=5, schedule=cosine(1.0), clip=0.5)
    assert_same_tensors(fitted(Recipe(clip=0.5), train, make, net(seed=3), seed=5, schedule=cosine(1.0)), expected)


@pytest.mark.parametrize("train", [examples(44), real_examples(44)], ids=["classes", "real"])
@pytest.mark.parametrize(
    "recipe",
    [
        METHODS["prl-g"].recipe(noise_rate=0.0),
        Recipe(each_batch=ClipNorm(1e9)),
        Recipe(each_batch=ClipNorm(1e9), divide_by="batch"),
    ],
    ids=["prl-g", "clip norm", "clip norm by batch"],
)
def test_limit_factored_step_equals_plain_training(recipe: Recipe, train: Examples) -> None:
    """The gradient is summed in another order, so that the last bits differ; SGD keeps that from growing."""
    make = OPTIMIZERS["sgd"]
    expected = plain_loop(net(train.outputs, seed=3, dropout=0.3), train, make)
    for mine, other in zip(fitted(recipe, train, make, net(train.outputs, seed=3, dropout=0.3)), expected, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-6)


def test_limit_mixing_with_share_one() -> None:
    """The targets are one-hot rows then, whose cross entropy is summed in another order."""
    train, make = examples(44), OPTIMIZERS["sgd"]
    expected = plain_loop(net(seed=3, dropout=0.3), train, make)
    for mine, other in zip(
        fitted(Recipe(mix=one_with_itself), train, make, net(seed=3, dropout=0.3)), expected, strict=True
    ):
        torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("fraction", [1.0, 0.5])
def test_limit_identical_peers_teach_each_other_what_they_know(fraction: float) -> None:
    train, make = examples(44), OPTIMIZERS["adam"]
    rule = KeepSmallest(by=signals.loss, fraction=fraction)
    settings: dict[str, Any] = {"epochs": EPOCHS, "batch": BATCH, "optimizer": make, "device": "cpu"}
    alone = fit(Recipe(each_batch=rule), net(seed=3), train, **settings)
    pair = fit(Recipe(peers=2, each_batch=from_peer(rule)), lambda: net(seed=3), train, **settings)
    for model in pair.models:
        assert_same_tensors(list(model.state_dict().values()), list(alone.model.state_dict().values()))
    if fraction == 1.0:
        assert_same_tensors(list(alone.model.state_dict().values()), plain_loop(net(seed=3), train, make))


def test_limit_average_of_rate_zero_is_the_model_and_soft_labels_of_one_class_are_labels() -> None:
    train, make = examples(44), OPTIMIZERS["sgd"]
    settings: dict[str, Any] = {"epochs": EPOCHS, "batch": BATCH, "optimizer": make, "device": "cpu"}
    run = fit(Recipe(average=0.0), net(seed=3, batch_norm=True), train, **settings)
    for mine, other in zip(run.averages[0].state_dict().values(), run.model.state_dict().values(), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-6)
    soft = Examples(train.inputs, functional.one_hot(train.targets, 3).float(), ids=train.ids, classes=3)
    for mine, other in zip(
        fitted(Recipe(), soft, make, net(seed=3)), plain_loop(net(seed=3), train, make), strict=True
    ):
        torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-6)


def test_limit_a_growing_average_is_the_mean_of_all_steps_and_then_a_moving_one() -> None:
    train, seen = examples(24), []
    model = net(seed=3)

    def remember(moment: Moment) -> None:
        if moment.record is None:
            seen.append(copy.deepcopy(model.state_dict()))

    settings: dict[str, Any] = {"epochs": 2, "batch": 8, "optimizer": OPTIMIZERS["sgd"], "device": "cpu"}
    run = fit(Recipe(average=Growing(0.75)), model, train, watch=remember, **settings)
    assert len(seen) == 6
    for name, found in run.averages[0].state_dict().items():
        wanted = torch.stack([state[name] for state in seen[:4]]).mean(0)  # rates 0, 1/2, 2/3, 3/4
        for state in seen[4:]:
            wanted = 0.75 * wanted + 0.25 * state[name]
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)
