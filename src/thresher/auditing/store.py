"""What judges found, kept in the run's folder so that an interrupted audit does not ask them again."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thresher.core.errors import ThresherError, refuse_endless
from thresher.core.files import LOCK, damaged, read_arrays, refuse_as_folder, write_whole
from thresher.engine.store.unsaved import nothing_left_unless_saved
from thresher.record.run_folder import AUDIT, OF_AN_AUDIT

Array = NDArray[Any]
ABOUT = "about.json"


def refuse_other_folder(out: Path) -> None:
    """Refuse a folder that holds something else than an audit."""
    if not out.is_dir() or (out / AUDIT / ABOUT).exists():
        return
    foreign = sorted(each.name for each in out.iterdir() if each.name not in OF_AN_AUDIT and each.name[0] != ".")
    if foreign:
        raise ThresherError(f"{out} is not empty (it has {foreign[0]}): choose a new folder for the audit.")


AGAIN = "delete it, and the same command asks that judge again"
Shapes = Mapping[str, tuple[int, ...]]


class Store:
    """Arrays by name in a folder, or nowhere; a folder that holds those of another audit is refused."""

    def __init__(self, folder: Path | None, about: Mapping[str, Any]):
        self.folder = folder
        if folder is None:
            return
        refuse_as_folder(folder.parent)
        self.told, path = json.dumps(dict(about), sort_keys=True), folder / ABOUT
        refuse_endless(path)
        if path.exists() and path.read_text(encoding="utf-8", errors="replace") != self.told:
            raise ThresherError(f"{folder} holds another audit: choose another folder (--out), or delete this one.")

    def begin(self) -> None:
        """Say in the folder which audit it holds, which is not before all that was given is checked."""
        if self.folder is not None and not (self.folder / ABOUT).exists():
            write_whole(self.folder / ABOUT, lambda place: place.write_text(self.told, encoding="utf-8"))

    def __call__(self, name: str, make: Callable[[], Mapping[str, Array]], shapes: Shapes) -> dict[str, Array]:
        """The arrays that were stored under this name, which have these shapes, or those that `make` gives."""
        path = None if self.folder is None else self.folder / f"{name}.npz"
        if path is not None and path.exists():
            found = read_arrays(path, AGAIN, dict.fromkeys(shapes, "f"))
            for each, shape in shapes.items():
                if each not in found or found[each].shape != shape or not np.isfinite(found[each]).all():
                    raise damaged(path, f"it has no finite {each} of shape {list(shape)}", AGAIN)
            return found
        if self.folder is None or path is None:
            return dict(make())
        with nothing_left_unless_saved(self.folder, {LOCK, ABOUT}):
            self.begin()
            made = dict(make())
        write_whole(path, lambda place: _save(place, made))
        return made


def _save(path: Path, arrays: Mapping[str, Array]) -> None:
    with open(path, "wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
