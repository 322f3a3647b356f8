"""What a training or an audit writes before it has saved anything, and that an error leaves none of it."""

import os
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager, suppress
from pathlib import Path

from thresher.core.files import LOCK, InUseError, alone_in, is_there
from thresher.record.run_folder import MODEL, NOISE_RATE, SETTINGS

WRITTEN_FIRST = {LOCK, MODEL, SETTINGS, NOISE_RATE}


@contextmanager
def nothing_left_unless_saved(folder: Path, first: Set[str] = WRITTEN_FIRST) -> Iterator[None]:
    """An error inside removes what was written first, and the folders made for it, where nothing else was written.

    What interrupts a training is no error: the same command goes on in its folder.
    """
    made = [each for each in (folder, *folder.parents) if not is_there(each)]
    before = set() if made else _names(folder)
    try:
        yield
    except Exception:
        with suppress(OSError, InUseError):
            _remove_new(folder, before, first, made)
        raise


def _remove_new(folder: Path, before: set[str], first: Set[str], made: Sequence[Path]) -> None:
    if not folder.is_dir() or not _names(folder) - before <= first:
        return
    with alone_in(folder):  # or another process has begun there
        for name in _names(folder) - before:
            (folder / name).unlink()
        for each in made:
            each.rmdir()


def _names(folder: Path) -> set[str]:
    return set(os.listdir(folder)) if folder.is_dir() else set()
