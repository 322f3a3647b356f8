"""The captured step without a GPU: what capturing relies on, and that padding and recording change nothing.

CUDA is replaced by fakes here. `benchmarks/engine_gpu.py` runs the real thing on a GPU: it compares captured and eager
parameters bit for bit.
"""

import gc
from collections.abc import Callable
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import torch
from every_recipe import registered
from tiny import examples
from torch import Tensor, nn

from thresher import Recipe, signals
from thresher.core.evidence import Evidence
from thresher.core.schedules import Schedule
from thresher.engine.device import capture
from thresher.engine.device.capture import Aside, Captured, obstacle, phase
from thresher.engine.loop.sweeper import Sweeper
from thresher.objectives import CrossEntropy, LayerPair, NearUniform, Objective, Variational
from thresher.rules import KeepSmallest, product, warmup
from thresher.slots.mix import Mixup, Pairing


class FakeGraph:
    """Stands for torch.cuda.CUDAGraph: counts its replays."""

    def __init__(self) -> None:
        self.replays = 0

    def register_generator_state(self, generator: torch.Generator) -> None: ...

    def replay(self) -> None:
        self.replays += 1


class FakeStream:
    def wait_stream(self, other: object) -> None: ...


@pytest.fixture
def fake_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def graph(made: FakeGraph, stream: FakeStream) -> Any:  # noqa: ARG001
        yield

    monkeypatch.setattr(torch.cuda, "CUDAGraph", FakeGraph)
    monkeypatch.setattr(torch.cuda, "Stream", FakeStream)
    monkeypatch.setattr(torch.cuda, "current_stream", FakeStream)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: nullcontext())  # noqa: ARG005
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "graph", graph)


def counted() -> tuple[list[float], Callable[[Tensor], Tensor]]:
    seen: list[float] = []

    def function(value: Tensor) -> Tensor:
        seen.append(float(value))
        return value * 2

    return seen, function


@pytest.mark.usefixtures("fake_cuda")
def test_is_recorded_after_the_warm_calls_and_again_when_the_key_changes() -> None:
    seen, function = counted()
    captured = Captured(function)
    for turn in range(capture.WARM_CALLS):
        assert float(captured("a", value=torch.tensor(float(turn)))) == 2 * turn
    assert captured.graph is None
    for value in (9.0, 10.0, 11.0):
        captured("a", value=torch.tensor(value))
    assert seen == [0.0, 1.0, 2.0, 9.0], "recorded once, then replayed"
    assert isinstance(captured.graph, FakeGraph)
    assert captured.graph.replays == 3
    captured("b", value=torch.tensor(1.0))
    assert captured.graph is None, "another phase starts with ordinary calls"


@pytest.mark.usefixtures("fake_cuda")
def test_inputs_are_copied_into_the_same_places_and_none_stays_none() -> None:
    captured = Captured(lambda value, inputs: value)  # noqa: ARG005
    captured("a", value=torch.zeros(2), inputs=None)
    place = captured.places["value"]
    assert place is not None
    captured("a", value=torch.ones(2), inputs=None)
    assert captured.places["value"] is place
    assert place.tolist() == [1.0, 1.0]
    assert captured.places["inputs"] is None
    captured("a", value=torch.ones(3), inputs=None)
    assert captured.places["value"] is not place, "another shape needs another place"


@pytest.mark.usefixtures("fake_cuda")
def test_a_tree_has_a_place_for_every_leaf() -> None:
    captured = Captured(lambda inputs: inputs["ids"] + inputs["more"][0])
    for turn in range(capture.WARM_CALLS + 2):
        inputs = {"ids": torch.full((2,), turn), "more": (torch.tensor([turn, 1]),)}
        place = captured.places.get("inputs")
        captured("a", inputs=inputs)
        if place is not None:
            assert captured.places["inputs"]["ids"] is place["ids"]
            assert captured.places["inputs"]["more"][0] is place["more"][0]
            assert place["ids"].tolist() == [turn, turn]
            assert place["more"][0].tolist() == [turn, 1]
    assert isinstance(captured.graph, FakeGraph)
    assert captured.graph.replays == 2


@pytest.mark.usefixtures("fake_cuda")
def test_inputs_that_change_their_shape_are_not_captured() -> None:
    captured = Captured(lambda inputs: inputs["ids"].sum())
    for _ in range(capture.WARM_CALLS + 1):
        captured("a", inputs={"ids": torch.ones(2, 5)})
    assert captured.graph is not None
    assert captured("a", inputs={"ids": torch.ones(2, 7)}) == 14
    assert captured.refusal == "inputs change their shape from batch to batch: pad all to one length"
    assert captured("a", inputs={"ids": torch.ones(2, 5)}) == 10


@pytest.mark.usefixtures("fake_cuda")
def test_a_function_that_cannot_be_recorded_goes_on_as_it_is_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def refusing(made: FakeGraph, stream: FakeStream) -> Any:  # noqa: ARG001
        raise RuntimeError("operation not permitted when stream is capturing\nmore")
        yield

    monkeypatch.setattr(torch.cuda, "graph", refusing)
    captured = Captured(lambda value: value + 1)
    for _ in range(capture.WARM_CALLS + 2):
        assert float(captured("a", value=torch.tensor(1.0))) == 2.0
    assert captured.refusal == "operation not permitted when stream is capturing"


@pytest.mark.usefixtures("fake_cuda")
def test_no_garbage_is_collected_while_a_step_is_recorded() -> None:
    collecting: list[bool] = []
    captured = Captured(lambda value: collecting.append(gc.isenabled()) or value)  # type: ignore[func-returns-value]
    for _ in range(capture.WARM_CALLS + 1):
        captured("a", value=torch.zeros(2))
    assert collecting == [True] * capture.WARM_CALLS + [False]
    assert gc.isenabled()


def test_a_phase_ends_with_the_warm_up() -> None:
    keep = KeepSmallest(by=signals.loss, fraction=0.5)
    recipe = Recipe(each_batch=warmup(3, keep))
    phases = [phase(recipe, epoch) for epoch in range(6)]
    assert phases[0] == phases[2] != phases[3] == phases[5]
    assert phase(Recipe(each_batch=keep), 0) == phase(Recipe(each_batch=keep), 7)


def test_a_phase_ends_when_mixing_begins() -> None:
    recipe = Recipe(mix=warmup(3, Mixup()))
    phases = [phase(recipe, epoch) for epoch in range(6)]
    assert phases[0] == phases[2] != phases[3] == phases[5]


class CallableRule:
    def __call__(self, evidence: Evidence) -> Tensor:
        return torch.full((len(evidence),), float(evidence.epoch))


class OwnObjective(Objective):
    def forward(self, evidence: Evidence) -> Tensor:
        return evidence.epoch * evidence.outputs.sum(1)


@dataclass(frozen=True)
class OwnSchedule(Schedule):
    def __call__(self, epoch: float, epochs: float) -> float:
        return 1 - epoch / epochs


def by_epoch(evidence: Evidence) -> Tensor:
    return CallableRule()(evidence)


FOREIGN: dict[str, Recipe] = {
    "a function": Recipe(each_batch=by_epoch),
    "a callable object": Recipe(each_batch=CallableRule()),
    "a method": Recipe(each_batch=CallableRule().__call__),
    "a partial": Recipe(each_batch=partial(by_epoch)),
    "inside a combinator": Recipe(each_batch=product(KeepSmallest(by=signals.loss, count=2), CallableRule())),
    "a signal": Recipe(each_batch=KeepSmallest(by=signals.Signal("own", by_epoch), count=2)),
    "a mix": Recipe(mix=lambda evidence: Pairing(evidence.ids, evidence.losses)),
    "an objective": Recipe(objective=OwnObjective()),
    "an objective inside another": Recipe(objective=NearUniform(0.1, OwnObjective())),
}
BLIND: dict[str, Recipe] = {  # what no epoch is shown to, or what is a device scalar
    "a function of outputs": Recipe(objective=lambda outputs, targets: (outputs - targets).square().sum(1)),
    "a loss of torch": Recipe(objective=nn.CrossEntropyLoss(reduction="none")),
    "an objective with layers": Recipe(objective=Variational([LayerPair("0", "0", 2, 2)])),
    "a schedule": Recipe(each_batch=KeepSmallest(by=signals.loss, fraction=OwnSchedule())),
}


@pytest.mark.parametrize("recipe", FOREIGN.values(), ids=FOREIGN.keys())
def test_whatever_may_read_the_epoch_is_recorded_again_in_each(recipe: Recipe) -> None:
    assert len({phase(recipe, epoch) for epoch in range(5)}) == 5


@pytest.mark.parametrize("recipe", BLIND.values(), ids=BLIND.keys())
def test_what_cannot_read_the_epoch_is_recorded_once(recipe: Recipe) -> None:
    assert len({phase(recipe, epoch) for epoch in range(5)}) == 1


@pytest.mark.parametrize("recipe", registered().values(), ids=registered().keys())
def test_every_recipe_of_the_library_is_recorded_a_few_times(recipe: Recipe) -> None:
    assert len({phase(recipe, epoch) for epoch in range(50)}) <= 3


def test_what_cannot_be_captured_is_named() -> None:
    model = nn.Linear(2, 2)
    assert obstacle(torch.optim.Adam(model.parameters()), torch.device("cpu")) == "only CUDA has graphs"
    reason = obstacle(torch.optim.RMSprop(model.parameters()), torch.device("cuda"))
    assert reason is not None
    assert "RMSprop" in reason
    assert obstacle(torch.optim.SGD(model.parameters(), lr=0.1, fused=True), torch.device("cuda")) is None


@pytest.mark.parametrize("count", [1, 7, 8, 9, 44])
def test_a_padded_sweep_gives_the_same_outputs(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    shapes: list[int] = []

    class Direct:
        """Captured, without a GPU: calls the function and notes the shapes."""

        def __init__(self, function: Callable[..., Any]):
            self.function = function

        def __call__(self, key: str, **inputs: Tensor | None) -> Any:  # noqa: ARG002
            assert inputs["index"] is not None
            shapes.append(len(inputs["index"]))
            return self.function(**inputs)

    monkeypatch.setattr("thresher.engine.loop.sweeper.Captured", Direct)
    train, objective = examples(), CrossEntropy()
    model = nn.Sequential(nn.Flatten(), nn.Linear(train.inputs[0].numel(), 3))
    positions = torch.arange(count)
    plain = Sweeper(batch=8)(model, objective, train, wanted=[signals.loss], positions=positions)
    padded = Sweeper(batch=8, captured=True)(model, objective, train, wanted=[signals.loss], positions=positions)
    torch.testing.assert_close(padded.outputs, plain.outputs)
    torch.testing.assert_close(padded.signals[signals.loss], plain.signals[signals.loss])
    assert set(shapes) == {8}


def test_work_aside_waits_for_what_came_before_it_and_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    story: list[str] = []

    class Event:
        def record(self) -> None:
            story.append("start noted")

    class Stream:
        def __init__(self, name: str = "aside") -> None:
            self.name = name

        def wait_event(self, event: Event) -> None:  # noqa: ARG002
            story.append(f"{self.name} waits for the start")

        def wait_stream(self, other: "Stream") -> None:
            story.append(f"{self.name} waits for {other.name}")

    @contextmanager
    def on(stream: Stream) -> Any:
        story.append(f"on {stream.name}")
        yield

    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "stream", on)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: Stream("main"))
    aside = Aside(torch.device("cuda"))
    story.append("the training pass")
    with aside.work():
        story.append("the clean pass")
    assert story == [
        "start noted",
        "the training pass",
        "aside waits for the start",
        "on aside",
        "the clean pass",
        "main waits for aside",
    ]
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    with Aside(torch.device("cuda")).work():
        story.append("in its turn")
    assert story[6:] == ["in its turn"]
