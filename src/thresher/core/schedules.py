"""Schedules: settings that change over training, as functions of its progress, or of what an observer finds in it."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from thresher.core.errors import ThresherError, is_number, raised_in, refuse_other_fields, refuse_unless, takes
from thresher.core.examples import Examples


class Schedule(ABC):
    """A frozen dataclass: the value after `epoch` epochs of a run of `epochs`.

    A learning rate is asked for at every step, so fractions of epochs count; what a recipe holds, as an epoch begins.
    It is hashable and compares by value, so that the engine keeps one device scalar for each.
    """

    observer: ClassVar["type[Observer] | None"] = None  # what finds the value that it waits for

    @abstractmethod
    def __call__(self, epoch: float, epochs: float) -> float: ...


@dataclass(frozen=True)
class ramp(Schedule):  # noqa: N801  # used like a function: ramp(1.0, 0.6, epochs=10)
    """From `start` to `end` in a straight line over `epochs` epochs, beginning after `after` of them.

    The end may itself be a schedule, such as an estimate that comes later (thresher.noise.estimated).

    >>> keep = ramp(1.0, 0.6, epochs=10)
    >>> [round(keep(epoch, 50), 2) for epoch in (0, 5, 10, 40)]
    [1.0, 0.8, 0.6, 0.6]
    """

    start: float
    end: float | Schedule
    epochs: float
    after: float = 0.0

    def __post_init__(self) -> None:
        refuse_other_fields(self)
        if not self.epochs > 0:
            raise ThresherError(f"ramp(epochs={self.epochs}) takes no time: give a number of epochs above 0.")

    def __call__(self, epoch: float, epochs: float) -> float:
        share = min(max((epoch - self.after) / self.epochs, 0.0), 1.0)
        end = self.end(epoch, epochs) if isinstance(self.end, Schedule) else self.end
        return self.start + (end - self.start) * share


@dataclass(frozen=True)
class step(Schedule):  # noqa: N801
    """`start`, multiplied by `times` at each epoch of `at`.

    >>> [round(step(0.1, at=(80, 100))(epoch, 120), 4) for epoch in (0, 79.9, 80, 100)]
    [0.1, 0.1, 0.01, 0.001]
    """

    start: float
    at: tuple[float, ...]
    times: float = 0.1

    def __post_init__(self) -> None:
        refuse_other_fields(self)
        object.__setattr__(self, "at", tuple(self.at))  # a list would not be hashable

    def __call__(self, epoch: float, epochs: float) -> float:  # noqa: ARG002
        return self.start * self.times ** sum(epoch >= drop for drop in self.at)


@dataclass(frozen=True)
class stairs(Schedule):  # noqa: N801
    """`start` times the factor of the last pair (share of the run, factor) whose share has passed.

    >>> [stairs(1.0, ((0.4, 0.1), (0.9, 0.0005)))(epoch, 200) for epoch in (79, 80, 180)]
    [1.0, 0.1, 0.0005]
    """

    start: float
    at: tuple[tuple[float, float], ...]

    def __call__(self, epoch: float, epochs: float) -> float:
        passed = [factor for share, factor in self.at if epoch >= share * epochs]
        return self.start * (passed[-1] if passed else 1.0)


@dataclass(frozen=True)
class rising(Schedule):  # noqa: N801
    """Up to the other schedule in a straight line from 0 over the first `epochs` epochs, for learning rates.

    >>> [round(rising(5, stairs(1.0, ((0.3, 0.1),)))(epoch, 100), 2) for epoch in (0, 2.5, 5, 29, 30)]
    [0.0, 0.5, 1.0, 1.0, 0.1]
    """

    epochs: float
    then: Schedule

    def __post_init__(self) -> None:
        refuse_other_fields(self)
        if not self.epochs > 0:
            raise ThresherError(f"rising({self.epochs}) takes no time: give a number of epochs above 0.")

    def __call__(self, epoch: float, epochs: float) -> float:
        return self.then(epoch, epochs) * min(epoch / self.epochs, 1.0)


@dataclass(frozen=True)
class cosine(Schedule):  # noqa: N801
    """From `start` to `end` along half a cosine over the whole run.

    >>> [round(cosine(1.0)(epoch, 100), 3) for epoch in (0, 50, 100)]
    [1.0, 0.5, 0.0]
    """

    start: float
    end: float = 0.0

    def __call__(self, epoch: float, epochs: float) -> float:
        share = min(epoch / max(epochs, 1e-12), 1.0)
        return self.end + (self.start - self.end) * (1 + math.cos(math.pi * share)) / 2


Columns = Mapping[str, np.ndarray[Any, Any]]  # of one network and one epoch, each [n]


class Observer(Protocol):
    """It reads every epoch of a run, and finds a value that schedules of its recipe wait for.

    It is made for the schedules that ask for it; a run in which it could find nothing is refused at once.
    """

    def __init__(self, asked: Sequence[Schedule], train: Examples, epochs: float): ...

    def observe(self, epoch: int, networks: Sequence[Columns]) -> None:
        """Read the ledger columns of an epoch (from 1), one mapping for each network."""

    def fill_in(self, schedule: Schedule) -> Schedule:
        """The schedule with the value that was found, if any, in every place that waits for it."""

    def record(self) -> dict[str, Any]:
        """The fields it adds to the history."""

    def columns(self) -> Columns:
        """The columns it adds to the ledger."""

    def state(self) -> dict[str, Any]: ...
    def load_state(self, saved: Mapping[str, Any]) -> None: ...


def observers_of(schedules: Iterable[Schedule], train: Examples, epochs: float) -> list[Observer]:
    """One observer of each kind that these schedules ask for."""
    asked: dict[type[Observer], list[Schedule]] = {}
    for schedule in schedules:
        if schedule.observer is not None:
            asked.setdefault(schedule.observer, []).append(schedule)
    return [kind(waiting, train, epochs) for kind, waiting in asked.items()]


def check_schedule(schedule: Callable[[float, float], Any], epochs: float, steps: int = 100) -> None:
    """Refuse a schedule of the learning rate that is not a finite number of at least 0 everywhere in a run."""
    refuse_unless("schedule", schedule, takes(schedule, 2), "a function of the epoch and the number of epochs")
    for step in range(steps):
        epoch = epochs * step / steps
        with raised_in("the schedule of the learning rate"):
            factor = schedule(epoch, epochs)
        if not (is_number(factor) and factor >= 0):
            raise ThresherError(
                f"The schedule of the learning rate gives {factor!r} in epoch {int(epoch) + 1}: let it give a finite "
                "number of at least 0."
            )
