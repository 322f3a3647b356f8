"""The results file: one JSON line a result, appended safely."""

import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from thresher.core.errors import ThresherError


def results_file(folder: Path, suite: str, scale: str) -> Path:
    return folder / f"{suite}-{scale}.jsonl"


def append(path: Path, result: Mapping[str, Any]) -> None:
    """Add one line, whole or not at all, and only return when it is on the disk; others may append at the same time."""
    line = (json.dumps(result, allow_nan=False) + "\n").encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        size = os.fstat(file).st_size
        # A process that was killed may have left half a line, which must not swallow this one.
        start = b"" if size == 0 or os.pread(file, 1, size - 1) == b"\n" else b"\n"
        try:
            if os.write(file, start + line) < len(start + line):
                raise OSError("only a part of the line was written")
            os.fsync(file)
        except OSError as error:
            os.ftruncate(file, size)
            raise ThresherError(
                f"{path} could not be written ({error}): free some space and run the same command again; "
                "everything stored before is intact."
            ) from error
    finally:
        os.close(file)


def read(path: Path) -> tuple[list[dict[str, Any]], int]:
    """The stored results, and how many lines could not be read: a process that was killed leaves half a line."""
    results: list[dict[str, Any]] = []
    damaged = 0
    if not path.exists():
        return results, damaged
    for line in path.read_bytes().splitlines():
        if line.strip():
            try:
                found = json.loads(line)
            except ValueError:
                found = None
            if isinstance(found, dict) and "status" in found:
                results.append(found)
            else:
                damaged += 1
    return results, damaged
