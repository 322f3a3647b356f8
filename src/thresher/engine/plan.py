"""What settings come to: words become optimizers, schedules and views, and what was left open is settled."""

import math
import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.optim import SGD, Adam, AdamW, Optimizer, RMSprop

from thresher.core.errors import ThresherError, is_number, unknown
from thresher.core.examples import Examples
from thresher.core.recipe import MixLike, View
from thresher.core.rule import in_epoch
from thresher.core.schedules import Schedule, check_schedule, cosine, ramp, step
from thresher.engine.device.placement import Autocast, Precision, autocast_on, find_device, precision_on
from thresher.engine.settings import DEFAULT_BATCH, DEFAULT_EPOCHS, DEFAULT_MOMENTUM, OWN_MIX, TrainSettings
from thresher.engine.step.optimizer import MakeOptimizer
from thresher.slots.mix import NAMED_MIXES
from thresher.slots.views import NAMED_VIEWS

OPTIMIZERS: dict[str, tuple[Callable[..., Optimizer], float]] = {  # what makes it, and its default learning rate
    "adam": (Adam, 1e-3),
    "adamw": (AdamW, 1e-3),
    "rmsprop": (RMSprop, 1e-3),
    "sgd": (SGD, 0.1),
}
WORKERS_PER_CORE = 64  # more would only wait, and every one of them holds what the data set holds
PRECISIONS: dict[str, Precision] = {"auto": None, "float32": torch.float32, "bfloat16": torch.bfloat16}


@dataclass(frozen=True)
class Plan:
    """What the settings come to for these sets and this device."""

    settings: TrainSettings
    device: torch.device
    epochs: float
    batch: int
    clean_batch: int
    precision: Precision
    captured: bool
    channels_last: bool
    make_optimizer: MakeOptimizer
    schedule: Schedule | None
    views: tuple[View, ...]  # for recipes that bring none of their own

    @property
    def autocast(self) -> Autocast:
        return autocast_on(self.device, self.precision)

    @property
    def steps(self) -> int | None:
        return self.settings.steps

    @property
    def seed(self) -> int:
        return self.settings.seed

    @property
    def workers(self) -> int:
        return self.settings.workers

    @property
    def keep_best(self) -> bool:
        """On the validation set, instead of the last."""
        return self.settings.keep == "best_on_validation"


def make_plan(settings: TrainSettings, train: Examples, clean: Examples | None) -> Plan:
    """Settle everything that was left open, or say why that cannot be."""
    _refuse_impossible(settings)
    device = find_device(None if settings.device == "auto" else settings.device)
    batch = batch_for(settings, len(train))
    epochs = epochs_for(settings, len(train))
    precision = settings.precision
    if isinstance(precision, str):
        precision = one_of("precision", precision, PRECISIONS)
    on_cuda = device.type == "cuda"
    return Plan(
        settings=settings,
        device=device,
        epochs=epochs,
        batch=batch,
        clean_batch=_clean_batch(clean, settings.clean_batch, batch),
        precision=precision_on(precision, device),
        captured=on_cuda if settings.captured is None else settings.captured,
        channels_last=on_cuda if settings.channels_last is None else settings.channels_last,
        make_optimizer=make_optimizer(settings),
        schedule=make_schedule(settings.schedule, epochs),
        views=make_views(settings.augment),
    )


def batch_for(settings: TrainSettings, examples: int) -> int:
    """How many examples a step takes of a set of so many."""
    if settings.batch is None:
        return min(DEFAULT_BATCH, examples)
    if not 1 <= settings.batch <= examples:
        raise ThresherError(f"batch={settings.batch} does not fit {examples} training examples: give 1 to {examples}.")
    return settings.batch


def epochs_for(settings: TrainSettings, examples: int) -> float:
    """How long training takes in epochs, on a set of so many examples.

    >>> epochs_for(TrainSettings(steps=5, batch=10), 100), epochs_for(TrainSettings(), 100)
    (0.5, 60.0)
    """
    if settings.steps is not None:
        return settings.steps * (settings.batch or min(DEFAULT_BATCH, examples)) / examples
    return float(DEFAULT_EPOCHS if settings.epochs is None else settings.epochs)


def _refuse_impossible(settings: TrainSettings) -> None:
    for name in ("epochs", "steps"):
        length = getattr(settings, name)
        if length is not None and length < 1:
            raise ThresherError(f"{name} must be at least 1, not {length}.")
    if settings.epochs is not None and settings.steps is not None:
        raise ThresherError("epochs and steps both say how long to train: give one of them.")
    if settings.workers < 0:
        raise ThresherError(f"workers must be at least 0, not {settings.workers}: it is how many processes read data.")
    if settings.workers > (most := WORKERS_PER_CORE * (os.cpu_count() or 1)):
        raise ThresherError(f"workers={settings.workers:,} processes are too many for this machine: give 0 to {most}.")
    if settings.keep not in ("last", "best_on_validation"):
        raise ThresherError(f'keep={settings.keep!r} is unknown: give "last" or "best_on_validation".')


def _clean_batch(clean: Examples | None, wanted: int | None, batch: int) -> int:
    """How many clean examples a step looks at."""
    if wanted is None:
        return 1 if clean is None else min(batch, len(clean))
    if clean is None:
        raise ThresherError(f"clean_batch={wanted} takes batches of a clean set: pass clean=Examples(...).")
    if not 1 <= wanted <= len(clean):
        raise ThresherError(f"clean_batch={wanted} does not fit {len(clean)} clean examples: give 1 to {len(clean)}.")
    return wanted


def learning_rates(settings: TrainSettings) -> tuple[float, float | None]:
    """Learning rate and momentum of a named optimizer, its defaults where they are not given.

    >>> learning_rates(TrainSettings(optimizer="sgd")), learning_rates(TrainSettings())
    ((0.1, 0.9), (0.001, None))
    """
    name, momentum = str(settings.optimizer), settings.momentum
    _, default = one_of("optimizer", name, OPTIMIZERS)
    if name != "sgd" and momentum is not None:
        raise ThresherError(f"{name} takes no momentum: leave momentum out, or choose the optimizer sgd.")
    rate = default if settings.learning_rate is None else settings.learning_rate
    return rate, DEFAULT_MOMENTUM if name == "sgd" and momentum is None else momentum


def make_optimizer(settings: TrainSettings) -> MakeOptimizer:
    """A function of the parameters that makes the optimizer of these settings."""
    if isinstance(settings.optimizer, Optimizer):
        name = type(settings.optimizer).__name__
        raise ThresherError(
            f"optimizer= takes a name or a function, not a {name} that is made already: pass "
            f"lambda parameters: {name}(parameters, ...)."
        )
    if callable(settings.optimizer):
        for name in ("learning_rate", "momentum"):
            if getattr(settings, name) is not None:
                raise ThresherError(f"{name} is for an optimizer by name: give it to the optimizer function.")
        return settings.optimizer
    rate, momentum = learning_rates(settings)
    options: dict[str, Any] = {"lr": rate, "weight_decay": settings.weight_decay}
    if momentum is not None:
        options["momentum"] = momentum

    def make(parameters: Iterable[nn.Parameter]) -> Optimizer:
        try:
            return OPTIMIZERS[str(settings.optimizer)][0](parameters, **options)
        except ValueError as error:
            reason = f"{settings.optimizer} cannot train with these settings ({error})"
            raise ThresherError(f"{reason}: correct that option.") from error

    return make


def make_schedule(given: str | Schedule | None, epochs: float) -> Schedule | None:
    """What the learning rate is multiplied by: `cosine`, `step:80,100`, `step:60,120:0.2` or `linear:80`.

    >>> make_schedule("step:60,120:0.2", 200)(130, 200).__round__(3), make_schedule("linear:80", 200)(140, 200)
    (0.04, 0.5)
    """
    if given is None:
        return None
    if callable(given):
        check_schedule(given, epochs)
        return given
    if not isinstance(given, str):
        raise ThresherError(f"schedule must be a name such as 'cosine', or a schedule, not {given!r}.")
    name, _, rest = given.partition(":")
    if name not in ("cosine", "linear", "step"):
        raise unknown("schedule", name, ("cosine", "linear", "step"))
    if name == "cosine" and not rest:
        return cosine(1.0)
    at, _, times = rest.partition(":")
    try:
        numbers = [float(each) for each in (*at.split(","), times) if each]
        if not all(is_number(each) and each >= 0 for each in numbers):
            raise ValueError(rest)
        if name == "step":
            return step(1.0, at=tuple(float(epoch) for epoch in at.split(",")), times=float(times or 0.1))
        if name == "linear" and not times and float(at or 0) < epochs:
            return ramp(1.0, 0.0, epochs=epochs - float(at or 0), after=float(at or 0))
    except ValueError:
        pass
    raise ThresherError(
        f"The schedule '{given}' is not understood: write cosine, step:80,100, step:60,120:0.2 (drops at these epochs, "
        "and by how much), or linear:80 (a straight line to zero from this epoch on)."
    )


def make_views(given: str | tuple[View, ...] | None) -> tuple[View, ...]:
    """The views of these names: `weak`, `strong`, or several separated by commas."""
    if not isinstance(given, str):
        return tuple(given or ())
    return tuple(one_of("augmentation", name, NAMED_VIEWS)() for name in given.split(","))


def make_mix(given: str | MixLike | None, own: MixLike | None, train: Examples) -> MixLike | None:
    """The mix of the settings, or the recipe's own, which is left out where inputs cannot be blended."""
    mix: MixLike | None = own if given == OWN_MIX else given  # type: ignore[assignment]
    if isinstance(mix, str):
        mix = one_of("mix", mix, NAMED_MIXES)
    if mix is None or train.can_be_blended:
        return mix
    if given != OWN_MIX:
        raise ThresherError(f"mix={given!r} blends inputs, which needs real numbers: leave mix out for token ids.")
    name = type(in_epoch(math.inf, mix)).__name__
    warnings.warn(f"{name} is left out: the inputs hold whole numbers, which cannot be blended.", stacklevel=2)
    return None


def one_of(kind: str, name: str, choices: Mapping[str, Any]) -> Any:
    """The choice of this name, or an error with the nearest."""
    if name not in choices:
        raise unknown(kind, name, choices)
    return choices[name]
