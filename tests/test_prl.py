"""The methods of the PRL paper: each against a hand-written loop, its limits, its refusals; frozen BatchNorm."""

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
import torch
from reference import prl as reference
from some_evidence import some_evidence
from tiny import assert_same_run, assert_same_tensors, examples, net, real_examples
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import prune

from thresher import Examples, Recipe, Run, ThresherError, fit, signals, weigh
from thresher.core.evidence import Evidence
from thresher.core.schedules import ramp
from thresher.methods import METHODS, prl
from thresher.models import build, freeze_batch_norm, names
from thresher.objectives import Bootstrap, Huber, SoftBootstrap, SquaredError
from thresher.rules import Disagree, KeepSmallest

EPOCHS, BATCH, LEARNING_RATE = 5, 8, 0.03
SETS = {"classification": examples(44), "regression": real_examples(44)}


def sgd(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=LEARNING_RATE)


def factory(outputs: int) -> Callable[[], nn.Module]:
    """Makes the same networks in the same order, whoever asks."""
    seeds = count(3)
    return lambda: net(outputs, seed=next(seeds))


def fitted(recipe: Recipe, train: Examples, model: nn.Module | None = None, **settings: Any) -> Run:
    chosen: dict[str, Any] = {"epochs": EPOCHS, "batch": BATCH, "optimizer": sgd, "device": "cpu", **settings}
    return fit(recipe, model or factory(train.outputs), train, **chosen)


def of_the_paper() -> list[str]:
    return [name for name, method in METHODS.items() if method.make in vars(prl).values()]


def test_every_method_of_the_paper_has_a_reference() -> None:
    assert set(of_the_paper()) == set(reference.METHODS)


@pytest.mark.parametrize("task", SETS)
@pytest.mark.parametrize("name", reference.METHODS)
def test_method_equals_its_hand_written_loop(name: str, task: str) -> None:
    train = SETS[task]
    recipe = METHODS[name].recipe(noise_rate=reference.RATE, classes=train.classes, epochs=EPOCHS)
    if task not in METHODS[name].tasks:
        with pytest.raises(ThresherError, match="only: choose another"):
            fitted(recipe, train)
        return
    make = factory(train.outputs)
    models = [make() for _ in range(reference.METHODS[name][1])]
    before = [parameter.detach().clone() for model in models for parameter in model.parameters()]
    reference.trained(name, models, train, BATCH, EPOCHS, LEARNING_RATE)
    after = [parameter.detach() for model in models for parameter in model.parameters()]
    assert max(float((a - b).abs().max()) for a, b in zip(after, before, strict=True)) > 0.01, "it moves at all"
    ours = [parameter.detach() for model in fitted(recipe, train).models for parameter in model.parameters()]
    for mine, theirs in zip(ours, after, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["prl-g", "ignormclip"])
def test_pruned_weights_train_as_in_the_hand_written_loop(name: str) -> None:
    def make() -> nn.Module:
        model = net(seed=3)
        prune.l1_unstructured(model[1], "weight", amount=0.3)
        return model

    train, twin = SETS["classification"], make()
    reference.trained(name, [twin], train, BATCH, EPOCHS, LEARNING_RATE)
    recipe = METHODS[name].recipe(noise_rate=reference.RATE, classes=train.classes, epochs=EPOCHS)
    ours = fitted(recipe, train, model=make()).model
    for mine, theirs in zip(ours.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["prl-g", "ignormclip"])
def test_a_network_in_float64_trains_as_in_float32(name: str) -> None:
    train = SETS["classification"]
    recipe = METHODS[name].recipe(noise_rate=0.25, classes=3, epochs=EPOCHS)
    assert isinstance(train.inputs, Tensor)
    wide = fitted(recipe, replace(train, inputs=train.inputs.double()), model=net(seed=3).double())
    narrow = fitted(recipe, train, model=net(seed=3))
    for mine, other in zip(wide.model.parameters(), narrow.model.parameters(), strict=True):
        torch.testing.assert_close(mine, other.double(), rtol=1e-4, atol=1e-5)


def test_the_references_are_no_copies_of_each_other() -> None:
    ends = []
    for name in reference.METHODS:
        train = SETS[METHODS[name].tasks[0]]
        make = factory(train.outputs)
        models = [make() for _ in range(reference.METHODS[name][1])]
        reference.trained(name, models, train, BATCH, EPOCHS, LEARNING_RATE)
        ends.append(sum(parameter.sum().item() for model in models for parameter in model.parameters()))
    assert len({round(end, 4) for end in ends}) == len(ends)


def test_spl_and_prl_l_are_the_same_under_squared_error_bit_for_bit() -> None:
    runs = [fitted(METHODS[name].recipe(noise_rate=0.25), SETS["regression"]) for name in ("spl", "prl-l")]
    assert_same_tensors(*([*run.model.state_dict().values()] for run in runs))
    weights = [run.ledger.to_pandas()["weight"].to_numpy() for run in runs]
    assert (weights[0] == weights[1]).all()
    assert 0 < weights[0].mean() < 1


def test_spl_and_prl_l_differ_under_cross_entropy_as_lemma_2_says() -> None:
    """Two examples of class 0: the first has the smaller loss, the second the smaller gradient of the loss layer."""
    likely = torch.tensor([[0.40, 0.60, 0.0], [0.39, 0.305, 0.305]]).clamp_min(1e-9)
    targets = torch.zeros(2, dtype=torch.long)
    by_loss, by_gradient = (
        weigh(KeepSmallest(by=by, count=1), nn.Identity(), likely.log(), targets)
        for by in (signals.loss, signals.output_gradient_norm)
    )
    assert by_loss.tolist() == [1.0, 0.0]
    assert by_gradient.tolist() == [0.0, 1.0]


@pytest.mark.parametrize(("plain", "objective"), [(None, Bootstrap(1.0)), (None, SoftBootstrap(1.0))])
def test_bootstrapping_with_beta_one_is_cross_entropy(plain: None, objective: nn.Module) -> None:
    first, second = (fitted(Recipe(objective=each), SETS["classification"]) for each in (plain, objective))
    assert_same_tensors([*first.model.state_dict().values()], [*second.model.state_dict().values()])


def test_huber_far_out_is_squared_error_and_near_zero_is_bounded() -> None:
    evidence = some_evidence(20, "real")
    torch.testing.assert_close(Huber(1e6)(evidence), SquaredError()(evidence))
    bounded = evidence.replace(objective=Huber(0.3), known={})
    assert float(signals.output_gradient(bounded).abs().max()) == pytest.approx(0.3)


@pytest.mark.parametrize("objective", [Bootstrap(0.8), SoftBootstrap(0.95)])
def test_bootstrapping_takes_soft_labels(objective: nn.Module) -> None:
    hard = some_evidence(9, "classes")
    soft = hard.replace(targets=functional.one_hot(hard.targets, 4).float())
    torch.testing.assert_close(objective(soft), objective(hard))


def test_disagree_counts_exactly_those_the_networks_differ_on() -> None:
    own, other = torch.tensor([[2.0, 0.0], [2.0, 0.0], [0.0, 1.0]]), torch.tensor([[5.0, 0.0], [0.0, 5.0], [0.0, 9.0]])
    about: Callable[[Tensor], Evidence] = lambda outputs: some_evidence(  # noqa: E731
        3, width=2, raw_outputs=outputs, known={}
    )
    evidence = about(own).replace(others={"peer": about(other)})
    assert Disagree()(evidence).tolist() == [0.0, 1.0, 0.0]


def test_networks_that_agree_are_left_as_they_are() -> None:
    train = SETS["classification"]
    run = fit(METHODS["decouple"].recipe(), lambda: net(seed=3), train, epochs=2, batch=BATCH, device="cpu")
    assert_same_tensors([*run.model.state_dict().values()], [*net(seed=3).state_dict().values()])
    assert sum(record["skipped"] for record in run.history) == 2 * sum(record["steps"] for record in run.history)


def test_ramps_fall_to_the_share_of_the_fixed_methods() -> None:
    for name in ("spl", "prl-l"):
        fixed, falling = (METHODS[each].recipe(noise_rate=0.4).each_batch for each in (name, f"{name}-ramp"))
        assert isinstance(fixed, KeepSmallest)
        assert isinstance(falling, KeepSmallest)
        assert fixed.by is falling.by
        assert falling.fraction == ramp(1.0, 0.6, epochs=10)
        assert fixed.fraction == 0.6


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda: Huber(0.0), "give a number above 0"),
        (lambda: Bootstrap(1.1), "give a number from 0 to 1"),
        (lambda: METHODS["prl-l"].recipe(noise_rate=1.0), "give a number from 0 up to 1"),
        (lambda: METHODS["prl-l"].recipe(noise_rate="plenty"), "give a number from 0 up to 1"),
        (lambda: METHODS["prl-l"].recipe(noise_rate="folds"), "noise_rate_by_folds"),
    ],
)
def test_refusals(wrong: Callable[[], object], sentence: str) -> None:
    with pytest.raises(ThresherError, match=sentence):
        wrong()


def statistics(model: nn.Module) -> list[Tensor]:
    return [buffer.clone() for buffer in model.buffers()]


def test_prl_g_refuses_batch_norm_and_takes_it_frozen() -> None:
    train, recipe = SETS["classification"], METHODS["prl-g"].recipe(noise_rate=0.25)
    settings: dict[str, Any] = {"epochs": 2, "batch": BATCH, "device": "cpu", "optimizer": sgd}
    with pytest.raises(ThresherError, match="batch_to_group_norm"):
        fit(recipe, net(batch_norm=True, seed=3), train, **settings)
    model = freeze_batch_norm(net(batch_norm=True, seed=3), train.inputs)  # type: ignore[arg-type]
    layer = model[2]
    before, scale = statistics(model), layer.weight.detach().clone()
    run = fit(recipe, model, train, test=train, **settings)
    assert_same_tensors(statistics(run.model), before)
    assert not layer.training
    assert not torch.equal(layer.weight, scale), "scale and shift still learn"


def test_frozen_statistics_are_those_of_the_inputs() -> None:
    inputs, model = SETS["classification"].inputs, net(batch_norm=True, seed=3)
    assert isinstance(inputs, Tensor)
    hidden = model[1](inputs.flatten(1))
    freeze_batch_norm(model, inputs)
    torch.testing.assert_close(model[2].running_mean, hidden.mean(0))
    torch.testing.assert_close(model[2].running_var, hidden.var(0))
    assert model[2].momentum == 0.1
    assert [module.training for module in model] == [True, True, False, True, True, True]


def test_a_model_is_frozen_by_its_name() -> None:
    assert {"cnn9-frozen", "cnn9-gn"} <= set(names())
    model = build("resnet20-frozen", input_shape=(3, 8, 8), outputs=2)
    modes = {module.training for module in model.modules() if isinstance(module, nn.BatchNorm2d)}
    assert modes == {False}
    assert model.training


@pytest.mark.parametrize("name", ["decouple", "co-prl-l", "ignormclip"])
def test_same_seed_same_run(name: str) -> None:
    recipe = METHODS[name].recipe(noise_rate=0.25, classes=3)
    assert_same_run(fitted(recipe, SETS["classification"]), fitted(recipe, SETS["classification"]))
