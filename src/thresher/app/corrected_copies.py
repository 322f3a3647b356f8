"""Corrected copies of data: written beside the data, whole or not at all, and put back as the data were."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from thresher.app.corrected_arrays import LABELS_FILE, undo_arrays, write_arrays
from thresher.app.corrected_images import undo_images, write_images
from thresher.app.corrected_tables import undo_table, write_table
from thresher.app.corrections import Change, read_changes, write_changes
from thresher.app.folders import refuse_in_use, written_whole
from thresher.app.sources import ARRAYS, IMAGES, LABELS, TABLE, Source
from thresher.core.errors import ThresherError
from thresher.record.issues import Issues

UNDO = {IMAGES: undo_images, TABLE: undo_table, ARRAYS: undo_arrays, LABELS: undo_arrays}


def write_copy(out: Path, source: Source, issues: Issues, changes: Sequence[Change], *, copy: bool = False) -> Path:
    """Write the corrected data and the list of changes into a new folder; where the data to train on are, is returned.

    copy  whether images are copied; else they are links
    """
    _refuse(out, source)
    with written_whole(out) as folder:
        about: dict[str, Any] = {"kind": source.kind, "of": str(source.path), "file": source.path.name, "column": ""}
        if source.kind == IMAGES:
            changes = write_images(folder, source, issues, changes, copy=copy)
        elif source.kind == TABLE:
            about |= {"column": ",".join(write_table(folder, source, issues, changes)), "sep": source.sep}
        else:
            about["column"] = write_arrays(folder, source, issues, changes)
            about["file"] = source.path.name if source.kind == ARRAYS else LABELS_FILE
        write_changes(folder, changes, about)
    return out if source.kind == IMAGES else out / about["file"]


def undo_copy(folder: Path) -> int:
    """Make a corrected copy what the data were before, and return how many changes were taken back."""
    _, about = read_changes(folder)
    if about["kind"] not in UNDO:
        raise ThresherError(f"{folder} was corrected by another version of Thresher: undo it with that one.")
    return UNDO[about["kind"]](folder)


def _refuse(out: Path, source: Source) -> None:
    """Refuse a place that is in use, or that lies in the data."""
    refuse_in_use(out, "the corrected copy")
    if source.kind == IMAGES and out.resolve().is_relative_to(source.path.resolve()):
        raise ThresherError(f"{out} lies in the data ({source.path}), which stay as they are: choose another folder.")
