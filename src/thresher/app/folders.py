"""Folders of runs: their names, the settings that one stores, and how far the run in it has come."""

import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

from thresher.app.settings import Settings, options_of, words_of
from thresher.core.errors import ThresherError, refuse_endless, unknown
from thresher.core.unfinished import unfinished_beside
from thresher.models import is_foreign
from thresher.record.run_folder import CHECKPOINT, EXAMPLES, FINE_TUNED, HISTORY, MODEL, SETTINGS, STAGES


def is_finished(folder: Path, settings: Settings) -> bool:
    """Whether the run of this folder has come to its end, after which what it found is written, and to no later one."""
    last, stored = folder / FINE_TUNED if settings.fine_tune else folder, folder / SETTINGS
    if not (last / EXAMPLES).exists():
        return False
    return not stored.exists() or read_toml(stored, type(settings)).get("epochs") == settings.epochs


def free_folder(settings: Settings, base: Path, finished: Callable[[Path, Settings], bool] = is_finished) -> Path:
    """The first of base, base-2, ... that is new or holds a run of these settings that was not finished."""

    def is_free(folder: Path) -> bool:
        if not folder.exists():
            return True
        stored = folder / SETTINGS
        if finished(folder, settings) or not stored.exists():
            return False
        return first_difference(settings, read_toml(stored, type(settings))) is None

    return next(filter(is_free, numbered(base)))


def numbered(base: Path) -> Iterator[Path]:
    """base, base-2, base-3, ..."""
    return (base if number == 1 else base.with_name(f"{base.name}-{number}") for number in count(1))


def usual_name(settings: Settings) -> str:
    """A folder name for these settings.

    >>> usual_name(Settings(method="prl-l", data="tables/adult.csv:target", seed=3))
    'adult.csv-target-prl-l-seed3'
    """
    data = re.sub(r"[^A-Za-z0-9.]+", "-", settings.data.rsplit("/", 1)[-1]).strip("-")
    return f"{data}-{settings.method}-seed{settings.seed}"


def saved_epochs(folder: Path) -> int:
    """How many epochs of the run in this folder are on disk."""
    history = folder / HISTORY
    return len(history.read_text().splitlines()) if history.exists() else 0


def read_toml(path: Path, kind: type[Settings] = Settings) -> dict[str, Any]:
    """The settings of this kind that a file holds, each of the right type."""
    refuse_endless(path)
    try:
        stored = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ThresherError(f"There is no file {path}: give the run.toml of a run.") from None
    except (ValueError, RecursionError) as error:
        raise ThresherError(f"{path} is no TOML ({error}): correct it.") from error
    kinds = words_of(kind)
    for name, value in stored.items():
        if name not in kinds:
            raise unknown(f"setting in {path}", name, kinds)
        types = (*kinds[name], float) if name == "noise_rate" else kinds[name]
        if not _is_of(types, value):
            raise ThresherError(f"{name} = {value!r} in {path} is not of the right kind: give {_in_words(types)}.")
    return stored


def refuse_stored_code(stored: Mapping[str, Any], model: str | None, where: Path) -> None:
    """Refuse a file that names code to import as its model, unless the command names the same."""
    named = stored.get("model")
    if isinstance(named, str) and named not in ("auto", model) and is_foreign(named):
        raise ThresherError(f"{where} names code to import as its model: give --model {named} as well if you trust it.")


def refuse_another_run(folder: Path, settings: Settings) -> None:
    """Refuse to go on in a folder whose run was told something else; whether epochs may differ, the engine knows."""
    if (folder / CHECKPOINT).exists() and not (folder / MODEL).exists():
        raise ThresherError(
            f"{folder} was written by an earlier version of Thresher: choose another --out folder, or delete this one."
        )
    told = begun_with(folder, type(settings))
    if told is None:
        return
    name = first_difference(replace(settings, epochs=told.get("epochs")), told)
    if name is not None:
        theirs, ours = told.get(name, "not set"), getattr(settings, name)
        ours = "not set" if ours is None else ours
        raise ThresherError(
            f"{folder} holds another run (its {name} is {theirs}, not {ours}): "
            "choose another --out folder, or delete this one."
        )


def begun_with(folder: Path, kind: type[Settings] = Settings) -> dict[str, Any] | None:
    """The settings of the run that has begun in this folder; None where none has."""
    begun = any((folder / name).exists() for name in (CHECKPOINT, STAGES))
    return read_toml(folder / SETTINGS, kind) if begun and (folder / SETTINGS).exists() else None


def first_difference(settings: Settings, stored: Mapping[str, Any]) -> str | None:
    """The first setting that makes these two different runs, or None.

    >>> ours = Settings(method="spl", data="digits", workers=2)
    >>> first_difference(ours, {"method": "spl", "data": "digits", "seed": 3})
    'seed'
    """
    theirs = type(settings)(**stored)
    for field in options_of(type(settings)):
        if field.metadata["identifies"] and getattr(settings, field.name) != getattr(theirs, field.name):
            return field.name
    return None


def _in_words(types: tuple[type, ...]) -> str:
    words = {str: "a text in quotes", bool: "true or false", float: "a number", int: "a whole number"}
    return next(word for kind, word in words.items() if kind in types)


def _is_of(types: tuple[type, ...], value: Any) -> bool:
    if isinstance(value, bool):
        return bool in types
    return isinstance(value, (*types, int) if float in types else types)


def refuse_in_use(out: Path, what: str) -> None:
    """Refuse a folder that exists and is not empty, or is a file; `what` is to be put there."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        found = "is not empty" if out.is_dir() else "is a file"
        raise ThresherError(f"{out} {found}: choose a new folder for {what}.")


@contextmanager
def written_whole(out: Path) -> Iterator[Path]:
    """A folder beside `out` to fill, which takes its place at the end of the block and is removed after an error."""
    with unfinished_beside(out.absolute(), is_folder=True) as beside:
        folder = beside / "whole"
        folder.mkdir()
        yield folder
        os.replace(folder, out)
