"""How a suite trains: model, optimizer and length, and what distillation and active learning add."""

from dataclasses import dataclass

from thresher.core.evidence import Signal
from thresher.core.signals import margin
from thresher.engine.settings import TrainSettings


@dataclass(frozen=True)
class Queries:
    """How many labels an active-learning loop buys: `start` at first, then `count` in each round."""

    start: int
    count: int
    rounds: int


@dataclass(frozen=True)
class Teaching:
    """How a teacher is trained and how its labels are weighted, in suites that distil.

    labelled    how many examples, the first of the training set, are labelled
    validation  how many of the others are labelled, for estimating weights
    teacher     the model of the teacher, trained on the labelled examples, as the student is in pretraining
    epochs      of these two trainings; None: as many as the setup's
    every_epoch  whether weights are estimated in every epoch, or once
    layers      for VID: pairs of a layer of the student and the layer of the teacher that it predicts
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
class Setup(TrainSettings):
    """How a network is trained; a cell or a method may change any field by name."""

    model: str = "mlp"
    precision: str = "float32"
    seeds: int = 3
    tuning_steps: int = 5000  # of fine-tuning on the clean set
    teaching: Teaching | None = None
    queries: Queries | None = None
