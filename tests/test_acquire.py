"""acquire(): every named way picks what its formula says, sees no labels of the pool and leaves no trace."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import reference.diverse as reference
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import Streamed, examples, real_examples
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from thresher import Examples, Recipe, ThresherError, acquire, fit, signals, weigh
from thresher.core.dropout import MutualInformation
from thresher.core.seeding import generator
from thresher.corruption import corrupt
from thresher.data.loading import digits
from thresher.methods.acquisitions import ACQUISITIONS, acquisition
from thresher.models import build
from thresher.models.__init__ import MLP
from thresher.rules import KCentre, KeepLargest, KeepSmallest, KMeansPlusPlus, MetaGradient, every, per_class

COUNT, SEED = 7, 3


def net(outputs: int = 3, seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Flatten(), nn.Linear(16, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Dropout(0.5), nn.Linear(12, outputs)
    )


def seen(model: nn.Module, pool: Examples) -> tuple[Tensor, Tensor]:
    """(features, outputs) in evaluation mode."""
    model = copy.deepcopy(model).eval()
    with torch.no_grad():
        hidden = model[:-1](pool.inputs)  # type: ignore[index]
        return hidden, model[-1](hidden)  # type: ignore[index]


POOL, LABELLED = examples(60), examples(10, seed=1)
MODEL, AVERAGE = net(), net(seed=1)


def picked(name: str, pool: Examples = POOL, **settings: Any) -> list[int]:
    given: dict[str, Any] = {"labelled": LABELLED, "average": AVERAGE, "seed": SEED}
    return acquire(acquisition(name).rule(COUNT), MODEL, pool, **(given | settings)).tolist()


def test_uncertainty_is_that_of_the_prediction() -> None:
    chances = seen(MODEL, POOL)[1].softmax(1)
    best = chances.sort(1, descending=True).values
    orders = {
        "confidence": best[:, 0],
        "margin": best[:, 0] - best[:, 1],
        "entropy": (chances * chances.log()).sum(1),
    }
    for name, score in orders.items():
        assert set(picked(name)) == set(POOL.ids[score.argsort()[:COUNT]].tolist())


def test_embeddings_are_those_of_the_formulas() -> None:
    (hidden, outputs), (hidden_average, outputs_average) = seen(MODEL, POOL), seen(AVERAGE, POOL)
    label = outputs.argmax(1)
    gradient = outputs.softmax(1) - nn.functional.one_hot(label, 3)
    badge = reference.embeddings(gradient, hidden)
    difference = hidden - hidden_average
    loss = (
        cross_entropy(outputs, label, reduction="none") - cross_entropy(outputs_average, label, reduction="none")
    ).abs()
    expected = {
        "badge": badge,
        "s-badge": badge * difference.abs().mean(1, keepdim=True),
        "lhd": (difference * loss[:, None]).double(),
    }
    for name, rows in expected.items():
        places = reference.kmeans_plus_plus(rows, COUNT, generator(SEED, "acquire"))
        assert set(picked(name)) == set(POOL.ids[places].tolist()), name
    far = reference.k_centre(hidden, COUNT, seen(MODEL, LABELLED)[0])
    assert set(picked("coreset")) == set(POOL.ids[far].tolist())


def test_the_gradient_embedding_is_the_gradient_of_the_last_layer() -> None:
    model, pool = copy.deepcopy(MODEL).eval(), POOL.subset(range(8))
    outputs = model(pool.inputs)
    rows = []
    for place in range(8):
        loss = cross_entropy(outputs[place : place + 1], outputs[place : place + 1].argmax(1))
        rows.append(torch.autograd.grad(loss, model[-1].weight, retain_graph=True)[0])  # type: ignore[index]
    hidden, logits = seen(MODEL, pool)
    left = logits.softmax(1) - nn.functional.one_hot(logits.argmax(1), 3)
    torch.testing.assert_close(reference.embeddings(left, hidden).view(8, 3, -1).float(), torch.stack(rows))
    norms = torch.stack(rows).flatten(1).norm(dim=1) ** 2 + left.norm(dim=1) ** 2
    last_only = nn.Sequential(copy.deepcopy(MODEL)[:-1].requires_grad_(False), copy.deepcopy(MODEL)[-1])  # type: ignore[index]
    largest = acquire(KeepLargest(by=signals.gradient_norm, count=2), last_only.eval(), pool)
    assert set(largest.tolist()) == set(pool.ids[norms.argsort()[-2:]].tolist())


def test_gradient_norms_through_batch_norm_are_exact_where_it_does_not_mix_examples() -> None:
    """Acquisition and epoch rules see a model in evaluation mode, whatever mode it is in otherwise."""
    model, pool = copy.deepcopy(MODEL), POOL.subset(range(9))
    quiet = copy.deepcopy(model).eval()
    norms = {"predicted": [], "given": []}  # type: dict[str, list[float]]
    for place in range(9):
        outputs = quiet(pool.inputs[place : place + 1])
        for name, label in (("predicted", outputs.argmax(1)), ("given", pool.targets[place : place + 1])):
            gradients = torch.autograd.grad(cross_entropy(outputs, label), list(quiet.parameters()), retain_graph=True)
            norms[name].append(float(torch.cat([each.flatten() for each in gradients]).norm()))
    largest = acquire(KeepLargest(by=signals.gradient_norm, count=3), model.train(), pool)
    assert set(largest.tolist()) == set(pool.ids[torch.tensor(norms["predicted"]).argsort()[-3:]].tolist())
    rule = KeepSmallest(by=signals.gradient_norm, count=4)
    run = fit(Recipe(each_epoch=rule), model, pool, epochs=1, batch=2, device="cpu")
    kept = run.ledger.to_pandas().set_index("id")["kept"]
    assert set(kept[kept].index) == set(pool.ids[torch.tensor(norms["given"]).argsort()[:4]].tolist())
    with pytest.raises(ThresherError, match="BatchNorm1d"):
        fit(Recipe(each_batch=rule), model, pool, epochs=1, batch=9, device="cpu")


def test_k_centre_takes_a_scaled_signal_too() -> None:
    """The features of both sets, each times how far it is from the average's."""
    rule = KCentre(by=signals.scaled(signals.features, signals.average_divergence), count=COUNT)
    scaled = []
    for some in (POOL, LABELLED):
        hidden, average = seen(MODEL, some)[0], seen(AVERAGE, some)[0]
        scaled.append(hidden * (hidden - average).abs().mean(1, keepdim=True))
    found = acquire(rule, MODEL, POOL, labelled=LABELLED, average=AVERAGE)
    assert set(found.tolist()) == set(POOL.ids[reference.k_centre(scaled[0], COUNT, scaled[1])].tolist())


@pytest.mark.parametrize("name", ACQUISITIONS)
def test_labels_places_and_the_way_inputs_come_do_not_matter(name: str, tmp_path: Path) -> None:
    expected = picked(name)
    assert len(expected) == COUNT == len(set(expected))
    assert picked(name, POOL.with_targets(torch.zeros_like(POOL.targets))) == expected
    assert picked(name, Examples(POOL.inputs, torch.zeros(60).long(), ids=POOL.ids)) == expected, "without labels"
    assert picked(name, Examples(Streamed(POOL.inputs), POOL.targets, ids=POOL.ids, classes=3)) == expected
    assert picked(name, on_disk=tmp_path / "kept") == expected
    assert not list((tmp_path / "kept").iterdir())
    if name != "bald":  # whose dropout goes by the place in the batch
        assert picked(name, batch=11) == expected
        shuffled = POOL.subset(torch.randperm(60, generator=torch.Generator().manual_seed(0)))
        assert sorted(picked(name, shuffled)) == sorted(expected)
    others = [picked(name, seed=seed) for seed in range(20, 24)]
    assert any(other != expected for other in others) == (name in ("random", "badge", "s-badge", "lhd", "bald"))


@pytest.mark.parametrize("name", ACQUISITIONS)
def test_nothing_is_left_behind(name: str) -> None:
    MODEL.train()
    modes = [module.training for module in MODEL.modules()]
    before, state = {key: value.clone() for key, value in MODEL.state_dict().items()}, torch.get_rng_state()
    picked(name)
    assert modes == [module.training for module in MODEL.modules()]
    assert all(torch.equal(before[key], value) for key, value in MODEL.state_dict().items())
    assert torch.equal(state, torch.get_rng_state())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in MODEL.modules())


def test_a_pool_is_read_once() -> None:
    class Counting(Streamed):
        reads = 0

        def __getitem__(self, position: int) -> tuple[Tensor, str]:
            Counting.reads += 1
            return super().__getitem__(position)

    pool = Examples(Counting(POOL.inputs), POOL.targets, ids=POOL.ids, classes=3)
    picked("badge", pool)
    assert Counting.reads <= len(pool) + 8, "the few more are to try the model, and to see how large its signals are"


def test_real_targets() -> None:
    model, pool = net(outputs=2), real_examples(40)
    for name in ("random", "coreset"):
        ids = acquire(acquisition(name).rule(COUNT), model, pool, labelled=real_examples(5, seed=1))
        assert len(ids.unique()) == COUNT
    with pytest.raises(ThresherError, match="defined for classification only"):
        acquire(acquisition("margin").rule(COUNT), model, pool)


def test_everyone_may_be_chosen_but_not_more_than_there_are() -> None:
    given: dict[str, Any] = {"labelled": LABELLED, "average": AVERAGE}
    for name in ACQUISITIONS:
        assert acquire(acquisition(name).rule(60), MODEL, POOL, **given).tolist() == POOL.ids.tolist()
        with pytest.raises(ThresherError, match=r"count=61 .* from 1 to 60"):
            acquire(acquisition(name).rule(61), MODEL, POOL, **given)
    with pytest.raises(ThresherError, match="from 1 to 60"):
        acquire(per_class(KeepSmallest(by=signals.margin, count=61), of=signals.predicted), MODEL, POOL)


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        (acquisition("s-badge").rule(5), r"pass average= to weigh\(\) or acquire\(\)"),
        (acquisition("coreset").rule(5), r"pass labelled=Examples\(...\) to acquire"),
        (MetaGradient(), "reads 'clean'"),
        (every(2, KeepSmallest(by=signals.margin, count=5)), "every cannot choose from a pool"),
    ],
)
def test_what_is_missing_is_said(rule: Any, sentence: str) -> None:
    with pytest.raises(ThresherError, match=sentence):
        acquire(rule, MODEL, POOL)


def test_what_is_no_rule_no_model_and_no_pool_is_refused_with_what_would_be() -> None:
    rule: Any = acquisition("margin").rule(5)
    run: Any = fit(Recipe(), net(), POOL, epochs=1, batch=20, device="cpu")
    wrong: Any
    for wrong in ("margin", acquisition("margin")):
        with pytest.raises(ThresherError, match=r"pass one, such as acquisition\(\"margin\"\)\.rule\(100\)"):
            acquire(wrong, MODEL, POOL)
    with pytest.raises(ThresherError, match=r"not a Run: pass run\.model"):
        acquire(rule, run, POOL)
    with pytest.raises(ThresherError, match=r"not from a Tensor: pass Examples"):
        acquire(rule, MODEL, POOL.inputs)  # type: ignore[arg-type]


def test_models_that_cannot_be_used_are_refused() -> None:
    with pytest.raises(ThresherError, match=r"has none: use one with nn\.Dropout"):
        acquire(acquisition("bald").rule(5), MLP((1, 4, 4), 3), POOL)
    with pytest.raises(ThresherError, match=r"ends in an nn\.Linear"):
        acquire(acquisition("badge").rule(5), nn.Sequential(nn.Flatten(), nn.Linear(16, 3), nn.ReLU()), POOL)
    with pytest.raises(ThresherError, match="cannot take inputs of tiny"):
        acquire(acquisition("margin").rule(5), MLP((5,), 3), POOL)
    with pytest.raises(ThresherError, match="did you mean 'badge'"):
        acquisition("badgr")


class Answers(nn.Module):
    """Dropout, and then outputs that depend on whether its first unit was left out."""

    def __init__(self, function: Callable[[Tensor], Tensor]):
        super().__init__()
        self.dropout, self.function = nn.Dropout(0.5), function

    def forward(self, inputs: Tensor) -> Tensor:
        return self.function((self.dropout(torch.ones_like(inputs)) > 0).float()[:, :1])


def test_mutual_information() -> None:
    inputs = torch.zeros(5, 1)
    sure_but_changing = Answers(lambda on: torch.cat([60 * on, 60 * (1 - on)], 1))
    unsure = Answers(lambda on: torch.cat([0 * on, 0 * on], 1))
    information = MutualInformation(2000)(sure_but_changing, inputs)
    torch.testing.assert_close(information, torch.full((5,), 2.0).log(), atol=0.01, rtol=0)
    assert MutualInformation(10)(unsure, inputs).tolist() == [0.0] * 5
    model = build("mlp-dropout:64", input_shape=(1, 4, 4), outputs=3)
    torch.manual_seed(0)
    found = MutualInformation(6)(model, POOL.inputs)  # type: ignore[arg-type]
    torch.manual_seed(0)
    passes = torch.stack([model.train()(POOL.inputs).softmax(1) for _ in range(6)])
    entropy = -(passes * passes.log()).sum(2)
    mean = passes.mean(0)
    torch.testing.assert_close(found, -(mean * mean.log()).sum(1) - entropy.mean(0), atol=1e-5, rtol=1e-4)


@given(seed=st.integers(0, 99))
@settings(max_examples=10, deadline=None)
def test_scaled_signals_are_values(seed: int) -> None:
    by = signals.scaled(signals.gradient_embedding, signals.average_divergence)
    assert by == signals.scaled(signals.gradient_embedding, signals.average_divergence)
    assert hash(KMeansPlusPlus(by=by, count=3)) == hash(KMeansPlusPlus(by=by, count=3))
    twice = signals.scaled(by, signals.confidence)
    hidden, outputs = seen(MODEL, POOL)
    difference = (hidden - seen(AVERAGE, POOL)[0]).abs().mean(1) * outputs.softmax(1).amax(1)
    gradient = outputs.softmax(1) - nn.functional.one_hot(outputs.argmax(1), 3)
    rows = reference.embeddings(gradient, hidden, difference)
    expected = reference.kmeans_plus_plus(rows, COUNT, generator(seed, "acquire"))
    found = acquire(KMeansPlusPlus(by=twice, count=COUNT), MODEL, POOL, average=AVERAGE, seed=seed)
    assert set(found.tolist()) == set(POOL.ids[expected].tolist())


def test_the_divergence_can_weigh_a_batch_too() -> None:
    """A signal of the average inside a training step, and in a loop of one's own."""
    rule = KeepLargest(by=signals.average_divergence, fraction=0.5)
    run = fit(Recipe(each_batch=rule, average=0.9), net(), POOL, epochs=2, batch=20, device="cpu")
    assert run.history[-1]["kept"] == 0.5
    inputs = POOL.inputs
    assert isinstance(inputs, Tensor)
    weights = weigh(rule, MODEL.eval(), inputs, POOL.targets, average=AVERAGE.eval())
    difference = (seen(MODEL, POOL)[0] - seen(AVERAGE, POOL)[0]).abs().mean(1)
    assert set(weights.nonzero()[:, 0].tolist()) == set(difference.argsort()[-30:].tolist())
    with pytest.raises(ThresherError, match="average"):
        fit(Recipe(each_batch=rule), net(), POOL, epochs=1, batch=20, device="cpu")


def test_confidence_picks_blanks_and_badge_does_not() -> None:
    """The finding of the paper, on digits with 80% blanks: one round after 200 labels."""
    pool = corrupt(digits().train, "blank:0.8", seed=0)
    start, rest = pool.subset(range(200)), pool.subset(range(200, len(pool)))
    run = fit(
        Recipe(average=0.99), lambda: build("mlp:128", input_shape=(1, 8, 8), outputs=10), start,
        epochs=30, batch=20, seed=0, device="cpu",
    )  # fmt: skip
    noisy = {}
    for name in ("confidence", "badge", "s-badge", "random"):
        ids = acquire(acquisition(name).rule(50), run.model, rest, average=run.averages[0])
        noisy[name] = float(rest.columns["is_corrupt"][torch.isin(rest.ids, ids)].float().mean())
    assert noisy["confidence"] > 0.95
    assert noisy["badge"] < 0.1
    assert noisy["s-badge"] < 0.1
    assert 0.6 < noisy["random"] < 0.95
