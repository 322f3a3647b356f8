"""How a suite trains: the model, the optimizer and the length, and what distilling and active learning add."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from thresher.core.evidence import Signal
from thresher.core.schedules import Schedule
from thresher.core.signals import margin
from thresher.core.slots import View


@dataclass(frozen=True)
class Queries:
    """How an active-learning loop buys labels: so many to begin with, then so many in each of the rounds."""

    start: int
    count: int
    rounds: int


@dataclass(frozen=True)
class Teaching:
    """How a teacher is made and how its labels are weighed, in suites that distil.

    labelled    how many examples, the first of the training set, are labelled
    validation  how many of the others are, for estimating weights
    teacher     the model of the teacher, trained on the labelled examples as the student is before it meets the teacher
    epochs      of both these trainings; None: as many as the setup's
    every_epoch  whether weights are estimated anew every epoch, or once
    layers      for VID: pairs of a layer of the student and the teacher's that it should tell
    """

    labelled: int
    validation: int
    teacher: str
    epochs: int | None = None
    by: Signal = margin
    every_epoch: bool = False
    student_sees_validation: bool = False
    temperature: float = 1.0
    layers: tuple[tuple[str, str], ...] = (("body", "body"),)


@dataclass(frozen=True)
class Setup:
    """How a network is trained; a cell or a method may change any of it by name."""

    model: str
    batch: int
    optimizer: Mapping[str, Any]  # {"name": "sgd", "lr": 0.1, "momentum": 0.9}
    epochs: int | None = None
    steps: int | None = None
    schedule: Schedule | None = None
    views: tuple[View, ...] = ()
    precision: str = "float32"
    compiled: bool = False
    seeds: int = 3
    tuning_steps: int = 5000  # of methods that are fine-tuned on the clean set
    teaching: Teaching | None = None
    queries: Queries | None = None
