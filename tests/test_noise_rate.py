"""The noise rate a run finds itself: how near it comes, what it does to the run, that it survives a stop; and folds."""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import assert_same_run, examples, net, real_examples
from torch import Tensor, nn

import thresher.noise.folds
from thresher import Examples, Moment, Recipe, Run, ThresherError, fit, signals
from thresher.core.rule import schedules_of
from thresher.core.schedules import ramp
from thresher.corruption import corrupt
from thresher.data import digits, regression
from thresher.methods import METHODS, MethodFacts
from thresher.models.__init__ import MLP
from thresher.noise.audit_rate import contradictions
from thresher.noise.estimate import Estimate, wilson
from thresher.noise.folds import confident_joint, noise_rate_by_folds, out_of_fold
from thresher.noise.mixture import share_of_wide
from thresher.noise.noise_rate import NoiseRate, estimated, from_epochs
from thresher.noise.residual_rate import LEAN, separation
from thresher.rules import KeepSmallest

DRAWS = np.random.default_rng(0)


def mlp() -> nn.Module:
    return MLP((1, 8, 8), 10, hidden=(128,))


def real_mlp() -> nn.Module:
    return MLP((16,), 3, hidden=(256, 256))


def auto(name: str = "prl-l", epochs: int = 4, **changes: Any) -> Run:
    """A run on digits of a method that is not told the rate."""
    train = changes.pop("train", None) or corrupt(digits().train, "symmetric:0.4", seed=0)
    recipe = METHODS[name].recipe(classes=train.classes, epochs=epochs)
    return fit(recipe, changes.pop("model", mlp), train, epochs=epochs, batch=64, device="cpu", **changes)


@pytest.mark.parametrize(
    ("corruption", "below", "above"),
    [("symmetric:0.1", 0.02, 0.08), ("symmetric:0.4", 0.04, 0.08), ("symmetric:0.6", 0.06, 0.08),
     ("pairflip:0.2", 0.02, 0.08), ("pairflip:0.4", 0.04, 0.1)],
)  # fmt: skip
def test_on_digits_it_comes_near(corruption: str, below: float, above: float) -> None:
    true = float(corruption.split(":")[1])
    found = auto(train=corrupt(digits().train, corruption, seed=1)).history[-1]["noise_rate"]
    assert true - below <= found["rate"] <= true + above
    assert found["low"] <= found["rate"] <= found["high"]


@pytest.mark.parametrize("corruption", ["uninoise:0.2", "linadv:0.1", "linadv:0.4", "signflip:0.2"])
def test_on_real_targets_it_comes_near(corruption: str) -> None:
    train, true = corrupt(regression(1500).train, corruption, seed=1), float(corruption.split(":")[1])
    run = auto(train=train, model=real_mlp)
    assert true - 0.04 <= run.history[-1]["noise_rate"]["rate"] <= true + 0.1


@pytest.mark.parametrize("name", ["prl-l", "co-teaching"])
def test_a_clean_set_is_kept_whole(name: str) -> None:
    run = auto(name, train=digits().train, epochs=6)
    assert run.history[-1]["noise_rate"]["rate"] == 0
    assert "passes for clean" in run.history[-1]["noise_rate"]["why"]
    assert all(record["kept"] == 1.0 for record in run.history)
    real = auto(name, train=regression(1500).train, model=real_mlp, epochs=5)
    assert all(record["kept"] == 1.0 for record in real.history)
    assert "clean" in real.history[-1]["noise_rate"]["why"]


def test_a_run_keeps_everyone_until_it_knows_and_then_what_it_found() -> None:
    run = auto(epochs=7)
    found = [record["noise_rate"] for record in run.history]
    assert found[:2] == [None] * 2
    assert all(each == found[2] for each in found[2:])
    assert found[2].keys() == {"rate", "low", "high", "why"}
    assert [record["kept"] for record in run.history[:3]] == [1.0] * 3
    assert run.history[6]["kept"] == pytest.approx(round(64 * (1 - found[2]["rate"])) / 64, abs=2e-3)
    table = run.ledger.to_pandas()
    assert table.loc[table["epoch"] < 3, "noise_rate"].isna().all()
    assert table.loc[table["epoch"] >= 3, "noise_rate"].unique() == pytest.approx([found[2]["rate"]])
    json.dumps(run.history)


def test_ramps_go_towards_the_estimate_by_the_clock_of_the_paper() -> None:
    run = auto("co-teaching", epochs=12)
    rate = run.history[-1]["noise_rate"]["rate"]
    kept = [record["kept"] for record in run.history]
    assert kept[:3] == [1.0] * 3
    for epoch in (3, 7, 11):
        assert kept[epoch] == pytest.approx(round(64 * (1 - rate * min(epoch / 10, 1))) / 64, abs=2e-3)


def test_a_run_that_is_told_the_rate_says_nothing_of_estimates() -> None:
    train = examples()
    run = fit(METHODS["prl-l"].recipe(noise_rate=0.25), net, train, epochs=2, batch=8, device="cpu")
    assert "noise_rate" not in run.history[-1]
    assert "noise_rate" not in run.ledger.to_pandas()


class StoppedError(Exception):
    pass


@pytest.mark.parametrize("stop_after", [2, 3, 4])
@pytest.mark.parametrize("peers", [1, 2])
@pytest.mark.parametrize("train", [examples(), real_examples()], ids=["classes", "real"])
def test_resumed_equals_uninterrupted(train: Examples, peers: int, stop_after: int, tmp_path: Path) -> None:
    rule = KeepSmallest(by=signals.loss, fraction=ramp(1.0, estimated(after=3), epochs=2))
    recipe = Recipe(each_batch=rule, peers=peers)
    settings: dict[str, Any] = {"epochs": 6, "batch": 8, "device": "cpu", "commit_every": 0.0}

    def stop(moment: Moment) -> None:
        if moment.epoch == stop_after and moment.record is None:
            raise StoppedError

    whole = fit(recipe, lambda: net(train.outputs), train, **settings)
    with pytest.raises(StoppedError):
        fit(recipe, lambda: net(train.outputs), train, out=tmp_path / "run", watch=stop, **settings)
    again = fit(recipe, lambda: net(train.outputs), train, out=tmp_path / "run", **settings)
    assert_same_run(again, whole)
    assert whole.history[2]["noise_rate"] is not None


def test_networks_are_asked_together() -> None:
    train = examples(10)
    first, second = (
        {"prediction": np.asarray(p, np.float32)[:, None], "confidence": np.asarray(c, np.float32)}
        for p, c in (([0] * 10, DRAWS.random(10)), ([2] * 10, DRAWS.random(10)))
    )
    known = NoiseRate([estimated(after=1)], train, 9)
    known.observe(1, [first, second])
    labels = train.labels.numpy()
    wrong = ((labels != 0).astype(float) + (labels != 2)) / 2
    assert known.seen == [contradictions(wrong, (first["confidence"] + second["confidence"]) / 2)]


def seen(*shares: float, everywhere: float = 0.5, n: int = 2000) -> list[Any]:
    """The contradictions of epochs whose networks contradict these shares of the labels they are surest about."""
    sure = np.arange(n) < n // 2
    found = []
    for share in shares:
        wrong = np.where(sure, np.arange(n) % 100 < 100 * share, np.arange(n) % 100 < 100 * (2 * everywhere - share))
        found.append(contradictions(wrong.astype(float), np.where(sure, 0.9, 0.3)))
    return found


@pytest.mark.parametrize("shares", [(0.3, 0.2, 0.1), (0.2, 0.2, 0.2), (0.25, 0.15, 0.2)])
def test_the_middle_epoch_gives_the_rate_and_all_of_them_the_interval(shares: tuple[float, ...]) -> None:
    found, epochs = from_epochs(seen(*shares, everywhere=0.4), 0.1), seen(*shares, everywhere=0.4)
    assert found.rate == sorted(each.high for each in epochs)[1]
    assert 0 < found.low < min(each.low for each in epochs) - 0.25 * (0.4 - found.rate)
    assert max(each.high for each in epochs) <= found.high <= 0.4


def test_a_run_that_memorises_or_learns_nothing_cannot_tell() -> None:
    memorised = from_epochs(seen(0.45, 0.2, 0.05), 0.1)
    assert memorised.rate is None
    assert memorised.assumed == memorised.low < 0.05 < 0.45 < memorised.high
    assert "contradict 45%, 20%, 5% in turn" in memorised.why
    late = from_epochs([*seen(0.45, everywhere=0.7), *seen(0.1, 0.1, everywhere=0.25)], 0.1)
    assert late.rate == seen(0.1, everywhere=0.25)[0].high, "the first epoch knows too little to count"
    falling = [*seen(0.3, everywhere=0.7), *seen(0.12, 0.05, everywhere=0.25)]
    assert from_epochs(falling, 0.1).high > 0.3, "unless later ones may have memorised"
    assert from_epochs([*falling[:2], *seen(0.07, everywhere=0.25)], 0.1).high < 0.2
    weak = from_epochs(seen(0.7, 0.7, 0.7, everywhere=0.85), 0.1)
    assert (weak.rate, weak.assumed, weak.high) == (None, 0.0, 1.0)


def test_a_run_on_equal_inputs_says_that_it_cannot_tell_and_keeps_everyone() -> None:
    train = digits().train
    equal = Examples(torch.ones(len(train), 1, 8, 8), train.targets, classes=10)
    run = auto(train=equal, epochs=5)
    found = run.history[-1]["noise_rate"]
    assert found["rate"] is None
    assert "cannot tell: the networks predict" in found["why"]
    assert all(record["kept"] == 1.0 for record in run.history)
    json.dumps(run.history)


@given(st.integers(1, 200), st.integers(1, 3), st.floats(0, 1), st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_any_residuals_give_a_rate(n: int, width: int, share: float, seed: int) -> None:
    draws = np.random.default_rng(seed)
    residuals = draws.normal(size=(n, width)) * np.where(draws.random(n) < share, 100.0, 1.0)[:, None]
    found = separation(residuals).estimate()
    assert 0 <= found.low <= found.assumed <= found.high <= 1
    assert separation(np.zeros((n, width))).estimate().assumed == 0


def test_its_own_errors_where_a_network_is_unsure_are_not_held_against_the_labels() -> None:
    n = 4000
    confidence = np.linspace(1, 0, n)
    wrong = (DRAWS.random(n) < 0.2) | (DRAWS.random(n) < 0.9 * (1 - confidence) ** 3)
    assert wrong.mean() > 0.35
    found = contradictions(wrong.astype(float), confidence)
    assert 0.18 < found.surest < 0.24
    assert found.low < 0.2 < found.high


@pytest.mark.parametrize("width", [1, 5])
def test_wrong_residuals_of_every_size_are_counted(width: int) -> None:
    clean = DRAWS.normal(size=(3000, width)) * DRAWS.uniform(1, 5, width)
    wide = clean.copy()
    wide[:900] *= np.exp(DRAWS.uniform(2, 5, (900, 1)))
    assert separation(wide).estimate(lean=LEAN).rate == pytest.approx(0.3, abs=0.07)
    assert separation(clean).estimate().rate == 0
    assert separation(7 * wide).share == pytest.approx(separation(wide).share)


def test_shares_of_the_wide_component_rise_with_the_number() -> None:
    squares = np.concatenate([DRAWS.chisquare(3, 500), np.geomspace(30, 3000, 100)])
    shares = share_of_wide(squares)
    assert shares[500:].min() > 0.95
    assert np.median(shares[:500]) < 0.05


def test_the_interval_covers_a_share_as_often_as_it_should() -> None:
    inside = [low <= 0.2 <= high for low, high in (wilson(DRAWS.binomial(80, 0.2) / 80, 80) for _ in range(2000))]
    assert 0.93 < np.mean(inside) < 0.98


def test_a_rate_of_none_or_auto_is_estimated_and_a_number_is_taken() -> None:
    assert MethodFacts("auto", 10, 60).keep() == MethodFacts(None, 10, 60).keep() == estimated()
    assert MethodFacts(0.25, 10, 60).keep() == 0.75
    for name, method in METHODS.items():
        if method.kind == "recipe":
            waits = any(isinstance(each, estimated) for each in schedules_of(method.recipe(classes=10)))
            assert waits == ("noise_rate" in method.needs), name


def test_refusals() -> None:
    train, rule = examples(), KeepSmallest(by=signals.loss, fraction=estimated())
    with pytest.raises(ThresherError, match=r"used afterwards, and this run has 3: train longer.*\(--noise-rate\)"):
        fit(Recipe(each_batch=rule), net, train, epochs=3, batch=8, device="cpu")
    other = KeepSmallest(by=signals.loss, fraction=estimated(after=2))
    with pytest.raises(ThresherError, match="use one of them"):
        fit(Recipe(each_batch=rule, each_epoch=other), net, train, epochs=9, batch=8, device="cpu")
    with pytest.raises(ThresherError, match="give at least 1"):
        estimated(after=0)
    with pytest.raises(ThresherError, match="give 2 to 44"):
        noise_rate_by_folds(train, net, folds=1)


def naive_joint(probabilities: list[list[float]], labels: list[int]) -> list[list[int]]:
    classes = len(probabilities[0])
    means = []
    for j in range(classes):
        own = [p[j] for p, label in zip(probabilities, labels, strict=True) if label == j]
        means.append(sum(own) / len(own) if own else 0.0)
    joint = [[0] * classes for _ in range(classes)]
    for p, label in zip(probabilities, labels, strict=True):
        sure = [j for j in range(classes) if p[j] >= means[j] - 1e-12]
        if sure:
            joint[label][max(sure, key=lambda j: p[j])] += 1
    return joint


@given(st.integers(1, 40), st.integers(2, 5), st.integers(0, 999))
@settings(max_examples=60, deadline=None)
def test_confident_joint_equals_the_naive_one(n: int, classes: int, seed: int) -> None:
    draws = torch.Generator().manual_seed(seed)
    probabilities = torch.randn(n, classes, generator=draws, dtype=torch.float64).softmax(1)
    labels = torch.randint(classes, (n,), generator=draws)
    labels[:classes] = torch.arange(classes)[:n]
    joint = confident_joint(probabilities, labels)
    # one example of a class is its own mean, which rounding may put on either side
    if (labels.bincount(minlength=classes) > 1).all():
        assert joint.tolist() == naive_joint(probabilities.tolist(), labels.tolist())
    assert joint.sum() <= n


def test_nobody_is_judged_by_a_network_that_saw_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Remembers(nn.Module):
        def __init__(self, seen: Tensor):
            super().__init__()
            self.seen = nn.Parameter(seen.flatten(1))

        def forward(self, inputs: Tensor) -> Tensor:
            known = (inputs.flatten(1)[:, None] == self.seen).all(2).any(1)
            return torch.stack([known.float(), inputs.flatten(1)[:, 0], inputs.flatten(1)[:, 1]], 1)

    def remember(recipe: Recipe, model: object, train: Examples, **settings: object) -> Any:  # noqa: ARG001
        return SimpleNamespace(model=Remembers(train.inputs))  # type: ignore[arg-type]

    monkeypatch.setattr(thresher.noise.folds, "train_recipe", remember)
    train = examples(10)
    outputs = out_of_fold(Recipe(), net, train, folds=3, epochs=1)
    assert outputs[:, 0].tolist() == [0.0] * 10
    assert torch.equal(outputs[:, 1], train.inputs.flatten(1)[:, 0]), "in the order of the examples"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("train", "model", "true"),
    [
        (corrupt(digits().train, "symmetric:0.2", seed=0), mlp, 0.2),
        (digits().train, mlp, 0.0),
        (corrupt(regression(800).train, "signflip:0.4", seed=0), real_mlp, 0.4),
    ],
    ids=["digits", "clean digits", "signs turned"],
)
def test_folds_come_near(train: Examples, model: Callable[[], nn.Module], true: float) -> None:
    found = noise_rate_by_folds(train, model, folds=3, epochs=10, batch=64, device="cpu")
    assert true - 0.04 <= found.rate <= true + 0.1
    assert found.low <= true <= found.high
    assert asdict(found).keys() == asdict(Estimate(0.0, 0.0, 0.0, "")).keys()


def test_residuals_that_are_flat_in_any_epoch_do_not_pass_for_clean() -> None:
    draws = np.random.default_rng(0)
    train = Examples(torch.zeros(300, 1), torch.zeros(300, 1))
    flat, clean = draws.uniform(-1, 1, (300, 1)), draws.standard_t(8, (300, 1))
    known = NoiseRate([estimated(after=2)], train, 9)
    for epoch, predicted in enumerate((flat, clean), start=1):
        known.observe(epoch, [{"prediction": predicted.astype(np.float32)}])
    assert known.estimate is not None
    assert known.estimate.rate is None
    assert "no gap between the two" in known.estimate.why
