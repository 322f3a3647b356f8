"""A corrected copy of a folder of images: links or copies, each in the folder of its corrected class."""

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path, PurePath

from thresher.app.corrections import CORRECTED_LABELS, Change, forget_changes, read_changes, write_labels
from thresher.app.sources import PARTS, Source
from thresher.core.errors import ThresherError, unknown
from thresher.record.issues import Issues

DROPPED = ".dropped"  # a folder of the copy, hidden so that it is no class


def write_images(
    folder: Path, source: Source, issues: Issues, changes: Sequence[Change], *, copy: bool
) -> list[Change]:
    """Fill the folder, and return the changes with the places that files have got in it."""
    files = {path.relative_to(source.path): path for path in sorted(source.path.rglob("*")) if _is_file(path)}
    place = shutil.copy2 if copy else _link
    placed = _placed(source, changes, set(files))
    moved = {PurePath(str(change.place)): PurePath(change.now) for change in placed}
    for inside, path in files.items():
        _put(path, folder / moved.get(inside, inside), place)
    write_labels(folder, _labels(source, issues, placed))
    return placed


def _labels(source: Source, issues: Issues, placed: Sequence[Change]) -> dict[str, object]:
    """The label of every audited image that is not left out, by its place in the copy."""
    changed = {change.id: change for change in placed}
    columns = (issues.column(name).tolist() for name in ("id", "file", "label"))
    found: dict[str, object] = {}
    for id_, file, label in zip(*columns, strict=True):
        change = changed.get(id_)
        if change is None:
            found[source.inside(file).as_posix()] = label
        elif change.new is not None:
            found[change.now] = change.new
    return found


def undo_images(folder: Path) -> int:
    """Move every file of a corrected copy back to the folder of its given label; an interrupted one goes on."""
    changes, _ = read_changes(folder)
    for change in changes:
        before, now = (_within(folder, str(part)) for part in (change.place, change.now))
        if now.exists() or now.is_symlink():
            before.parent.mkdir(parents=True, exist_ok=True)
            now.rename(before)
        elif not before.exists():
            raise ThresherError(f"{now} is missing, so it cannot be put back: correct the data again.")
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir() and not path.is_symlink() and not any(path.iterdir()):
            path.rmdir()
    forget_changes(folder, folder / CORRECTED_LABELS)
    return len(changes)


def _is_file(path: Path) -> bool:
    return path.is_file() and not path.name.startswith(".")


def _placed(source: Source, changes: Sequence[Change], files: set[Path]) -> list[Change]:
    """The changes with files from the audited folder on, and their places in the copy, none of which was in use."""
    taken: set[PurePath] = set(files)
    placed = []
    for change in changes:
        inside = source.inside(str(change.place))
        if inside not in files:
            raise ThresherError(f"{source.path / inside} was audited and is not there: put it back, or audit again.")
        now = PurePath(DROPPED) / inside
        if change.new is not None:
            now = _free(_of_class(inside, str(change.old), str(change.new), files), str(change.old), taken)
        taken.add(now)
        placed.append(replace(change, place=inside.as_posix(), now=now.as_posix()))
    return placed


def _of_class(inside: Path, old: str, new: str, files: set[Path]) -> PurePath:
    """The same path in the folder of another class.

    >>> _of_class(Path("train/cat/1.png"), "cat", "dog", {Path("train/dog/7.png")}).as_posix()
    'train/dog/1.png'
    """
    depth = 1 if inside.parts[0] in PARTS and len(inside.parts) > 2 else 0
    if inside.parts[depth] != old:
        raise ThresherError(f"{inside} was audited as '{old}' and lies in another folder: audit it again.")
    classes = {file.parts[depth] for file in files if len(file.parts) > depth + 1}
    if new not in classes:
        raise unknown("folder of the class", new, classes)
    return PurePath(*inside.parts[:depth], new, *inside.parts[depth + 1 :])


def _free(path: PurePath, old: str, taken: set[PurePath]) -> PurePath:
    """The path, or one beside it that says of which class it was, where its name is in use."""
    number, free = 1, path
    while free in taken:
        more = "" if number == 1 else f"-{number}"
        free, number = path.with_name(f"{path.stem}-from-{old}{more}{path.suffix}"), number + 1
    return free


def _put(file: Path, place: Path, how: Callable[[Path, Path], object]) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    how(file, place)


def _link(file: Path, place: Path) -> None:
    """A hard link, which outlives the file's name; where the file system has none, a symbolic one."""
    real = file.resolve()
    try:
        os.link(real, place)
    except OSError:
        try:
            place.symlink_to(real)
        except OSError as error:
            raise ThresherError(f"{file} cannot be linked ({error.strerror}): give --copy.") from error


def _within(folder: Path, name: str) -> Path:
    """A path of the list of changes, which must not lead out of the copy."""
    if not name or PurePath(name).is_absolute() or ".." in PurePath(name).parts:
        raise ThresherError(f"The list of changes in {folder} names '{name}', outside of it: correct the data again.")
    return folder / name
