"""The settings of a run: one flat set of plain values that a TOML file can hold and a person can edit."""

import dataclasses
import json
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, get_args, get_type_hints

from thresher.core.errors import ThresherError
from thresher.core.files import write_whole
from thresher.core.naming import unknown

# Where and by what a run is computed, which may change from one start to the next.
PLACES = ("data_dir", "device", "workers", "compiled")


@dataclass(frozen=True)
class Settings:
    """What `thresher train` is told; None is left out of the file and means the default that is named here.

    noise_rate     a number, auto (found by the run itself, the default) or folds (by trainings of its own)
    model          auto: mlp for tables and images up to 16 pixels, lenet up to 28, resnet32 up to 32, else resnet18
    epochs, steps  how long: one of the two (60 epochs)
    learning_rate  0.001, or 0.1 for sgd
    momentum       0.9 for sgd; other optimizers take none
    schedule       what the learning rate is multiplied by: cosine, step:80,100 or linear:80 (constant)
    clean          how many examples to take out of the training set with their true targets, or where clean ones lie
    clean_batch    how many of them a step looks at (the batch size, or all of them)
    validation     the share of the training set, as corrupt as the rest, that is kept apart (0.1 for early_stop)
    early_stop     keep the parameters of the epoch that did best on the validation set, instead of the last
    fine_tune      train some more steps (5000) on the clean examples alone, afterwards
    pool           leave out the examples that nobody has labelled yet, for thresher query to ask about
    """

    method: str
    data: str
    corruption: str | None = None
    noise_rate: float | str | None = None
    data_dir: str | None = None
    model: str = "auto"
    augment: str | None = None
    epochs: int | None = None
    steps: int | None = None
    batch: int = 128
    optimizer: str = "adam"
    learning_rate: float | None = None
    momentum: float | None = None
    weight_decay: float = 0.0
    schedule: str | None = None
    clean: str | None = None
    clean_batch: int | None = None
    validation: float | None = None
    early_stop: bool = False
    fine_tune: bool = False
    fine_tune_steps: int = 5000
    pool: bool = False
    seed: int = 0
    precision: str = "auto"
    compiled: bool = False
    deterministic: bool = False
    device: str | None = None
    workers: int = 0


Kind = TypeVar("Kind", bound=Settings)


def make_settings(
    given: Mapping[str, Any],
    stored: Mapping[str, Any] | None = None,
    kind: type[Kind] = Settings,  # type: ignore[assignment]
) -> Kind:
    """The settings given, over those stored in a file; the word `none` takes a stored one away.

    >>> make_settings({"steps": 10}, {"method": "spl", "data": "digits", "epochs": 60}).epochs is None
    True
    """
    chosen = {**(stored or {}), **given}
    for name, example in (("data", "--data digits"), ("method", "--method prl-l")):
        if name not in chosen:
            raise ThresherError(f"There is no {name} to train with: give one, such as {example}.")
    if "epochs" in given and "steps" in given:
        raise ThresherError("Epochs and steps both say how long to train: give --epochs or --steps, not both.")
    if "steps" in given:
        chosen.pop("epochs", None)
    if "epochs" in given:
        chosen.pop("steps", None)
    if "epochs" not in chosen and "steps" not in chosen:
        chosen["epochs"] = 60
    if isinstance(chosen.get("noise_rate"), str):
        chosen["noise_rate"] = _noise_rate(chosen["noise_rate"])
    return kind(**{name: value for name, value in chosen.items() if value != "none"})


def _noise_rate(text: str) -> float | str:
    """A number where the text is one; else one of the words that stand for a rate.

    >>> _noise_rate("0.4"), _noise_rate("auto")
    (0.4, 'auto')
    """
    if text in ("auto", "folds", "none"):
        return text
    try:
        return float(text)
    except ValueError:
        raise ThresherError(f"The noise rate {text!r} is not understood: give a number, auto or folds.") from None


def to_toml(settings: Settings) -> str:
    """The settings as TOML, without those that are None.

    >>> print(to_toml(Settings("spl", "digits", noise_rate=0.4)).splitlines()[2])
    noise_rate = 0.4
    """
    values = ((field.name, getattr(settings, field.name)) for field in dataclasses.fields(settings))
    return "".join(f"{name} = {_toml_value(value)}\n" for name, value in values if value is not None)


def read_toml(path: Path, kind: type[Settings] = Settings) -> dict[str, Any]:
    """The settings of this kind that a file holds, each of the right type."""
    try:
        stored = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ThresherError(f"There is no file {path}: give the run.toml of a run.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ThresherError(f"{path} is no TOML ({error}): correct it.") from error
    kinds = get_type_hints(kind)
    for name, value in stored.items():
        if name not in kinds:
            raise unknown(f"setting in {path}", name, kinds)
        if not _is_of(kinds[name], value):
            raise ThresherError(f"{name} = {value!r} in {path} is not of the right kind: give {_kind(kinds[name])}.")
    return stored


def save(settings: Settings, path: Path) -> None:
    """Write the settings as a TOML file, whole or not at all."""
    write_whole(path, lambda temporary: temporary.write_text(to_toml(settings), encoding="utf-8"))


def saving(
    settings: Settings, folder: Path, watch: Callable[..., None] | None, beside: Mapping[str, str] | None = None
) -> Callable[..., None]:
    """What watches a training and writes its settings to `run.toml` once it has begun, with these texts beside it."""
    begun = False

    def noted(*told: Any) -> None:
        nonlocal begun
        if not begun:
            for name, text in (beside or {}).items():
                write_whole(folder / name, lambda path, text=text: path.write_text(text, encoding="utf-8"))  # type: ignore[misc]
            save(settings, folder / "run.toml")
            begun = True
        if watch is not None:
            watch(*told)

    return noted


def refuse_another_run(folder: Path, settings: Settings) -> None:
    """Refuse to go on in a folder whose run was told something else."""
    stored, begun = folder / "run.toml", any((folder / name).exists() for name in ("checkpoint.pt", "stages"))
    if not begun or not stored.exists():
        return
    told = read_toml(stored, type(settings))
    name = first_difference(settings, told)
    if name is not None:
        theirs, ours = told.get(name, "not set"), getattr(settings, name)
        raise ThresherError(
            f"{folder} holds another run (its {name} is {theirs}, not {ours}): "
            "choose another --out folder, or delete this one."
        )


def first_difference(settings: Settings, stored: Mapping[str, Any]) -> str | None:
    """The first setting that makes these two different runs, or None.

    >>> first_difference(Settings("spl", "digits", workers=2), {"method": "spl", "data": "digits", "seed": 3})
    'seed'
    """
    theirs = dataclasses.asdict(type(settings)(**{"method": "", "data": "", **stored}))
    ours = dataclasses.asdict(settings)
    return next((name for name in ours if name not in PLACES and ours[name] != theirs[name]), None)


def _toml_value(value: str | float | bool) -> str:
    # A JSON string without escapes for other alphabets, a true or false, and a number are all TOML as they stand.
    return json.dumps(value, ensure_ascii=False)


def _kind(hint: Any) -> str:
    kinds = _kinds(hint)
    words = {str: "a text in quotes", bool: "true or false", float: "a number", int: "a whole number"}
    return next(word for kind, word in words.items() if kind in kinds)


def _is_of(hint: Any, value: Any) -> bool:
    kinds = _kinds(hint)
    if isinstance(value, bool):
        return bool in kinds
    return isinstance(value, (*kinds, int) if float in kinds else kinds)


def _kinds(hint: Any) -> tuple[type, ...]:
    return get_args(hint) if isinstance(hint, UnionType) else (hint,)
