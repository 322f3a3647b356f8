"""Where the time of an epoch and of a step goes, by the functions of the engine that do it.

Their names are this benchmark's alone: it wraps the engine's own functions while it looks.
"""

import statistics
import time
from collections import defaultdict
from collections.abc import Callable
from types import TracebackType
from typing import Any

import torch
from profile_step import busy_time
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function

from thresher import Examples, Moment, Recipe, fit
from thresher.engine.loop import feed, history, training
from thresher.engine.loop.feed import BatchSource, TrainStream
from thresher.engine.loop.sweeper import Sweeper
from thresher.engine.step.learner import Learner
from thresher.engine.step.passes import Passes
from thresher.engine.step.step import Step
from thresher.objectives import NearUniform
from thresher.record.epoch_rows import EpochRows

# What each is called in the result, and where it stands. Parts that are inside of others are counted in both.
OF_EPOCH: dict[str, tuple[Any, str]] = {
    "begin: decide (sweep and rules)": (training, "decide_epoch"),
    "begin: of that, the sweep": (Sweeper, "each"),
    "begin: order": (TrainStream, "order"),
    "begin: last visits": (feed, "last_visits"),
    "end: all": (training.Training, "_end_epoch"),
    "end: ledger filled and read": (training, "fill_unseen"),
    "end: ledger table": (training, "epoch_table"),
    "end: record": (training, "epoch_record"),
    "end: norms of the average": (training, "renew_averages"),
    "end: scores": (history.Scores, "take"),
}
OF_STEP: dict[str, tuple[Any, str]] = {
    "views": (Step, "_views"),
    "gather": (BatchSource, "batch"),
    "labels and columns": (BatchSource, "as_decided"),
    "draw of the mix": (Step, "_blend"),
    "forward pass and blending": (Passes, "to_learn"),
    "losses": (NearUniform, "forward"),
    "average": (Learner, "_move_average"),
    "note of the ledger": (Step, "_note"),
    "ledger": (EpochRows, "add"),
    "optimizer and average": (Step, "_move"),
    "whole step": (Step, "__call__"),
}


def waited() -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


class Wrapped:
    """Functions of the engine with something around each, and as they were afterwards."""

    def __init__(self, places: dict[str, tuple[Any, str]], around: Callable[[str, Callable[..., Any]], Any]):
        self.places, self.around = places, around
        self.before: list[tuple[Any, str, Any]] = []

    def __enter__(self) -> "Wrapped":
        for name, (owner, attribute) in self.places.items():
            as_was = vars(owner)[attribute]
            self.before.append((owner, attribute, as_was))
            setattr(owner, attribute, self.around(name, as_was))
        return self

    def __exit__(self, *_: object) -> None:
        for owner, attribute, as_was in self.before:
            setattr(owner, attribute, as_was)


class EpochParts:
    """While it is `on`, the seconds of what an epoch does once, each with the device waited for before and after."""

    def __init__(self) -> None:
        self.on = False
        self.epochs: list[dict[str, float]] = []
        self.now: dict[str, float] = defaultdict(float)
        self.first = 0.0
        self.wrapped = Wrapped(OF_EPOCH, self._timed)

    def __enter__(self) -> "EpochParts":
        self.wrapped.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.wrapped.__exit__(kind, error, trace)

    def _timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*given: Any, **named: Any) -> Any:
            if not self.on:
                return function(*given, **named)
            started = waited()
            if name == "end: all":
                self.now["steps"] = started - self.first
            result = function(*given, **named)
            ended = waited()
            self.now[name] += ended - started
            if name == "begin: last visits":
                self.first = ended
            if name == "end: all":
                self.epochs.append(dict(self.now))
                self.now.clear()
            return result

        return timed

    def medians(self) -> dict[str, float]:
        """Of each part over the epochs that were seen whole, in seconds."""
        names = sorted({name for epoch in self.epochs for name in epoch})
        return {name: statistics.median(epoch.get(name, 0.0) for epoch in self.epochs) for name in names}


def _annotated(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def inside(*given: Any, **named: Any) -> Any:
        with record_function(f"part: {name}"):
            return function(*given, **named)

    return inside


def parts_of_step(
    recipe: Recipe, model: Callable[[], nn.Module], train: Examples, batch: int, optimizer: Any
) -> dict[str, float]:
    """Milliseconds of device time a step in each part, in the epoch after two, and how many kernels it has.

    Neither captured nor compiled. Backward passes are started by another thread: they are what is left of the whole.
    """
    on_device = torch.cuda.is_available()
    looking = profile(activities=[ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_device else [])])
    steps = 0

    def watch(moment: Any) -> None:
        nonlocal steps
        if moment.record is None and moment.note is None and moment.epoch == 2:
            steps = moment.steps
            if moment.step == 1:
                waited()
                looking.start()
            elif moment.step == moment.steps:
                waited()
                looking.stop()

    with Wrapped(OF_STEP, _annotated):
        fit(
            recipe, model, train, epochs=200, batch=batch, optimizer=optimizer, seed=0, captured=False, compiled=False,
            until=lambda record: record["epoch"] >= 3, watch=watch,
        )  # fmt: skip
    counted, found = max(steps - 1, 1), {}
    for event in looking.key_averages():
        took = event.device_time_total if on_device else event.cpu_time_total
        if event.key.startswith("part: ") and event.device_type == torch.autograd.DeviceType.CPU:
            found[event.key.removeprefix("part: ")] = took / 1000 / counted
    kind = torch.autograd.DeviceType.CUDA if on_device else torch.autograd.DeviceType.CPU
    kernels = [
        event
        for event in looking.events() or []
        if event.device_type == kind and not event.name.startswith(("part: ", "Optimizer."))
    ]
    found["kernels, a step"] = len(kernels) / counted
    found["kernels, ms"] = sum(event.self_device_time_total for event in kernels) / 1000 / counted
    short = [event.self_device_time_total for event in kernels if event.self_device_time_total < 10]
    found["kernels below 10 us, a step"] = len(short) / counted
    found["kernels below 10 us, ms"] = sum(short) / 1000 / counted
    return found


class Kernels:
    """Of a few steps of one epoch, captured and compiled as they are: the kernels, their time and the gaps between."""

    STEPS, LISTED = 20, 16

    def __init__(self) -> None:
        self.kernels = profile(
            activities=[ProfilerActivity.CUDA if torch.cuda.is_available() else ProfilerActivity.CPU]
        )
        self.started = self.seconds = 0.0

    def look(self, moment: Moment) -> None:
        """To be called after every step of the epoch."""
        if moment.step == 1:
            waited()
            self.kernels.start()
            self.started = waited()
        elif moment.step == 1 + self.STEPS:
            self.seconds = waited() - self.started
            self.kernels.stop()

    def found(self) -> dict[str, float]:
        """In milliseconds a step: all, kernels, gaps, kernels below 10 us (and their number), and the largest."""
        if not self.seconds:
            return {}
        kind = torch.autograd.DeviceType.CUDA if torch.cuda.is_available() else torch.autograd.DeviceType.CPU
        times: dict[str, float] = defaultdict(float)
        spans, short = [], []
        for event in self.kernels.events() or []:
            if event.device_type == kind:
                spans.append((event.time_range.start, event.time_range.end))
                took = spans[-1][1] - spans[-1][0]
                times[event.name] += took
                if took < 10:
                    short.append(took)
        unit, whole, busy = 1e-3 / self.STEPS, 1e3 * self.seconds / self.STEPS, busy_time(spans)
        largest = sorted(times.items(), key=lambda each: each[1], reverse=True)[: self.LISTED]
        return {
            "a step, ms": whole,
            "kernels, ms": busy * unit,
            "gaps, ms": whole - busy * unit,
            "kernels": len(spans) / self.STEPS,
            "kernels below 10 us": len(short) / self.STEPS,
            "kernels below 10 us, ms": sum(short) * unit,
            **{f"kernel {name[:90]}, ms": took * unit for name, took in largest},
        }
