"""Folders of runs: their names, and how far a run in one has come."""

import re
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

from thresher.app.settings import Settings, first_difference, read_toml
from thresher.record.run_folder import EXAMPLES, FINE_TUNED, HISTORY, SETTINGS


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
