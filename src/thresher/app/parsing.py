"""Words of the command line turned into what `fit` takes: optimizer, schedule, views, device, precision, model."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.optim import SGD, Adam, AdamW, Optimizer, RMSprop

from thresher.app.settings import Kind, Settings
from thresher.core.device import find_device
from thresher.core.errors import ThresherError
from thresher.core.naming import unknown
from thresher.core.schedules import Schedule, cosine, ramp, step
from thresher.core.slots import View
from thresher.engine.device.precision import Precision
from thresher.engine.step.optimizer import MakeOptimizer
from thresher.slots.views import strong, weak

OPTIMIZERS: dict[str, tuple[Callable[..., Optimizer], float]] = {  # what makes it, and its usual learning rate
    "adam": (Adam, 1e-3),
    "adamw": (AdamW, 1e-3),
    "rmsprop": (RMSprop, 1e-3),
    "sgd": (SGD, 0.1),
}
PRECISIONS: dict[str, Precision] = {"auto": None, "float32": torch.float32, "bfloat16": torch.bfloat16}
VIEWS: dict[str, Callable[[], View]] = {"weak": weak, "strong": strong}
USUAL_MOMENTUM = 0.9


def filled(settings: Kind, input_shape: tuple[int, ...]) -> Kind:
    """The settings with model, learning rate and momentum as they are for such inputs where nobody chose them."""
    rate, momentum = usual_rates(settings)
    model = usual_model(input_shape) if settings.model == "auto" else settings.model
    return replace(settings, model=model, learning_rate=rate, momentum=momentum)


def for_fit(settings: Settings, out: Path, commit_every: float) -> dict[str, Any]:
    """What every training of a run gives to `fit` alike."""
    return {
        "optimizer": make_optimizer(settings),
        "device": choose_device(settings.device),
        "precision": one_of("precision", settings.precision, PRECISIONS),
        "seed": settings.seed,
        "out": out,
        "compiled": settings.compiled,
        "deterministic": settings.deterministic,
        "workers": settings.workers,
        "commit_every": commit_every,
    }


def usual_rates(settings: Settings) -> tuple[float, float | None]:
    """Learning rate and momentum, the optimizer's usual ones where nobody chose them.

    >>> usual_rates(Settings("spl", "digits", optimizer="sgd")), usual_rates(Settings("spl", "digits"))
    ((0.1, 0.9), (0.001, None))
    """
    name, momentum = settings.optimizer, settings.momentum
    _, usual = one_of("optimizer", name, OPTIMIZERS)
    if name != "sgd" and momentum is not None:
        raise ThresherError(f"{name} takes no momentum: leave out --momentum, or choose --optimizer sgd.")
    rate = usual if settings.learning_rate is None else settings.learning_rate
    return rate, USUAL_MOMENTUM if name == "sgd" and momentum is None else momentum


def make_optimizer(settings: Settings) -> MakeOptimizer:
    """A function of the parameters that makes the optimizer of these settings."""
    rate, momentum = usual_rates(settings)
    options: dict[str, Any] = {"lr": rate, "weight_decay": settings.weight_decay}
    if momentum is not None:
        options["momentum"] = momentum

    def make(parameters: Iterable[nn.Parameter]) -> Optimizer:
        try:
            return OPTIMIZERS[settings.optimizer][0](parameters, **options)
        except ValueError as error:
            reason = f"{settings.optimizer} cannot train with these settings ({error})"
            raise ThresherError(f"{reason}: correct that option.") from error

    return make


def make_schedule(text: str | None, epochs: float) -> Schedule | None:
    """What the learning rate is multiplied by: `cosine`, `step:80,100`, `step:60,120:0.2` or `linear:80`.

    >>> make_schedule("step:60,120:0.2", 200)(130, 200).__round__(3), make_schedule("linear:80", 200)(140, 200)
    (0.04, 0.5)
    """
    if text is None:
        return None
    name, _, option = text.partition(":")
    if name not in ("cosine", "linear", "step"):
        raise unknown("schedule", name, ("cosine", "linear", "step"))
    if name == "cosine" and not option:
        return cosine(1.0)
    at, _, times = option.partition(":")
    try:
        if name == "step":
            return step(1.0, at=tuple(float(epoch) for epoch in at.split(",")), times=float(times or 0.1))
        if name == "linear" and not times and float(at or 0) < epochs:
            return ramp(1.0, 0.0, epochs=epochs - float(at or 0), after=float(at or 0))
    except ValueError:
        pass
    raise ThresherError(
        f"The schedule '{text}' is not understood: write cosine, step:80,100, step:60,120:0.2 (drops at these epochs, "
        "and by how much), or linear:80 (a straight line to zero from this epoch on)."
    )


def make_views(text: str | None) -> tuple[View, ...]:
    """The views of these names: `weak`, `strong`, or several separated by commas."""
    return tuple(one_of("augmentation", name, VIEWS)() for name in (text or "").split(",") if name)


def choose_device(name: str | None) -> torch.device | None:
    """The device of this name, or None for the best at hand."""
    return None if name is None or name == "auto" else find_device(name)


def one_of(kind: str, name: str, choices: dict[str, Any]) -> Any:
    """The choice of this name, or an error with the nearest."""
    if name not in choices:
        raise unknown(kind, name, choices)
    return choices[name]


def usual_model(input_shape: tuple[int, ...]) -> str:
    """The model that is trained where nobody chose one.

    >>> [usual_model(shape) for shape in [(14,), (1, 8, 8), (1, 28, 28), (3, 32, 32), (3, 224, 224)]]
    ['mlp', 'mlp', 'lenet', 'resnet32', 'resnet18']
    """
    side = max(input_shape[-2:]) if len(input_shape) == 3 else 0
    return next((name for most, name in ((16, "mlp"), (28, "lenet"), (32, "resnet32")) if side <= most), "resnet18")
