"""The settings of a training, in one place: what is neither data nor method.

The keywords of `fit`, the options of the command line, `run.toml`, what makes two runs the same and the setups of the
bench are all derived from the fields of `TrainSettings`: a new setting is a new field here.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from numbers import Integral, Real
from typing import Any, Literal, TypeVar

import torch
from torch.optim import Optimizer

from thresher.core.errors import ThresherError, is_number, is_whole, unknown
from thresher.core.objective import ObjectiveLike
from thresher.core.recipe import Averaging, MixLike, View
from thresher.core.schedules import Schedule
from thresher.engine.step.optimizer import MakeOptimizer

DEFAULT_BATCH, DEFAULT_EPOCHS, DEFAULT_MOMENTUM = 128, 60, 0.9
MOST_EPOCHS = 10**9  # beyond which a training would never end
ELSEWHERE = {"lr": "learning_rate", "batch_size": "batch", "num_epochs": "epochs", "train": "data"}  # what others say
INSTEAD = {
    "verbose": "pass watch=, a function of each step's Moment, whose record is there after every epoch",
    "mixup": 'pass mix="mixup"',
    "collate": "give it to Examples(inputs, targets, collate=...)",
    "collate_fn": "give it to Examples(inputs, targets, collate=...), or pass the DataLoader that has it",
}
TRAINING, RUN = "How to train", "The run"
OWN_MIX = "own"  # the mix of the method

Keep = Literal["last", "best_on_validation"]


def option(default: Any, panel: str | None, text: str, *, same_run: bool = True, **more: Any) -> Any:
    """A setting: its default, where and how the command line shows it, and whether another value is another run.

    panel     the panel of the command line's help; None: not an option there
    same_run  False where a run may go on under another value, because it changes how it is computed and not what
    more      `flag` (another name of the option), `word` (the type that the command line takes), `takes_none` (the
              word none is a value of it)
    """
    return field(default=default, metadata={"panel": panel, "help": text, "identifies": same_run, **more})


@dataclass(frozen=True)
class TrainSettings:
    """How long and how to train."""

    epochs: int | None = option(None, TRAINING, "How often to go through the data (60).")
    steps: int | None = option(None, TRAINING, "How many steps to train, instead of --epochs.")
    batch: int | None = option(None, TRAINING, "Examples a step (128, or all of a smaller set).")
    optimizer: str | MakeOptimizer = option("adam", TRAINING, "adam, adamw, rmsprop or sgd (adam).", word=str)
    learning_rate: float | None = option(None, TRAINING, "The optimizer's learning rate (0.001, and 0.1 for sgd).")
    momentum: float | None = option(None, TRAINING, "The momentum of sgd (0.9).")
    weight_decay: float = option(0.0, TRAINING, "The optimizer's weight decay (0).")
    schedule: str | Schedule | None = option(
        None,
        TRAINING,
        "How the learning rate falls: cosine; step:80,100 (to a tenth at these epochs; step:60,120:0.2 to a fifth); "
        "linear:80 (to zero from this epoch on). If not given it stays.",
        word=str,
    )
    augment: str | tuple[View, ...] | None = option(
        None,
        "What to train on",
        "weak (crop, flip), strong (also colour, rotation, cutout), or both, as weak,strong.",
        word=str,
    )
    mix: str | MixLike | None = option(
        OWN_MIX,
        TRAINING,
        "What blends of examples to train on: own (those of the method), mixup, or none.",
        word=str,
        takes_none=True,
    )
    start: str | None = option(
        None,
        TRAINING,
        "Learn the inputs before the labels: represent:200 (epochs, without any label), or the file of such a start.",
    )
    objective: ObjectiveLike | None = option(None, None, "The loss, for methods that have none of their own.")
    average: float | Averaging | None = option(None, None, "A moving average for methods that have none of their own.")
    clean_batch: int | None = option(
        None, "What to train on", "Clean examples a step looks at (as many as --batch, or all)."
    )
    keep: Keep = option("last", None, "Which epoch's parameters are kept: the last, or the best on the validation set.")
    seed: int = option(0, RUN, "Same seed, same result (0).")
    precision: str | torch.dtype | None = option(
        "auto", RUN, "float32, or bfloat16 for mixed precision (auto: that on CUDA).", word=str
    )
    compiled: bool | None = option(
        None,
        RUN,
        "Let torch.compile make the training pass faster, after half a minute (on CUDA, in runs that earn it).",
        same_run=False,
    )
    captured: bool | None = option(None, None, "Whether a step is captured as a CUDA graph (on CUDA).", same_run=False)
    channels_last: bool | None = option(None, None, "Whether images are channels last (on CUDA).", same_run=False)
    deterministic: bool = option(False, RUN, "The same result bit for bit on a GPU too, though slower.", same_run=False)
    device: str | torch.device | None = option(
        None, RUN, "cpu, cuda or cuda:1; if not given, a GPU where there is one.", same_run=False, word=str
    )
    sharded: bool = option(
        False, RUN, "Of several processes each holds a part of the parameters (FSDP2).", same_run=False
    )
    signals_at_once: float = option(
        8.0,
        RUN,
        "GiB of outputs and signals that a rule of an epoch sees at once; beyond that it chooses in parts, and then "
        "among what those propose (8).",
        same_run=False,
    )
    workers: int = option(0, RUN, "Processes that read data which is not held in memory (0).", same_run=False)
    commit_every: float = option(
        30.0, None, "Seconds after which an epoch's end is saved at the latest.", same_run=False
    )

    def __post_init__(self) -> None:
        for each in fields(TrainSettings):
            kind, words = next((known for known in NUMBERS if each.type in (known[0], known[0] | None)), (None, ""))
            value = getattr(self, each.name)
            if kind is not None and (value is not None or each.type is kind) and not _is_of(kind, value):
                raise ThresherError(f"{each.name} must be {words}, not {value!r}.")
        for name, (fits, wanted) in LIMITS.items():
            value = getattr(self, name)
            if value is not None and not fits(value):
                raise ThresherError(f"{name} must be {wanted}, not {value!r}.")


ENDING = (lambda length: not is_whole(length, MOST_EPOCHS + 1), f"at most {MOST_EPOCHS:,}, so that it ends")
LIMITS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "epochs": ENDING,
    "steps": ENDING,
    "learning_rate": (lambda rate: is_number(rate) and rate >= 0, "a finite number of at least 0"),
    "momentum": (lambda share: is_number(share) and 0 <= share < 1, "a number from 0 up to, but below, 1"),
    "weight_decay": (lambda decay: is_number(decay) and decay >= 0, "a finite number of at least 0"),
    "commit_every": (lambda seconds: is_number(seconds) and seconds >= 0, "a finite number of seconds"),
    "signals_at_once": (lambda size: size > 0, "a number of GiB above 0"),
    "optimizer": (lambda made: isinstance(made, str) or callable(made) or isinstance(made, Optimizer), "a name"),
    "precision": (
        lambda kind: isinstance(kind, str) or kind in (torch.float32, torch.bfloat16),
        "float32 or bfloat16, as a name or torch's",
    ),
    "device": (lambda place: isinstance(place, str | torch.device) and place != "", "cpu, cuda or another name"),
    "start": (lambda start: isinstance(start, str), "a text, such as represent:200"),
    "keep": (lambda keep: isinstance(keep, str), '"last" or "best_on_validation"'),
    "average": (lambda rate: not isinstance(rate, str | bool | list), "a number, or Growing(0.999)"),
    "augment": (
        lambda views: isinstance(views, str) or (isinstance(views, tuple | list) and all(map(callable, views))),
        "a name such as weak, or a tuple of views",
    ),
}
NUMBERS: tuple[tuple[Any, str], ...] = ((bool, "True or False"), (int, "a whole number"), (float, "a number"))


def _is_of(kind: type, value: Any) -> bool:
    """Whether a value is of this kind; NumPy's numbers are as well."""
    if isinstance(value, bool) or kind is bool:
        return kind is bool and isinstance(value, bool)
    return isinstance(value, Integral if kind is int else Real)


Kind = TypeVar("Kind", bound=TrainSettings)
Function = TypeVar("Function", bound=Callable[..., Any])


def lists_settings(function: Function) -> Function:
    """A function that takes single settings as **changes, with all of them in its signature and in its help.

    >>> @lists_settings
    ... def train(data, **changes):
    ...     "Train."
    >>> list(inspect.signature(train).parameters)[:4], "seed  Same seed, same result (0)." in train.__doc__
    (['data', 'epochs', 'steps', 'batch'], True)
    """
    own = inspect.signature(function)
    shown = fields(TrainSettings)
    parameter = inspect.Parameter
    named = [parameter(each.name, parameter.KEYWORD_ONLY, default=each.default, annotation=each.type) for each in shown]
    plain = [each for each in own.parameters.values() if each.kind is not parameter.VAR_KEYWORD]
    function.__signature__ = own.replace(parameters=[*plain, *named])  # type: ignore[attr-defined]
    lines = [f"    {each.name}  {each.metadata['help']}" for each in shown]
    function.__doc__ = "\n".join([function.__doc__ or "", "    Settings, by name:", "", *lines, "    "])
    return function


def changed(settings: Kind, changes: Mapping[str, Any]) -> Kind:
    """The settings with these changes; a name that is no setting is refused with the nearest one.

    >>> changed(TrainSettings(epochs=3), {"steps": 5})
    Traceback (most recent call last):
    thresher.core.errors.ThresherError: epochs and steps both say how long to train: give one of them.
    """
    known = [each.name for each in fields(settings)]
    for name in changes:
        if name in ELSEWHERE:
            raise ThresherError(f"There is no setting '{name}': did you mean '{ELSEWHERE[name]}'?")
        if name in INSTEAD and name not in known:
            raise ThresherError(f"There is no setting '{name}': {INSTEAD[name]}.")
        if name not in known:
            raise unknown("setting", name, known)
    made = replace(settings, **changes)
    if made.epochs is not None and made.steps is not None:
        raise ThresherError("epochs and steps both say how long to train: give one of them.")
    return made


def training_part(settings: TrainSettings, **changes: Any) -> TrainSettings:
    """Of settings that say more, what is about training; with these changes."""
    told = {each.name: getattr(settings, each.name) for each in fields(TrainSettings)}
    return TrainSettings(**(told | changes))
