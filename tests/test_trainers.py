"""A weigher in loops that are not ours gives the weights of weigh, the parameters of fit, and a ledger."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from torch import Tensor, nn

from thresher import Examples, Recipe, fit, weigh
from thresher.core.errors import ThresherError
from thresher.core.recipe import shuffled
from thresher.engine.loop.feed import TrainStream
from thresher.methods import method
from thresher.record.ledger import Ledger
from thresher.report import write_report
from thresher.rules import Centrality, KeepSmallest, MetaGradient, from_peer, per_class
from thresher.trainers import Numbered, Weigher

N, BATCH, EPOCHS = 48, 12, 3
DRAWS = torch.Generator().manual_seed(0)
X = torch.randn(N, 6, generator=DRAWS)
Y = torch.where(torch.rand(N, generator=DRAWS) < 0.3, 1, 0) ^ (X[:, 0] > 0).long()
CLEAN = (torch.randn(10, 6, generator=DRAWS), torch.arange(10) % 2)
TRAIN = Examples(X, Y, ids=100 + torch.arange(N))
METHODS: dict[str, dict[str, Any]] = {
    "standard": {},
    "spl": {"noise_rate": 0.3},
    "prl-l": {"noise_rate": 0.3},
    "prl-g": {"noise_rate": 0.3},
    "l2rw": {"clean": CLEAN, "clean_batch": 4},
    "ignormclip": {},
}


def net(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 2))


def orders() -> Iterator[Tensor]:
    """The batches of every epoch of a run with seed 0, as positions."""
    stream = TrainStream(TRAIN, shuffled, BATCH, 0)
    for epoch in range(EPOCHS):
        yield stream.order(epoch, None, None)


def sgd(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.2, momentum=0.9)


def loop(weigher: Weigher, model: nn.Module, epochs: int = EPOCHS) -> None:
    optimizer = sgd(model.parameters())
    for _, order in zip(weigher.epochs(), list(orders())[:epochs], strict=True):
        for index in order:
            loss = weigher.loss(model, X[index], Y[index], ids=TRAIN.ids[index])
            optimizer.zero_grad()
            loss.backward()
            weigher.skip_if_empty(optimizer)
            optimizer.step()


def fitted(name: str, model: nn.Module) -> Any:
    known = dict(METHODS[name])
    if "clean" in known:
        known["clean"] = Examples(*CLEAN)
    return fit(name, model, TRAIN, epochs=EPOCHS, batch=BATCH, optimizer=sgd, seed=0, device="cpu", **known)


@pytest.mark.parametrize("name", METHODS)
def test_a_loop_of_ones_own_trains_as_fit_does(name: str) -> None:
    """The same parameters, the same weights and signals of every example in every epoch."""
    own, theirs = net(), net()
    weigher = Weigher(name, epochs=EPOCHS, **METHODS[name])
    loop(weigher, own)
    run = fitted(name, theirs)
    for mine, other in zip(own.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-6)
    found, expected = (each.table().sort_by([("epoch", "ascending"), ("id", "ascending")]) for each in
                       (weigher.ledger, run.ledger))  # fmt: skip
    assert found.column_names == expected.column_names
    for column in ("id", "epoch", "visited", "kept", "prediction", "target"):
        assert found[column].to_pylist() == expected[column].to_pylist(), column
    for column in ("signal", "weight", "loss", "p_given", "belief"):
        np.testing.assert_allclose(found[column].to_numpy(), expected[column].to_numpy(), rtol=2e-4, atol=1e-5)
    for ours, theirs_ in zip(weigher.history, run.history, strict=True):
        assert ours["kept"] == theirs_["kept"]
        assert ours["loss"] == pytest.approx(theirs_["loss"], rel=1e-4)


@pytest.mark.parametrize(
    ("what", "more"),
    [(KeepSmallest(by="loss", fraction=0.5), {}), (KeepSmallest(by="gradient_norm", count=3), {}),
     (MetaGradient(), {"clean": CLEAN})],
)  # fmt: skip
def test_weights_are_those_of_weigh(what: Any, more: dict[str, Any]) -> None:
    model, index = net(), torch.arange(BATCH)
    weigher = Weigher(what, **more)
    loss = weigher.loss(model, X[index], Y[index], ids=index)
    weigher.end_epoch()
    weights = weigh(what, model, X[index], Y[index], **more)
    assert weigher.ledger.table()["weight"].to_pylist() == pytest.approx(weights.tolist())
    losses = nn.functional.cross_entropy(model(X[index]), Y[index], reduction="none")
    torch.testing.assert_close(loss, (weights * losses).sum() / weights.sum())


@pytest.mark.parametrize("what", ["prl-g", "l2rw"])
def test_the_pass_that_is_looked_at_has_the_dropout_of_the_training_pass(what: str) -> None:
    torch.manual_seed(3)
    model, index = nn.Sequential(nn.Linear(6, 30), nn.Dropout(0.5), nn.Linear(30, 2)), torch.arange(BATCH)
    known = METHODS[what]
    weigher = Weigher(what, **known)
    loss = weigher.loss(model, X[index], Y[index], ids=index)
    weigher.end_epoch()
    row = weigher.ledger.table()
    assert float(loss.detach()) == pytest.approx(
        float(np.dot(row["weight"], row["loss"]) / sum(row["weight"].to_pylist()))
    )


def test_an_epoch_rule_is_asked_about_the_whole_set() -> None:
    rule, model = per_class(Centrality(fraction=0.5)), net()
    weigher = Weigher(Recipe(each_epoch=rule), train=TRAIN, epochs=1)
    run = fit(Recipe(each_epoch=rule), net(), TRAIN, epochs=1, batch=BATCH, device="cpu")
    loop(weigher, model, 1)
    table = weigher.ledger.table().sort_by("id")
    assert table["weight"].to_pylist() == run.ledger.table().sort_by("id")["weight"].to_pylist()
    assert 0 < sum(table["kept"].to_pylist()) < N


def test_crust_goes_without_its_mixing_and_says_so() -> None:
    with pytest.warns(UserWarning, match="mix of the method is left out"):
        weigher = Weigher("crust", train=TRAIN, epochs=EPOCHS)
    loop(weigher, net())
    assert weigher.history[-1]["kept"] == 1.0  # still its warm-up


def test_two_networks_select_for_each_other() -> None:
    rule, index = from_peer(KeepSmallest(by="loss", count=4)), torch.arange(BATCH)
    first, second = net(1), net(2)
    weigher = Weigher(rule)
    for model, peer in ((first, second), (second, first)):
        weigher.loss(model, X[index], Y[index], ids=index, peer=peer)
    weigher.end_epoch()
    table = weigher.ledger.table().sort_by([("peer", "ascending"), ("id", "ascending")])
    expected = [
        *weigh(rule, first, X[index], Y[index], peer=second),
        *weigh(rule, second, X[index], Y[index], peer=first),
    ]
    assert table["weight"].to_pylist() == [float(each) for each in expected]
    assert table["peer"].to_pylist() == [0] * BATCH + [1] * BATCH


def test_weights_of_the_data_multiply_those_of_the_rule() -> None:
    model, index = net(), torch.arange(BATCH)
    given = torch.rand(BATCH, generator=torch.Generator().manual_seed(1))
    loss = Weigher("standard").loss(model, X[index], Y[index], weight=given)
    losses = nn.functional.cross_entropy(model(X[index]), Y[index], reduction="none")
    torch.testing.assert_close(loss, (given * losses).sum() / given.sum())


def test_where_nothing_counts_nothing_moves() -> None:
    model, index = net(), torch.arange(BATCH)
    optimizer, weigher = sgd(model.parameters()), Weigher("standard")
    for weight in (torch.ones(BATCH), torch.zeros(BATCH)):
        before = [parameter.clone() for parameter in model.parameters()]
        optimizer.zero_grad()
        weigher.loss(model, X[index], Y[index], ids=index, weight=weight).backward()
        weigher.skip_if_empty(optimizer)
        optimizer.step()
        same = [torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True)]
        assert all(same) == (weight.sum() == 0)
    weigher.end_epoch()
    assert weigher.history[0]["skipped"] == 1


def test_an_example_that_is_drawn_twice_has_one_row() -> None:
    weigher, model, index = Weigher("prl-l", noise_rate=0.3), net(), torch.tensor([5, 5, 7, 8])
    weigher.loss(model, X[index], Y[index], ids=index)
    weigher.end_epoch()
    assert weigher.ledger.table()["id"].to_pylist() == [5, 7, 8]


@pytest.mark.parametrize("targets", [X[:, :2], (X[:, :3] > 0).float(), torch.arange(N * 4).view(N, 4) % 3])
def test_other_targets_than_classes_have_rows_too(targets: Tensor) -> None:
    dense = targets.dtype == torch.long
    torch.manual_seed(0)
    model: nn.Module = nn.Linear(6, 12 if dense else targets.shape[1])
    model = nn.Sequential(model, nn.Unflatten(1, (4, 3))) if dense else model
    weigher = Weigher(KeepSmallest(by="loss", fraction=0.5))
    weigher.loss(model, X, targets, ids=torch.arange(N)).backward()
    weigher.end_epoch()
    assert weigher.ledger.table().num_rows == N
    assert weigher.history[0]["kept"] == 0.5


def test_a_folder_is_written_that_the_report_reads(tmp_path: Path) -> None:
    weigher = Weigher("prl-l", noise_rate=0.3, epochs=EPOCHS, train=TRAIN, out=tmp_path)
    loop(weigher, net())
    assert Ledger.read(tmp_path).table().num_rows == N * EPOCHS
    assert (tmp_path / "examples.parquet").is_file()
    assert "<html" in write_report([tmp_path], tmp_path / "report.html").read_text()


def test_a_folder_without_the_data_says_whom_the_report_shows(tmp_path: Path) -> None:
    weigher = Weigher("prl-l", noise_rate=0.3, epochs=EPOCHS, out=tmp_path)
    loop(weigher, net())
    stored = pq.read_table(tmp_path / "examples.parquet")
    ids, trust = weigher.ledger.trust()
    assert stored["id"].to_pylist() == ids.tolist() == TRAIN.ids.tolist()
    assert stored["trust"].to_pylist() == trust.tolist()
    assert stored["target"].to_pylist() == Y.tolist()
    assert '"signal":[' in write_report([tmp_path], tmp_path / "report.html").read_text()


def test_a_weigher_under_autocast_leaves_gradients_to_the_training_pass() -> None:
    """Parameters that autocast has cast without gradients must not be used again by the pass of the loop."""
    for rule in (KeepSmallest(by="loss", fraction=0.5), KeepSmallest(by="gradient_norm", fraction=0.5), MetaGradient()):
        model = net()
        with torch.autocast("cpu", torch.bfloat16):
            weights = weigh(rule, model, X, Y, clean=CLEAN)
            losses = nn.functional.cross_entropy(model(X), Y, reduction="none")
        (weights * losses).sum().backward()
        assert all(parameter.grad is not None for parameter in model.parameters())


def test_items_get_their_places_as_ids() -> None:
    data = Numbered([{"x": 1.0}, {"x": 2.0}])
    assert len(data) == 2
    assert data[1] == {"x": 2.0, "id": 1}


def _weigh_something(weigher: Weigher) -> Any:
    return weigher.loss(net(), X[:4], Y[:4], ids=torch.arange(4))


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Weigher("prl-l"), "assumes a share of wrong targets: pass noise_rate="),
        (lambda: Weigher(Recipe(each_epoch=Centrality(fraction=0.5))), r"pass train=Examples\(...\)"),
        (lambda: _weigh_something(Weigher("l2rw")), r"pass clean=\(inputs, targets\) to Weigher"),
        (lambda: Weigher("prl-l", noise_rate=0.2, clean=CLEAN), "reads no clean set"),
        (lambda: Weigher(Recipe(each_epoch=MetaGradient()), train=TRAIN), "reads 'clean', which is missing"),
        (lambda: Weigher("l2rw", clean=3), r"clean= is a int: give the pair"),
        (lambda: Weigher("reclaim", noise_rate=0.2, train=TRAIN), "replaces targets, which only fit"),
        (lambda: Weigher("normclip"), "clips gradients, which the trainer does"),
        (lambda: Weigher("incv"), "several trainings"),
        (lambda: Weigher("s-model", classes=2), "reads or learns more than outputs and targets"),
        (lambda: Weigher(Recipe(each_epoch=KeepSmallest(by="gradient_norm", count=2)), train=TRAIN), "gradient_norm"),
        (lambda: Weigher("standard").loss(net(), X, Y, ids=torch.arange(3)), "give one id each"),
        (lambda: _weigh_something(Weigher(Recipe(each_epoch=Centrality(fraction=0.5)), train=TRAIN)), "number both"),
    ],
)
def test_what_cannot_be_is_refused(make: Callable[[], Any], sentence: str) -> None:
    with pytest.raises(ThresherError, match=sentence):
        make()


@pytest.mark.parametrize("way", ["compiled", "scaled", "accumulated", "accelerate"])
def test_what_loops_do_besides_changes_no_weight(way: str) -> None:
    """torch.compile, GradScaler, accumulation and Accelerate, against the plain loop."""
    model, plain = net(), net()
    expected = Weigher("prl-l", noise_rate=0.3)
    index = torch.arange(BATCH)
    loss = expected.loss(plain, X[index], Y[index], ids=index)
    loss.backward()
    weigher = Weigher("prl-l", noise_rate=0.3)
    called: nn.Module = torch.compile(model, backend="eager") if way == "compiled" else model  # type: ignore[assignment]
    if way == "accelerate":
        accelerate = pytest.importorskip("accelerate")
        accelerator = accelerate.Accelerator(cpu=True)
        called = accelerator.prepare(called)
        accelerator.backward(weigher.loss(called, X[index], Y[index], ids=index))
    elif way == "scaled":
        scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
        optimizer = sgd(model.parameters())
        scaler.scale(weigher.loss(called, X[index], Y[index], ids=index)).backward()
        scaler.unscale_(optimizer)
    elif way == "accumulated":
        for _ in range(2):
            (weigher.loss(called, X[index], Y[index], ids=index) / 2).backward()
    else:
        weigher.loss(called, X[index], Y[index], ids=index).backward()
    for mine, other in zip(model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, other.grad)
    for each in (weigher, expected):
        each.end_epoch()
    assert weigher.ledger.table()["weight"].to_pylist() == expected.ledger.table()["weight"].to_pylist()


def test_every_recipe_of_the_registry_goes_or_says_why_not() -> None:
    assert method("prl-l").recipe(noise_rate=0.3)  # the registry is the one that Weigher asks
    for name in ("prl-l-ramp", "spl-ramp", "co-teaching", "min-sgd", "hard-mining", "gce", "bootstrap-soft"):
        weigher = Weigher(name, noise_rate=0.3, epochs=20)
        peer = net(5) if weigher.recipe.peers > 1 else None
        assert weigher.loss(net(), X, Y, ids=torch.arange(N), peer=peer).isfinite()
