"""How long and how to train, and what makes a run this run and no other."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from thresher.engine.checkpoint import describe
from thresher.engine.learner import Learner
from thresher.engine.look import Precision
from thresher.engine.optimizer import ABOUT_DEVICE, MakeOptimizer
from thresher.engine.teacher import TEACHER_OUTPUT
from thresher.errors import ThresherError
from thresher.examples import Examples
from thresher.recipe import Recipe
from thresher.rules.rule import needs_of
from thresher.schedules import Schedule
from thresher.seeding import derive

SAMPLED = 64  # examples whose inputs are looked at


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


def precision_on(wanted: Precision, device: torch.device) -> Precision:
    """bfloat16 on CUDA unless something else is wanted; None stands for plain float32."""
    if wanted is None and device.type == "cuda":
        return torch.bfloat16
    return None if wanted == torch.float32 else wanted


def identity(recipe: Recipe, sets: Mapping[str, Examples], plan: Plan, learner: Learner) -> dict[str, Any]:
    """What makes this run this run and no other, for telling whether a folder may be continued."""
    needs, train, optimizer = needs_of(recipe), sets["train"], learner.optimizer
    clean = sets["clean"] if "clean" in needs else None
    teachers = [sets[name] for name in ("train", "validation") if name == "train" or name in needs]
    said = {"teacher": describe([each.columns[TEACHER_OUTPUT] for each in teachers])} if "teacher" in needs else {}
    held = dict(learner.objective.named_buffers())  # such as the weights of classes
    hidden = ("params", "lr", *ABOUT_DEVICE)
    groups = [{k: describe(v) for k, v in group.items() if k not in hidden} for group in optimizer.param_groups]
    return {
        "recipe": describe(recipe),
        "model": derive(repr(learner.model)),
        "data": _data(train),
        "length": [plan.epochs, plan.steps],
        "batch": plan.batch,
        "clean": None if clean is None else [_data(clean), plan.clean_batch],
        **said,
        **_checked_by(recipe, sets, plan),
        **({"objective": describe(held)} if held else {}),
        "seed": plan.seed,
        "optimizer": [type(optimizer).__name__, learner.base_rates, groups],
        "keep": "best_on_validation" if plan.keep_best else "last",
        "schedule": describe(plan.schedule),
        "precision": str(plan.precision),
    }


def _checked_by(recipe: Recipe, sets: Mapping[str, Examples], plan: Plan) -> dict[str, Any]:
    used = plan.keep_best or "validation" in needs_of(recipe)
    return {"validation": _data(sets["validation"])} if used else {}


def _data(examples: Examples) -> list[Any]:
    """Ids, targets, and a number that other inputs would hardly give, rounded so that the same always give it."""
    found = describe([examples.ids, examples.targets])
    if examples.target_scale is not None:
        found += describe(examples.target_scale)
    if not isinstance(examples.inputs, Tensor):
        return [*found, None]
    some = examples.inputs[:: max(1, len(examples) // SAMPLED)].cpu().double()
    shares = (torch.arange(some.numel(), dtype=some.dtype) * 0.618 % 1).view_as(some)  # neighbours differ
    return [*found, f"{float(((some + 1).square() * shares).mean()):.4g}"]
