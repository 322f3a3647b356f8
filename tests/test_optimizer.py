"""A skipped step leaves everything as it was, and the steps after it are those of a run that never saw the batch."""

import copy
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from test_views import NoWaiting
from torch import Tensor, nn, optim

from thresher.core.errors import ThresherError
from thresher.engine.plan import make_optimizer
from thresher.engine.settings import TrainSettings
from thresher.engine.step.optimizer import (
    NOT_COMPILED,
    Kernels,
    does_more,
    fused_where_possible,
    load_optimizer,
    step_unless,
    take_step,
    without_compiler,
)

MOMENTUM = partial(optim.SGD, lr=0.1, momentum=0.9)
MAKERS: dict[str, Callable[..., optim.Optimizer]] = {
    "default": make_optimizer(TrainSettings()),
    "sgd": partial(optim.SGD, lr=0.1),
    "sgd-decay": partial(optim.SGD, lr=0.1, weight_decay=0.1),
    "sgd-momentum": MOMENTUM,
    "sgd-momentum-decay": partial(MOMENTUM, weight_decay=0.1),
    "sgd-nesterov": partial(MOMENTUM, nesterov=True),
    "sgd-maximize": partial(MOMENTUM, maximize=True),
    "sgd-momentum-single": partial(MOMENTUM, fused=False, foreach=False),
    "sgd-momentum-foreach": partial(MOMENTUM, foreach=True),
    "sgd-fused-given": partial(MOMENTUM, fused=True),
    "adam-decay": partial(optim.Adam, lr=0.01, weight_decay=0.1),
    "adam-amsgrad": partial(optim.Adam, lr=0.01, amsgrad=True),
    "adam-single": partial(optim.Adam, lr=0.01, fused=False, foreach=False),
    "adam-foreach": partial(optim.Adam, lr=0.01, foreach=True),
    "adam-tensor-rate": partial(optim.Adam, lr=torch.tensor(0.01)),
    "adamw-amsgrad": partial(optim.AdamW, lr=0.01, amsgrad=True),
    "adamw-single": partial(optim.AdamW, lr=0.01, amsgrad=True, fused=False),
    "rmsprop": partial(optim.RMSprop, lr=0.01),
    "rmsprop-everything": partial(optim.RMSprop, lr=0.01, momentum=0.9, centered=True, weight_decay=0.1),
    "adagrad": partial(optim.Adagrad, lr=0.1, initial_accumulator_value=0.5, lr_decay=0.1),
    "adagrad-fused": partial(optim.Adagrad, lr=0.1, fused=True),
    "adadelta": optim.Adadelta,
    "adamax": partial(optim.Adamax, lr=0.01),
    "nadam": partial(optim.NAdam, lr=0.01),
    "nadam-decoupled": partial(optim.NAdam, lr=0.01, weight_decay=0.1, decoupled_weight_decay=True),
    "radam": partial(optim.RAdam, lr=0.01),
    "adafactor": partial(optim.Adafactor, lr=0.01),
    "two-groups": lambda parameters: optim.SGD(
        [{"params": parameters[:1], "momentum": 0.9}, {"params": parameters[1:], "foreach": True}], lr=0.1
    ),
}
SKIP, GO = torch.ones(()), torch.zeros(())
every_optimizer = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())


class Trained:
    """Two parameters, and one that never gets a gradient, under one optimizer."""

    def __init__(self, make: Callable[..., optim.Optimizer]):
        generator = torch.Generator().manual_seed(0)
        self.parameters = [nn.Parameter(torch.randn(shape, generator=generator)) for shape in ((3, 4), (4,), (2,))]
        self.optimizer = fused_where_possible(make(self.parameters))

    def step(self, seed: int, skip: Tensor = GO) -> None:
        generator = torch.Generator().manual_seed(seed)
        for parameter in self.parameters[:2]:
            parameter.grad = torch.randn(parameter.shape, generator=generator)
        step_unless(skip, self.optimizer)

    def values(self) -> list[Tensor]:
        return [parameter.detach().clone() for parameter in self.parameters]

    def state(self) -> dict[tuple[int, str], Tensor]:
        """Everything in the optimizer's state, by parameter and name."""
        places = {parameter: place for place, parameter in enumerate(self.parameters)}
        return {
            (places[parameter], name): torch.as_tensor(value).clone()
            for parameter, state in self.optimizer.state.items()
            for name, value in state.items()
            if value is not None
        }


def same(first: list[Tensor], second: list[Tensor]) -> bool:
    return all(torch.equal(one, other) for one, other in zip(first, second, strict=True))


@every_optimizer
@pytest.mark.parametrize("at", [0, 5], ids=["first", "sixth"])
@pytest.mark.parametrize("times", [1, 3])
def test_a_skipped_step_changes_nothing_and_is_as_if_it_had_never_been(make: Any, at: int, times: int) -> None:
    skipping, straight = Trained(make), Trained(make)
    for seed in range(at):
        skipping.step(seed)
        straight.step(seed)
    values, state = skipping.values(), skipping.state()
    for extra in range(times):
        skipping.step(1000 + extra, SKIP)
        assert same(skipping.values(), values)
        now = skipping.state()
        assert all(torch.equal(now[key], value) for key, value in state.items())
    for seed in range(at, at + 7):
        skipping.step(seed)
        straight.step(seed)
        assert same(skipping.values(), straight.values())
        found, expected = skipping.state(), straight.state()
        assert found.keys() == expected.keys()
        assert all(torch.equal(found[key], value) for key, value in expected.items())


@every_optimizer
def test_a_step_that_is_not_skipped_is_the_optimizers_own(make: Any) -> None:
    ours, plain = Trained(make), Trained(make)
    plain.optimizer = make(plain.parameters)
    start = ours.values()
    for seed in range(6):
        ours.step(seed)
        for parameter, other in zip(plain.parameters, ours.parameters, strict=True):
            parameter.grad = None if other.grad is None else other.grad.clone()
        plain.optimizer.step()
    for one, other, first in zip(ours.values(), plain.values(), start, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
        assert torch.equal(one, first) == (len(one) == 2 and one.ndim == 1)


@every_optimizer
def test_a_batch_of_infinities_is_skipped_like_any_other(make: Any) -> None:
    trained = Trained(make)
    trained.step(0)
    values, state = trained.values(), trained.state()
    for parameter in trained.parameters[:2]:
        parameter.grad = torch.full_like(parameter, float("nan"))
    step_unless(SKIP, trained.optimizer)
    assert same(trained.values(), values)
    assert all(torch.equal(trained.state()[key], value) for key, value in state.items())


@pytest.mark.parametrize("name", ["default", "sgd", "sgd-momentum", "sgd-nesterov", "adamw-amsgrad"])
def test_a_step_never_waits_for_the_device(name: str) -> None:
    trained = Trained(MAKERS[name])
    trained.step(0)
    with NoWaiting():
        trained.step(1)
        trained.step(2, SKIP)


@pytest.mark.parametrize("name", ["default", "sgd-momentum", "adamw-amsgrad"])
def test_the_fused_kernels_are_used_where_nobody_chose_otherwise(name: str) -> None:
    assert all(group["fused"] for group in Trained(MAKERS[name]).optimizer.param_groups)
    for chosen in ("adam-single", "adam-foreach", "sgd-momentum-single"):
        assert not any(group["fused"] for group in Trained(MAKERS[chosen]).optimizer.param_groups)


@pytest.mark.parametrize("name", ["default", "sgd-momentum", "rmsprop", "nadam"])
def test_a_state_saved_after_a_skipped_first_step_can_be_loaded(name: str) -> None:
    first, second = Trained(MAKERS[name]), Trained(MAKERS[name])
    first.step(0, SKIP)
    second.optimizer.load_state_dict(copy.deepcopy(first.optimizer.state_dict()))
    for seed in range(3):
        first.step(seed)
        second.step(seed)
        assert same(first.values(), second.values())


@pytest.mark.parametrize(
    "make",
    [
        optim.LBFGS,
        optim.ASGD,
        optim.Rprop,
        optim.SparseAdam,
        partial(MOMENTUM, dampening=0.1),
        partial(MOMENTUM, dampening=0.1, fused=True),
        lambda parameters: list(parameters),
        lambda parameters: None,  # noqa: ARG005
    ],
)
def test_an_optimizer_that_cannot_skip_is_refused_at_the_start(make: Any) -> None:
    with pytest.raises(ThresherError, match=r"skip|optimizer="):
        Trained(make)


def with_kernels(make: Any, skips: list[float], all_of_them: bool = True) -> tuple[Trained, Trained, list[bool]]:
    """The same steps by the kernels where they can make them, and by the optimizer; and which of them they made."""
    fast, slow, made = Trained(make), Trained(make), []
    if all_of_them:  # without the parameter that never gets a gradient
        for each in (fast, slow):
            each.parameters.pop()
            each.optimizer = fused_where_possible(make(each.parameters))
    kernels = Kernels(fast.optimizer)
    for seed, skip in enumerate(skips):
        slow.step(seed, torch.tensor(skip))
        for parameter, other in zip(fast.parameters, slow.parameters, strict=True):
            parameter.grad = None if other.grad is None else other.grad.clone()
        made.append(kernels.step(torch.tensor(skip)))
        if not made[-1]:
            step_unless(torch.tensor(skip), fast.optimizer)
    return fast, slow, made


@every_optimizer
@pytest.mark.parametrize("all_of_them", [True, False])
def test_the_kernels_alone_give_the_bits_of_the_optimizers_own_step(make: Any, all_of_them: bool) -> None:
    fast, slow, made = with_kernels(make, [0.0, 0.0, 1.0, 0.0, 1.0, 0.0], all_of_them)
    assert same(fast.values(), slow.values())
    found, expected = fast.state(), slow.state()
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[key], value) for key, value in expected.items())
    if not all_of_them:
        assert not any(made)


def test_the_kernels_make_every_step_but_the_first_of_the_usual_optimizers() -> None:
    assert with_kernels(MAKERS["default"], [0.0] * 4)[2] == [False, True, True, True]
    assert with_kernels(partial(optim.AdamW, lr=0.01), [0.0] * 4)[2] == [False, True, True, True]
    assert with_kernels(MAKERS["sgd-nesterov"], [0.0] * 4)[2] == [True] * 4  # its momenta are there from the start
    assert with_kernels(MAKERS["adam-amsgrad"], [0.0] * 4)[2] == [False] * 4


def test_the_kernels_leave_a_step_with_hooks_to_the_optimizer_and_follow_a_loaded_state() -> None:
    fast, _, _ = with_kernels(MAKERS["default"], [0.0] * 3)
    kernels, called = Kernels(fast.optimizer), []
    hook = fast.optimizer.register_step_post_hook(lambda *_: called.append(1))
    assert not kernels.step(None)
    hook.remove()
    assert kernels.step(None)
    load_optimizer(fast.optimizer, copy.deepcopy(fast.optimizer.state_dict()))
    counted = fast.state()[0, "step"]
    assert kernels.step(None)
    assert fast.state()[0, "step"] == counted + 1


@pytest.mark.parametrize("name", ["betas", "lr", "weight_decay"])
def test_a_stored_state_without_a_setting_of_its_optimizer_is_refused(name: str) -> None:
    trained = Trained(MAKERS["default"])
    trained.step(0)
    stored = copy.deepcopy(trained.optimizer.state_dict())
    del stored["param_groups"][0][name]
    with pytest.raises(ValueError, match=f"{name} of the optimizer is missing"):
        load_optimizer(trained.optimizer, stored)


@pytest.mark.parametrize("name", [name for name in MAKERS if name.startswith(("default", "sgd", "adam-", "adamw"))])
def test_a_step_that_does_not_import_the_compiler_gives_the_same_bits(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, own = Trained(MAKERS[name]), Trained(MAKERS[name])
    for seed in range(3):
        own.step(seed)
        for parameter, other in zip(ours.parameters, own.parameters, strict=True):
            parameter.grad = None if other.grad is None else other.grad.clone()
        with monkeypatch.context() as patched:
            patched.delitem(sys.modules, "torch._dynamo", raising=False)
            take_step(ours.optimizer)
            assert "torch._dynamo" not in sys.modules
    assert same(ours.values(), own.values())
    assert all(torch.equal(ours.state()[key], value) for key, value in own.state().items())


def test_a_step_with_hooks_is_the_optimizers_own() -> None:
    trained, called = Trained(MAKERS["default"]), []
    hook = trained.optimizer.register_step_post_hook(lambda *_: called.append(1))
    assert does_more(trained.optimizer)
    take_step(trained.optimizer)
    assert called == [1]
    hook.remove()
    assert not does_more(trained.optimizer)


def test_methods_of_optimizers_are_as_before_after_the_compiler_was_kept_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch._dynamo", raising=False)
    before = dict(vars(optim.Optimizer))
    with without_compiler():
        assert all(vars(optim.Optimizer)[name] is not before[name] for name in NOT_COMPILED)
    assert dict(vars(optim.Optimizer)) == before
