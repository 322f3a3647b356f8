"""Compiled models: the training pass runs compiled, what looks into a model as written, and the result is the same."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from every_recipe import ALL_RECIPES, CLEAN
from tiny import assert_same_run, assert_same_tensors, examples, net, sgd, tensors
from torch import Tensor, nn

from thresher import Recipe, Run, ThresherError, fit, signals, weigh
from thresher.core.evidence import Evidence, Signal
from thresher.engine.device.placement import MODELS, as_written, compiling
from thresher.engine.gradients.unfactored import direction_of
from thresher.engine.loop.training import Training
from thresher.engine.settings import TrainSettings
from thresher.engine.start.compilation import WORTH_COMPILING, operations
from thresher.engine.step import forward
from thresher.engine.train import COMPILED, Moment, _compiles
from thresher.objectives import LayerPair, Variational
from thresher.rules import KeepSmallest, Rule

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.*deprecated:DeprecationWarning")  # torch of itself
TRAIN = examples(40, seed=1)


@contextmanager
def counted() -> Iterator[list[int]]:
    """How many examples each graph was compiled for; it then runs as it is, so that results are the same."""
    sizes: list[int] = []

    def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        sizes.append(next(len(each) for each in inputs if each.shape[1:] == (1, 4, 4)))
        return graph.forward

    torch.compiler.reset()
    with torch.compiler.set_stance(force_backend=backend):
        yield sizes


def train(recipe: Recipe, make: Callable[[], nn.Module] = net, **more: Any) -> Run:
    return fit(recipe, make, TRAIN, test=TRAIN, clean=CLEAN, validation=CLEAN, epochs=3, batch=10, **more)


@pytest.mark.parametrize(
    "name", ["standard", "reclaim", "co-teaching", "crust-central", "d2l", "views", "relabel and mix"]
)
def test_the_training_pass_is_compiled_once(name: str) -> None:
    plain = train(ALL_RECIPES[name])
    with counted() as sizes:
        fast = train(ALL_RECIPES[name], compiled=True)
    assert_same_run(fast, plain)
    assert sizes
    assert set(sizes) <= {10, 20}  # a batch, or two views of it: never one example, nor the size of a sweep
    assert len(sizes) <= len(fast.models)


WATCHED = {
    **{name: ALL_RECIPES[name] for name in ("prl-g", "l2rw", "features", "agreement of the peer")},
    "layers": Recipe(objective=Variational((LayerPair("1", "1", 8, 8),), strength=0.1)),
}


@pytest.mark.parametrize("name", WATCHED)
def test_what_looks_into_the_model_runs_as_written(name: str) -> None:
    teacher = {"teacher": net(seed=3)} if name == "layers" else {}
    plain = train(WATCHED[name], **teacher)
    with counted() as sizes, pytest.warns(UserWarning, match="changes nothing"):
        fast = train(WATCHED[name], compiled=True, **teacher)
    assert_same_run(fast, plain)
    assert sizes == []


class Own(nn.Module):
    """A model with a forward of its own: PyTorch compiles no nn.Sequential in place."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = net()

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.inner(inputs)
        return outputs


def with_batch_norm() -> nn.Module:
    return net(seed=1, batch_norm=True)


def test_the_pass_that_carries_a_tangent_is_compiled_once() -> None:
    plain = train(ALL_RECIPES["l2rw"], with_batch_norm, optimizer=sgd)
    with counted() as sizes:
        fast = train(ALL_RECIPES["l2rw"], with_batch_norm, optimizer=sgd, compiled=True)
    for ours, theirs in zip(tensors(fast), tensors(plain), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    assert sorted(sizes) == [9, 10]  # the clean batch, and the batch


def test_the_tangent_is_of_the_masks_that_are_trained_with(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mean of the agreements is the product of the step that is taken and the clean gradient."""
    model, seen, clean = net(seed=1, batch_norm=True, dropout=0.4), list[Tensor](), list[Any]()
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    monkeypatch.setattr(forward, "direction_of", lambda *of: clean.append(direction_of(*of)) or clean[0])

    @dataclass(frozen=True)
    class Noted(Rule):
        by: Signal = signals.clean_agreement

        def __call__(self, evidence: Evidence) -> Tensor:
            seen.append(evidence.read(self.by).clone())
            return torch.ones(len(evidence))

    with counted() as sizes:
        fit(Recipe(each_batch=Noted()), model, TRAIN, clean=CLEAN, steps=1, batch=10, optimizer=sgd, compiled=True)
    assert len(sizes) == 2
    moved = {name: (before[name] - value.detach()) / 0.1 for name, value in model.named_parameters()}
    product = sum((moved[name] * clean[0][value]).sum() for name, value in model.named_parameters())
    torch.testing.assert_close(seen[0].mean(), product, rtol=1e-4, atol=1e-7)


class ByHost(Own):
    """Asks the host for a number in the middle of its pass."""

    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(inputs) * (1.0 if inputs.sum().item() > 1e9 else 2.0)


def test_a_pass_that_cannot_be_compiled_with_a_tangent_runs_as_written() -> None:
    def make() -> nn.Module:
        model = ByHost()
        model.inner = with_batch_norm()
        return model

    plain = train(ALL_RECIPES["l2rw"], make)
    with pytest.warns(UserWarning, match="not compiled"):
        fast = train(ALL_RECIPES["l2rw"], make, compiled=True)
    assert_same_run(fast, plain)


def compiled() -> nn.Module:
    model: nn.Module = torch.compile(Own())
    return model


def compiled_in_place() -> nn.Module:
    model = Own()
    model.compile()  # type: ignore[no-untyped-call]
    return model


@pytest.mark.parametrize("name", ["reclaim", "l2rw", "prl-g", "d2l"])
@pytest.mark.parametrize("make", [compiled, compiled_in_place])
def test_a_model_that_its_owner_compiled_learns_the_same(name: str, make: Callable[[], nn.Module]) -> None:
    plain = train(ALL_RECIPES[name], Own)
    with counted() as sizes:
        fast = train(ALL_RECIPES[name], make)
    assert bool(sizes) == (name in ("reclaim", "d2l"))
    assert fast.history[-1]["scores"] == plain.history[-1]["scores"]
    assert_same_tensors(tensors(fast), tensors(plain))


@pytest.mark.parametrize("batch_norm", [True, False])
def test_afterwards_the_model_is_as_it_was(batch_norm: bool) -> None:
    model = net(seed=1, batch_norm=batch_norm)
    with counted() as sizes:
        train(Recipe(average=0.9), model, compiled=True)  # type: ignore[arg-type]
        assert len(sizes) == 1
        model(TRAIN.inputs[:3])  # type: ignore[index]
    assert len(sizes) == 1


def test_passes_with_dropout_run_as_written() -> None:
    rule = KeepSmallest(by=signals.mutual_information, fraction=0.5)
    with counted() as sizes:
        train(Recipe(each_batch=rule), lambda: net(dropout=0.2), compiled=True)
    assert len(sizes) == 1


def test_more_models_are_compiled_than_torch_would_by_itself() -> None:
    with counted() as sizes:
        for width in range(2, 12):
            model = nn.Sequential(nn.Flatten(), nn.Linear(16, width), nn.Linear(width, 3))
            fit(Recipe(), model, TRAIN, epochs=1, batch=10, compiled=True)
    assert len(sizes) == 10


def test_in_a_compiled_fit_the_model_still_takes_names() -> None:
    class Scaled(Own):
        def forward(self, inputs: Tensor, scale: float = 1.0) -> Tensor:
            return scale * super().forward(inputs)

    model, seen = Scaled(), list[float]()

    def nothing(_record: dict[str, Any]) -> bool:
        seen.append(model(TRAIN.inputs, scale=0.0).abs().sum().item())
        return False

    with counted():
        fit(Recipe(), model, TRAIN, epochs=1, batch=10, compiled=True, until=nothing)
    assert seen == [0.0]


def test_weigh_inside_a_compiled_step() -> None:
    model, rule = net(seed=1), KeepSmallest(by=signals.loss, fraction=0.5)

    def step(inputs: Tensor, targets: Tensor) -> Tensor:
        return weigh(rule, model, inputs, targets)

    expected = step(TRAIN.inputs, TRAIN.targets)  # type: ignore[arg-type]
    found = torch.compile(step, backend="eager")(TRAIN.inputs, TRAIN.targets)
    torch.testing.assert_close(found, expected)


def test_threads_that_overlap_leave_the_stance_as_it_was() -> None:

    first, second = as_written(), as_written()
    with counted() as sizes:
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        second.__exit__(None, None, None)
        train(Recipe(), compiled=True)
    assert len(sizes) == 1


def test_overlapping_fits_leave_the_limit_as_it_was() -> None:
    import torch._dynamo

    before = torch._dynamo.config.recompile_limit
    first, second = compiling([], []), compiling([], [])
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    inside = torch._dynamo.config.recompile_limit
    second.__exit__(None, None, None)
    assert (inside, torch._dynamo.config.recompile_limit) == (MODELS, before)


def test_a_model_with_a_hook_does_not_run_by_the_graph_of_one_without() -> None:
    def hooked() -> nn.Module:
        model = net(seed=1)
        model[1].register_forward_hook(lambda layer, given, output: 2 * output)  # type: ignore[index, operator]  # noqa: ARG005
        return model

    expected = train(Recipe(), hooked)
    with counted() as sizes:
        train(Recipe(), lambda: net(seed=1), compiled=True)
        found = train(Recipe(), hooked, compiled=True)
    assert len(sizes) == 2
    assert_same_run(found, expected)


def test_the_owners_way_to_compile_is_kept() -> None:
    asked = list[int]()

    def own(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:  # noqa: ARG001
        asked.append(1)
        return graph.forward

    torch.compiler.reset()
    train(Recipe(), lambda: torch.compile(Own(), backend=own))
    assert asked == [1]


def test_what_a_wrapper_cannot_say_is_refused() -> None:
    inner = Own()
    with pytest.raises(ThresherError, match="the same model twice"):
        train(Recipe(peers=2), lambda: torch.compile(inner))
    wrapped: nn.Module = torch.compile(Own())
    wrapped.register_forward_hook(lambda layer, given, output: output)  # noqa: ARG005
    with pytest.raises(ThresherError, match="put them on the model itself"):
        train(Recipe(), wrapped)  # type: ignore[arg-type]


class OnCuda:
    """A training as it would be on CUDA, of which only what the decision reads is there."""

    def __init__(self, epochs: int, inside: bool = False, kind: str = "cuda"):
        self.device, self.recipe, self.train = torch.device(kind), Recipe(), TRAIN
        self.plan = SimpleNamespace(epochs=epochs)
        self.step = SimpleNamespace(passes=SimpleNamespace(compilable=not inside))
        self.learners = [SimpleNamespace(model=net())]


def decided(training: OnCuda, compiled: bool | None = None) -> bool:
    return _compiles(TrainSettings(compiled=compiled), cast(Training, training))


def test_runs_on_cuda_that_are_long_enough_are_compiled() -> None:
    """The limit, from both sides: as many epochs as the operations of one make up what compiling earns."""
    a_run = len(TRAIN) * operations(net(), TRAIN.inputs)
    enough = math.ceil(WORTH_COMPILING / a_run)
    assert decided(OnCuda(enough))
    assert not decided(OnCuda(enough - 1))
    assert not decided(OnCuda(enough, inside=True))
    assert not decided(OnCuda(enough, kind="cpu"))
    assert decided(OnCuda(1, kind="cpu"), compiled=True)
    assert not decided(OnCuda(enough), compiled=False)


def test_a_run_that_is_compiled_by_itself_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("thresher.engine.train._compiles", lambda *_: True)
    said: list[Moment] = []
    with counted() as sizes:
        train(Recipe(), watch=said.append)
    assert sizes
    assert [moment.note for moment in said if moment.note] == [COMPILED]
    assert said[0].note == COMPILED
