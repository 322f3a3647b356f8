"""What L2RW is compared with: class rules, random weights, MentorNet's curriculum, and noise layers."""

import json
from dataclasses import replace
from typing import Any

import pytest
import torch
from some_evidence import some_evidence
from tiny import examples, net, streamed, trainer
from torch import nn
from torch.nn import functional

from thresher import Examples, Ledger, ThresherError, signals
from thresher.engine.loop.history import measure
from thresher.methods import method, noise_layer_from_confusion, with_clean
from thresher.objectives import CrossEntropy, NoiseLayer, smoothed_identity
from thresher.rules import Curriculum, Decision, HardestOfMajority, InverseFrequency, RandomWeights, ask
from thresher.rules.curriculum import quantile


def test_class_rules_count_what_they_say() -> None:
    evidence = some_evidence(8, "classes").replace(targets=torch.tensor([0, 0, 0, 0, 0, 1, 1, 3]))
    weights = InverseFrequency()(evidence)
    for label in (0, 1, 3):
        assert weights[evidence.targets == label].sum() == pytest.approx(8 / 3)
    kept = HardestOfMajority()(evidence)
    losses = evidence.losses[:5]
    assert kept[5:].tolist() == [1.0, 1.0, 1.0]
    assert set(kept[:5].nonzero().flatten().tolist()) == set(losses.topk(2).indices.tolist())


def test_random_weights_are_a_rectified_gaussian() -> None:
    evidence = some_evidence(4000).replace(generator=torch.Generator().manual_seed(1))
    weights = RandomWeights()(evidence) * 4000
    assert weights.mean() == pytest.approx(1.0, abs=1e-3)
    assert (weights == 0).float().mean() == pytest.approx(0.5, abs=0.03)
    assert weights.max() > 2.5 * torch.pi**0.5  # more than 2.5 deviations, where E max(z, 0) is 1/√(2π)
    zeros = [RandomWeights()(some_evidence(1).replace(generator=torch.Generator().manual_seed(s))) for s in range(9)]
    assert all(weight.tolist() == [1.0] for weight in zeros)


@pytest.mark.parametrize("wrap", [lambda each: each, streamed], ids=["in memory", "streamed"])
def test_clean_examples_that_only_share_ids_with_training_examples_are_refused(wrap: Any) -> None:
    train, strange = examples(20), examples(5, seed=1)
    with pytest.raises(ThresherError, match=r"shares ids with the training set \(such as id 1\) but has other inputs"):
        with_clean(wrap(train), wrap(strange))
    both = with_clean(wrap(train), wrap(replace(strange, ids=strange.ids + 1000)))
    assert both.targets[20:].tolist() == strange.targets.tolist()


def test_a_clean_part_of_the_training_set_gives_it_its_targets_in_any_order() -> None:
    train = examples(40)
    part = train.subset(torch.randperm(40, generator=torch.Generator().manual_seed(0))[:30])
    clean = replace(part, targets=part.columns["true_target"], normalise=(torch.zeros(1), torch.ones(1)))
    both, known = with_clean(train, clean), torch.isin(train.ids, clean.ids)
    assert torch.equal(both.targets[known], train.columns["true_target"][known])
    assert torch.equal(both.targets[~known], train.targets[~known])
    assert torch.equal(both.columns["is_clean"], known)


def test_curriculum_follows_a_moving_quantile() -> None:
    rule = Curriculum(0.5, width=2.0, rate=0.75)
    first = some_evidence(4).replace(known={signals.loss: torch.tensor([4.0, 1.0, 2.0, 3.0])})
    decision = ask(rule, first)
    assert decision.memory["level"] == 2.0
    assert decision.weights.tolist() == [0.0, 1.0, 1.0, 0.5]
    second = some_evidence(4).replace(known={signals.loss: torch.full((4,), 6.0)}, memory=decision.memory)
    again = ask(rule, second)
    assert isinstance(again, Decision)
    assert again.memory["level"] == 3.0  # 0.75 · 2 + 0.25 · 6
    assert again.weights.tolist() == [0.0] * 4
    assert quantile(torch.tensor([3.0, 1.0, 2.0]), torch.tensor(1.0)) == 3.0
    assert quantile(torch.tensor([3.0, 1.0, 2.0]), 0.01) == 1.0


def test_mentornet_keeps_everyone_then_cuts_and_at_last_slopes() -> None:
    rule = method("mentornet").recipe(noise_rate=0.5, classes=4, epochs=20).each_batch
    values = some_evidence(4).replace(known={signals.loss: torch.tensor([1.0, 2.0, 2.5, 4.0])}, epochs=20)
    weights = {epoch: ask(rule, values.replace(epoch=epoch)).weights.tolist() for epoch in (0, 3, 4, 17, 18, 19)}
    assert weights[0] == weights[3] == [1.0] * 4
    assert weights[4] == weights[17] == [1.0, 1.0, 0.0, 0.0]
    assert weights[18] == weights[19] == [1.0, 1.0, 0.5, 0.0]


def test_noise_layer_that_changes_nothing_is_cross_entropy() -> None:
    evidence = some_evidence(20)
    layer = NoiseLayer(smoothed_identity(4, 1e-7))
    torch.testing.assert_close(layer(evidence), CrossEntropy()(evidence), rtol=1e-3, atol=1e-3)
    soft = evidence.replace(targets=functional.one_hot(evidence.targets, 4).float())
    torch.testing.assert_close(layer(soft), layer(evidence))
    start = torch.tensor([[0.7, 0.3], [0.2, 0.8]])
    two = some_evidence(1, width=2).replace(raw_outputs=torch.tensor([[0.0, 0.0]]), targets=torch.tensor([1]))
    assert NoiseLayer(start)(two).exp().item() == pytest.approx(1 / (0.5 * 0.3 + 0.5 * 0.8))


@pytest.mark.parametrize("stopped_early", [False, True])
def test_the_noise_layer_starts_from_a_confusion_and_is_trained(tmp_path: Any, stopped_early: bool) -> None:
    train, made_by, kept = examples(60, corrupt=0.4), [], []
    backwards = examples(30, seed=1, corrupt=1.0)  # on which a network gets worse as it learns

    def adam(parameters: Any) -> torch.optim.Optimizer:
        kept.append(list(parameters))
        return torch.optim.Adam(kept[-1], lr=5e-3)

    def make() -> nn.Module:
        made_by.append(net())
        return made_by[-1]

    settings = {"model": make, "train": train, "epochs": 9, "batch": 20, "device": "cpu", "optimizer": adam}
    if stopped_early:
        settings |= {"validation": backwards, "keep": "best_on_validation"}
    run = noise_layer_from_confusion(trainer({**settings, "out": tmp_path / "run"}))
    assert len(made_by) == 2, "the baseline is another network"
    layer = run.recipe.objective
    assert isinstance(layer, NoiseLayer)
    stage = tmp_path / "run" / "stages" / "baseline"
    history = [json.loads(line) for line in (stage / "history.jsonl").read_text().splitlines()]
    epoch = max(history, key=lambda record: record["validation"])["epoch"] if stopped_early else 9
    assert (epoch < 9) == stopped_early
    baseline = Ledger.read(stage).to_pandas()
    baseline = baseline[baseline["epoch"] == epoch]
    for c in range(3):
        given = baseline["target"][baseline["prediction"] == c]
        for label in range(3):
            share = (given == label).mean() if len(given) else float(label == c)
            assert layer.transition[c, label].item() == pytest.approx(0.99 * share + 0.01 / 3, abs=1e-5)
    assert [parameter.shape for parameter in kept[1]] == [*(p.shape for p in run.model.parameters()), (3, 3)]
    assert (kept[1][-1] - layer.logits).abs().max() > 0.05


def test_recalls_are_those_of_each_class() -> None:
    few = Examples(torch.zeros(5, 1), torch.tensor([0, 0, 2, 2, 2]), classes=4)
    found = measure(functional.one_hot(torch.tensor([0, 1, 2, 2, 0]), 4).float(), few)
    assert found["recall_0"] == 0.5
    assert found["recall_2"] == pytest.approx(2 / 3)
    assert "recall_1" not in found
    assert found["balanced_accuracy"] == pytest.approx((0.5 + 2 / 3) / 2)
