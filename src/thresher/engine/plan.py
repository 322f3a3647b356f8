"""How long and how to train, and what makes a run this run and no other."""

from dataclasses import dataclass
from typing import Any

from thresher.core.errors import ThresherError
from thresher.core.examples import Examples
from thresher.core.schedules import Schedule
from thresher.engine.device.precision import Precision
from thresher.engine.step.optimizer import MakeOptimizer


@dataclass(frozen=True)
class Plan:
    """How long and how to train: the settings of `fit` that are no data and no method."""

    epochs: float
    steps: int | None
    batch: int
    seed: int
    precision: Precision
    workers: int
    schedule: Schedule | None
    make_optimizer: MakeOptimizer
    captured: bool = False
    channels_last: bool = False
    clean_batch: int = 1
    keep_best: bool = False  # on the validation set, else the last


def length_of(train: Examples, epochs: int | None, steps: int | None, batch: int) -> dict[str, Any]:
    """How long to train, as the plan has it, or why not."""
    if (epochs is None) == (steps is None):
        raise ThresherError("fit() needs to know how long to train: give exactly one of epochs= and steps=.")
    length = epochs if epochs is not None else steps
    if length is None or length < 1:
        what = "steps" if epochs is None else "epochs"
        raise ThresherError(f"Training for {length} {what} does nothing: give at least 1.")
    if batch < 1 or batch > len(train):
        raise ThresherError(f"batch={batch} does not fit {len(train)} training examples: give 1 to {len(train)}.")
    return {"epochs": length * batch / len(train) if epochs is None else float(length), "steps": steps, "batch": batch}


def clean_batch_of(clean: Examples | None, wanted: int | None, batch: int) -> int:
    """How many clean examples a step looks at."""
    if wanted is None:
        return 1 if clean is None else min(batch, len(clean))
    if clean is None:
        raise ThresherError(f"clean_batch={wanted} takes batches of a clean set: pass clean=Examples(...).")
    if not 1 <= wanted <= len(clean):
        raise ThresherError(f"clean_batch={wanted} does not fit {len(clean)} clean examples: give 1 to {len(clean)}.")
    return wanted
