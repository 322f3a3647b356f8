"""Where the examples of an audited run lie: a folder of images, a table, a file of arrays, or nowhere that is known."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from thresher.core.errors import ThresherError, refuse_endless
from thresher.core.files import expanded
from thresher.data import TableOptions, names
from thresher.data.table_files import TABLE_SUFFIXES
from thresher.engine.store.model_json import read_about
from thresher.record.issues import DIMENSION, Issues
from thresher.record.run_folder import MODEL, SETTINGS

PARTS = ("train", "test", "val", "valid", "validation")  # folders that may stand above those of the classes
IMAGES, TABLE, ARRAYS, LABELS = "images", "table", "arrays", "labels"  # the last: only the labels are known


@dataclass(frozen=True)
class Source:
    """What was audited: its kind, where it lies now and lay then, its target, its name, and how cells are separated."""

    kind: str
    path: Path = Path()
    audited: Path = Path()
    target: str = ""
    name: str | None = None
    sep: str | None = None  # None: by the first line

    def inside(self, file: str) -> Path:
        """The path of an audited file, from the folder that was audited on."""
        for root in (self.audited, self.path):
            for given, top in ((Path(file), root), (Path(file).resolve(), root.resolve())):
                if given.is_relative_to(top):
                    return given.relative_to(top)
        raise ThresherError(f"{file} does not lie in {self.audited}: give --data, the folder that was audited.")


def source_of(run: Path, issues: Issues, given: str | None = None) -> Source:
    """Where the examples of the run in this folder lie: as told, or else as the audit or the training remembers it."""
    told = _told(run)
    stored: str | None = issues.summary.get("data") or told.get("data")
    name = given or stored
    if name is None and "file" in issues.table.column_names:
        root = _root(issues)
        return Source(IMAGES, root, root, name=str(root))
    if name is None or (given is None and name.partition(":")[0] in names()):
        return Source(LABELS, name=name)
    path, option = _parts(name)
    if not path.exists():
        raise ThresherError(f"There is no file or folder {path}, which was audited: give --data, where it lies now.")
    audited, target = _parts(stored or name)
    if path.is_dir():
        _needs(issues, "file", path)
        return Source(IMAGES, path, audited, name=name)
    if path.name.endswith(TABLE_SUFFIXES):
        sep = TableOptions.from_words(sep=told.get("sep")).sep
        return Source(TABLE, path, audited, option or target or _trained_target(run) or "target", name, sep)
    return Source(ARRAYS, path, audited, name=name) if path.suffix == ".npz" else Source(LABELS, name=name)


def rows_of(issues: Issues) -> list[int]:
    """The row of each example in the file that it came from, in the order of the issues."""
    rows: list[Any] = issues.column("row" if "row" in issues.table.column_names else "id").tolist()
    if any(row is None or row < 0 for row in rows):
        raise ThresherError("The issues name rows that no file has: run the audit again.")
    return [int(row) for row in rows]


def targets_of(issues: Issues, target: str) -> list[str]:
    """The target column of each issue: of several ("a,b") the one that lies furthest from what is expected.

    Targets without names, of arrays, are counted from 0.
    """
    if DIMENSION not in issues.table.column_names:
        return [target] * len(issues)
    places: list[int] = issues.column(DIMENSION).tolist()
    names = target.split(",") if target else [str(at) for at in range(max(places) + 1)]
    if max(places) >= len(names):
        raise ThresherError(f"{max(places) + 1} targets were audited, and '{target}' names {len(names)}: name all.")
    return [names[at] for at in places]


def _told(run: Path) -> dict[str, str]:
    """The texts among the settings in the run.toml of a folder, such as data and sep."""
    refuse_endless(run / SETTINGS)
    try:
        stored = tomllib.loads((run / SETTINGS).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (ValueError, RecursionError) as error:
        raise ThresherError(f"{run / SETTINGS} is no TOML ({error}): correct it.") from error
    return {name: value for name, value in stored.items() if isinstance(value, str)}


def _trained_target(run: Path) -> str | None:
    """The target column that the model of a folder learnt to predict."""
    if not (run / MODEL).exists():
        return None
    return next(iter(read_about(run)["preparation"].get("targets", ())), None)


def _root(issues: Issues) -> Path:
    """The folder above those of the classes, from the files and labels themselves."""
    file, label = Path(str(issues.column("file")[0])), issues.column("label")[0]
    above = next((parent.parent for parent in file.parents if parent.name == label), None)
    if above is None:
        raise ThresherError(f"{file} does not lie in a folder of its label '{label}': give --data, what was audited.")
    return above.parent if above.name in PARTS else above


def _needs(issues: Issues, column: str, path: Path) -> None:
    if column not in issues.table.column_names:
        raise ThresherError(f"The audit has not kept the {column} of each example of {path}: audit it again.")


def _parts(name: str) -> tuple[Path, str]:
    """The path and the option of `path:option`; a path that exists may have colons itself."""
    parts = name.split(":")
    for length in range(len(parts), 0, -1):
        path = expanded(":".join(parts[:length]))
        if path.exists():
            return path, ":".join(parts[length:])
    base, _, option = name.partition(":")
    return expanded(base), option
