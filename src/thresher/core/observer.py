"""Observers: they read every epoch of a run and find a value that a schedule of its recipe waits for."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from thresher.core.examples import Examples
from thresher.core.rule import schedules_of
from thresher.core.schedules import Schedule

Columns = Mapping[str, np.ndarray[Any, Any]]  # of one network and one epoch, each [n]


class Observer(Protocol):
    """Made for the schedules of a recipe that ask for it; a run in which it could find nothing is refused at once."""

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


def observers_of(recipe: Any, train: Examples, epochs: float) -> list[Observer]:
    """One observer of each kind that schedules of the recipe ask for."""
    asked: dict[type[Observer], list[Schedule]] = {}
    for schedule in schedules_of(recipe):
        if schedule.observer is not None:
            asked.setdefault(schedule.observer, []).append(schedule)
    return [kind(schedules, train, epochs) for kind, schedules in asked.items()]
