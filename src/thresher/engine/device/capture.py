"""The captured step: on CUDA a step is recorded once as a graph and replayed, which costs the host almost nothing.

Work that needs nothing of the rest of a step gets a stream of its own in it.
"""

import gc
import warnings
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from thresher.core.evidence import Signal
from thresher.core.objective import Objective
from thresher.core.recipe import Recipe
from thresher.core.rule import Reader, parts
from thresher.core.schedules import Schedule
from thresher.core.trees import Tree, mapped, named_leaves

WARM_CALLS = 3  # libraries choose their kernels and optimizers create their state in the first calls


class Captured:
    """A function of tensors that is recorded after a few ordinary calls and replayed from then on.

    Its inputs are copied into fixed places; it returns the same tensors every time. A change of `key` records it anew.
    Where recording fails it goes on as an ordinary function, and `refusal` says why.
    """

    def __init__(self, function: Callable[..., Any], generators: tuple[torch.Generator, ...] = ()):
        self.function, self.generators = function, generators
        self.graph: torch.cuda.CUDAGraph | None = None
        self.stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self.key: Hashable = None
        self.calls = 0
        self.places: dict[str, Tree | None] = {}
        self.result: Any = None
        self.refusal: str | None = None

    def __call__(self, key: Hashable, **inputs: Tree | None) -> Any:
        if self.refusal is not None:
            return self.function(**inputs)
        if key != self.key:
            self.graph, self.key, self.calls = None, key, 0
        self._place(inputs)
        if self.refusal is not None:
            return self.function(**inputs)
        if self.graph is None:
            if self.calls < WARM_CALLS:
                self.calls += 1
                return self._ordinary()
            self._record()
            if self.refusal is not None:
                return self.function(**inputs)
        assert self.graph is not None
        self.graph.replay()
        return self.result

    def _place(self, inputs: Mapping[str, Tree | None]) -> None:
        for name, value in inputs.items():
            place = self.places.get(name)
            if value is None:
                self.places[name] = None
            elif place is None or not _fits(place, value):
                if place is not None and self.graph is not None:  # a recording for every shape would cost more
                    self.refusal = f"{name} change their shape from batch to batch: pad all to one length"
                self.places[name], self.graph = mapped(torch.clone, value), None
            else:
                mapped(Tensor.copy_, place, value)

    def _ordinary(self) -> Any:
        """A call on the stream that will be recorded, as autograd wants it."""
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            result = self.function(**self.places)
        torch.cuda.current_stream().wait_stream(self.stream)
        return result

    def _record(self) -> None:
        graph = torch.cuda.CUDAGraph()
        for generator in self.generators:
            graph.register_generator_state(generator)
        try:
            with _nothing_collected(), torch.cuda.graph(graph, stream=self.stream):
                self.result = self.function(**self.places)
        except Exception as error:
            self.refusal = str(error).splitlines()[0] if str(error) else type(error).__name__
            torch.cuda.synchronize()
        else:
            self.graph = graph


def _fits(place: Tree, value: Tree) -> bool:
    """Whether the value has the branches and shapes of the place it would be copied into."""
    if isinstance(value, Tensor):
        return isinstance(place, Tensor) and place.shape == value.shape
    ours, theirs = dict(named_leaves(place)), dict(named_leaves(value))
    return ours.keys() == theirs.keys() and all(ours[name].shape == leaf.shape for name, leaf in theirs.items())


@contextmanager
def _nothing_collected() -> Iterator[None]:
    """No garbage is collected inside: the graph of an earlier run, freed during a recording, would end it."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def phase(recipe: Recipe, epoch: int) -> tuple[Hashable, ...]:
    """What a recorded step has taken for granted about the epoch: recording is needed again when it changes.

    Rules, mixes, relabellings, objectives and signals say it themselves. Anything else that is called with evidence may
    look at the epoch, so it is recorded again in each; schedules are device scalars.
    """
    layers = recipe.objective.modules() if isinstance(recipe.objective, nn.Module) else ()
    objectives = tuple(layer for layer in layers if isinstance(layer, Objective))  # the others are shown no epoch
    asked = parts((recipe.each_batch, recipe.relabel_on("batch"), recipe.mix, objectives))
    return tuple(_phase(part, epoch) for part in asked)


def _phase(part: Any, epoch: int) -> Hashable:
    if isinstance(part, Reader | Signal):
        return part.phase(epoch)
    return epoch if callable(part) and not isinstance(part, Schedule | type) else None


def obstacle(optimizer: torch.optim.Optimizer, device: torch.device) -> str | None:
    """Why a step with this optimizer cannot be captured, or None."""
    if device.type != "cuda":
        return "only CUDA has graphs"
    if not all(group.get("fused") for group in optimizer.param_groups):
        return f"{type(optimizer).__name__} keeps numbers on the host: choose Adam, AdamW or SGD"
    return None


class Aside:
    """Work that needs nothing of what the step does from here on; while a graph is recorded it gets its own stream.

    The pass over the clean batch is one: a small network leaves most of a GPU idle, so the clean pass and the training
    pass cost little more together than the longer of them alone. Outside a recording the work is done in its turn,
    with the same result. What it makes may be used after it: the step waits for it at its end.
    """

    def __init__(self, device: torch.device) -> None:
        self.start: torch.cuda.Event | None = None
        if device.type == "cuda" and torch.cuda.is_current_stream_capturing():
            self.start = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self.start.record()

    @contextmanager
    def work(self) -> Iterator[None]:
        if self.start is None:
            yield
            return
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_event(self.start)
        with torch.cuda.stream(stream), warnings.catch_warnings():
            # Gradients of parameters meet in nodes of the main stream: autograd makes it wait, as we do right after.
            warnings.filterwarnings("ignore", "The AccumulateGrad node's stream")
            yield
        torch.cuda.current_stream().wait_stream(stream)
