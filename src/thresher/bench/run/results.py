"""The results file: one JSON line a result, appended safely."""

import itertools
import json
import os
import tempfile
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from filelock import FileLock

from thresher.core.errors import ThresherError, refuse_endless
from thresher.core.files import LARGEST, misfit


class Machine(TypedDict):
    """What a result was computed on."""

    cpu: str
    cores: int
    threads: int
    jobs: int
    gpu: str | None


class Result(TypedDict):
    """What every stored result has."""

    suite: str
    scale: str
    cell: str
    method: str
    seed: int
    settings: dict[str, Any]
    status: str
    reason: str | None


class Good(Result):
    """One that did not fail."""

    metric: str
    last: float
    best: float
    clean_share: float | None
    seconds: float
    columns: dict[str, list[float | None]]
    scores: list[float]
    commit: str | None
    dirty: bool | None
    versions: dict[str, Any]
    machine: Machine
    spread: NotRequired[float | None]
    examples_per_second: NotRequired[float | None]


def results_file(folder: Path, suite: str, scale: str) -> Path:
    return folder / f"{suite}-{scale}.jsonl"


def refuse_unwritable(path: Path) -> None:
    """Fail now where a results file could not be written after the first run; nothing is left of the attempt."""
    made = [each for each in path.parents if not each.exists()]
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryFile(dir=path.parent), path.open("ab") if path.exists() else nullcontext():
            pass
    finally:
        for each in made:
            each.rmdir()


def append(path: Path, result: Mapping[str, Any]) -> None:
    """Add one line, whole or not at all, and return when it is on the disk; several processes may append at once."""
    line = (json.dumps(result, allow_nan=False) + "\n").encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{path}.lock"):
        file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
        try:
            _append_locked(file, line)
        except OSError as error:
            raise ThresherError(
                f"{path} could not be written ({error}): free some space and run the same command again; "
                "everything stored before is intact."
            ) from error
        finally:
            os.close(file)


def _append_locked(file: int, line: bytes) -> None:
    size = os.lseek(file, 0, os.SEEK_END)
    if size:
        os.lseek(file, size - 1, os.SEEK_SET)
        if os.read(file, 1) != b"\n":  # the half line of a killed process must not swallow this one
            line = b"\n" + line
    try:
        if os.write(file, line) < len(line):
            raise OSError("only a part of the line was written")
        os.fsync(file)
    except OSError:
        os.ftruncate(file, size)
        raise


def read(path: Path) -> tuple[list[dict[str, Any]], int]:
    """The stored results of a suite, and how many lines could not be read."""
    found, damaged = read_lines(path)
    results = [line for line in found if (_is_good if line.get("status") == "ok" else _is_result)(line)]
    return results, damaged + len(found) - len(results)


def _is_result(line: dict[str, Any]) -> bool:
    return misfit(line, Result) is None


def _is_good(line: dict[str, Any]) -> bool:
    """Whether a line is a result that did not fail, of numbers of which means can be taken."""
    if misfit(line, Good) is not None:
        return False
    single = [line["last"], line["best"], line["seconds"], line["clean_share"], line.get("spread")]
    every = itertools.chain(single, [line.get("examples_per_second")], line["scores"], *line["columns"].values())
    return all(number is None or abs(number) < LARGEST for number in every)


def read_lines(path: Path) -> tuple[list[dict[str, Any]], int]:
    """The rows of any file of JSON lines, and how many are damaged: a killed process leaves half a line."""
    rows: list[dict[str, Any]] = []
    damaged = 0
    refuse_endless(path)
    for line in path.read_bytes().splitlines() if path.exists() else []:
        if line.strip():
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                row = None
            if isinstance(row, dict):
                rows.append(row)
            else:
                damaged += 1
    return rows, damaged
