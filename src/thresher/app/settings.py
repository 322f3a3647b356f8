"""The settings of a run: those of training, and what it trains on; a TOML file holds them and a person can edit it."""

import dataclasses
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_type_hints

from thresher.core.errors import ThresherError
from thresher.core.files import write_whole
from thresher.data import TableOptions
from thresher.engine.settings import DEFAULT_EPOCHS, TRAINING, TrainSettings, option
from thresher.record.run_folder import SETTINGS

DATA, TABLES = "What to train on", "How a table is read"
TABLE_WORDS = ("task", "na", "categorical", "drop", "sep", "groups")


@dataclass(frozen=True)
class Settings(TrainSettings):
    """What `thresher train` is told; None is left out of the file and means the default that the help names."""

    test: str | None = option(
        None,
        DATA,
        "A file or folder to test on, in the form of --data, of which all is then trained on. If not given, the test "
        "folder or arrays of --data, or else a fifth of it, whose labels are as noisy as the others.",
    )
    task: str | None = option(None, TABLES, "classes or regression: what the target is (by its values).")
    categorical: str | None = option(
        None, TABLES, "Columns whose numbers are names of categories, with commas between them."
    )
    drop: str | None = option(None, TABLES, "Columns that are no inputs, with commas between them.")
    na: str | None = option(
        None, TABLES, "Texts that mean a missing value, with commas between them; among numbers ? and NA do anyway."
    )
    sep: str | None = option(None, TABLES, "What is between the cells of a text file: ; or tab (by its first line).")
    groups: str | None = option(
        None, TABLES, "The column of the groups, such as persons: the rows of a group stay in one part of a split."
    )
    data: str = option("", DATA, "digits, cifar10, blobs:2000,5, table.csv:COLUMN, images.npz or a folder of images.")
    method: str = option("auto", TRAINING, "One of those that thresher methods lists, or auto: the one that suits.")
    corruption: str | None = option(
        None, DATA, "Make training targets wrong on purpose: symmetric:0.4, pairflip:0.45, ...", flag="--corrupt"
    )
    data_dir: str | None = option(
        None, DATA, "Where data lies or is downloaded to; else the variable THRESHER_DATA.", same_run=False
    )
    features: str | None = option(
        None,
        DATA,
        "Embeddings of the training inputs, rows of an .npy or .parquet file: rules look for neighbours there.",
    )
    noise_rate: float | str | None = option(
        None,
        TRAINING,
        "The share of wrong targets that the method assumes: a number such as 0.4; auto, found by the run itself from "
        "its first epochs; or folds, from trainings that hold examples out. [default: auto]",
        word=str,
    )
    model: str = option(
        "auto",
        TRAINING,
        "mlp:256x256, cnn9, resnet32-gn, timm:NAME, timm:NAME@weights.safetensors,frozen, package.module:factory, ... "
        "If not given: mlp for tables and images up to 16 pixels, head for embeddings, lenet up to 28 pixels; above, "
        "small-cnn on a CPU, and on a GPU resnet32 up to 32 pixels and resnet18 for larger images.",
    )
    clean: str | None = option(
        None,
        DATA,
        "Trusted examples: the folder or file they lie in; or, where the truth is known, how many to set aside from "
        "the training set.",
    )
    validation: float | None = option(
        None, DATA, "The share of the training set, as corrupt as the rest, that --early-stop watches (0.1)."
    )
    early_stop: bool = option(False, TRAINING, "Keep the epoch that did best on a noisy validation set, not the last.")
    fine_tune: bool = option(False, TRAINING, "Afterwards, train on the --clean examples alone.")
    fine_tune_steps: int = option(5000, TRAINING, "For how many steps (5000).")
    skip_broken: bool = option(False, DATA, "Leave out image files that cannot be read, instead of stopping.")
    pool: bool = option(
        False,
        DATA,
        "Some examples have no label yet (empty cells of a table, images in a folder named unlabelled): train on the "
        "others, and ask about these with thresher query.",
    )


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
        if not chosen.get(name, getattr(kind, name)):
            raise ThresherError(f"There is no {name} to train with: give one, such as {example}.")
    if "epochs" in given and "steps" in given:
        raise ThresherError("Epochs and steps both say how long to train: give --epochs or --steps, not both.")
    if "steps" in given:
        chosen.pop("epochs", None)
    if "epochs" in given:
        chosen.pop("steps", None)
    if "epochs" not in chosen and "steps" not in chosen:
        chosen["epochs"] = DEFAULT_EPOCHS
    if isinstance(chosen.get("noise_rate"), str):
        chosen["noise_rate"] = _noise_rate(chosen["noise_rate"])
    steps = chosen.get("fine_tune_steps")
    if isinstance(steps, int) and steps < 1:
        raise ThresherError(f"Fine-tuning takes at least 1 step, not {steps}.")
    takes_none = {field.name for field in dataclasses.fields(kind) if field.metadata.get("takes_none")}
    return kind(**{name: value for name, value in chosen.items() if value != "none" or name in takes_none})


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


def table_options(settings: Settings) -> TableOptions | None:
    """How a table is read, where the settings say anything about it."""
    told = {name: getattr(settings, name) for name in TABLE_WORDS}
    return None if all(word is None for word in told.values()) else TableOptions.from_words(**told)


def to_toml(settings: Settings) -> str:
    """The settings as TOML, without those that are None or that a command line cannot set.

    >>> print(to_toml(Settings(method="spl", data="digits", noise_rate=0.4)), end="")
    data = "digits"
    method = "spl"
    noise_rate = 0.4
    model = "auto"
    early_stop = false
    fine_tune = false
    fine_tune_steps = 5000
    skip_broken = false
    pool = false
    optimizer = "adam"
    weight_decay = 0.0
    mix = "own"
    seed = 0
    precision = "auto"
    deterministic = false
    sharded = false
    signals_at_once = 8.0
    workers = 0
    """
    values = ((field.name, getattr(settings, field.name)) for field in options_of(type(settings)))
    return "".join(f"{name} = {_toml_value(value)}\n" for name, value in values if value is not None)


def options_of(kind: type[TrainSettings]) -> list[dataclasses.Field[Any]]:
    """The settings that a command line and a file can hold: first what is trained and on what, then how."""
    how = {field.name for field in dataclasses.fields(TrainSettings)}
    shown = [field for field in dataclasses.fields(kind) if field.metadata["panel"] is not None]
    return sorted(shown, key=lambda field: field.name in how)


def words_of(kind: type[TrainSettings]) -> dict[str, tuple[type, ...]]:
    """Of which types the values of each setting are, on the command line and in a file."""
    hints = get_type_hints(kind)
    return {
        field.name: (field.metadata["word"],) if "word" in field.metadata else _types(hints[field.name])
        for field in options_of(kind)
    }


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
            save(settings, folder / SETTINGS)
            begun = True
        if watch is not None:
            watch(*told)

    return noted


def _toml_value(value: str | float | bool) -> str:
    # A JSON string without escapes for other alphabets, a true or false, and a number are all TOML as they stand.
    return json.dumps(value, ensure_ascii=False)


def _types(hint: Any) -> tuple[type, ...]:
    return tuple(each for each in (get_args(hint) if isinstance(hint, UnionType) else (hint,)) if each is not NoneType)
