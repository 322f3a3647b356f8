"""Folders that are written whole or not at all."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from thresher.core.errors import ThresherError


def refuse_in_use(out: Path, what: str) -> None:
    """Refuse a folder that exists and is not empty, or is a file; `what` is to be put there."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        found = "is not empty" if out.is_dir() else "is a file"
        raise ThresherError(f"{out} {found}: choose a new folder for {what}.")


@contextmanager
def written_whole(out: Path) -> Iterator[Path]:
    """A folder beside `out` to fill, which takes its place at the end of the block and is removed after an error."""
    above = out.absolute().parent
    above.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=above) as beside:
        folder = Path(beside) / "whole"
        folder.mkdir()
        yield folder
        os.replace(folder, out)
