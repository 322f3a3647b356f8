"""Unfinished files that a killed process left are removed by the next write, unless another process holds them."""

import contextlib
import os
import stat
import time
from pathlib import Path
from typing import Any

from thresher.core.files import JUST_MADE, UNFINISHED, _is_held, write_whole


def unfinished_in(folder: Path) -> list[Path]:
    """Unfinished files anywhere in a folder."""
    return sorted(folder.rglob(f".*{UNFINISHED}"))


def left(folder: Path, name: str = ".report.html.ab12cd34") -> Path:
    path = folder / f"{name}{UNFINISHED}"
    path.write_text("half")
    old = time.time() - 2 * JUST_MADE
    os.utime(path, (old, old))
    return path


def write(folder: Path) -> None:
    write_whole(folder / "history.jsonl", lambda path: path.write_text("{}"))


def test_the_next_write_removes_what_nobody_holds(tmp_path: Path) -> None:
    left(tmp_path)
    other = tmp_path / ".somebody.else"
    other.write_text("theirs")
    write(tmp_path)
    assert unfinished_in(tmp_path) == []
    assert other.exists()


def test_what_another_process_writes_stays(tmp_path: Path) -> None:
    path = left(tmp_path)
    handle = os.open(path, os.O_RDWR)
    try:
        assert not _is_held(handle)  # now it is, by this handle
        write(tmp_path)
        assert unfinished_in(tmp_path) == [path]
    finally:
        os.close(handle)
    write(tmp_path)
    assert unfinished_in(tmp_path) == []


def test_a_write_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def fail(path: Path) -> None:
        path.write_text("half")
        raise OSError("no")

    with contextlib.suppress(OSError):
        write_whole(tmp_path / "a", fail)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_on_the_disk_with_the_new_name_before_a_save_counts(tmp_path: Path, monkeypatch: Any) -> None:
    done: list[str] = []
    right = {"fsync": os.fsync, "replace": os.replace}

    def fsync(handle: int) -> None:
        done.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
        right["fsync"](handle)

    def replace(one: Path, other: Path) -> None:
        done.append("name")
        right["replace"](one, other)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    write(tmp_path)
    assert done == ["file", "name", "folder"]


def test_files_have_the_rights_that_the_umask_leaves(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write(tmp_path)
    finally:
        os.umask(before)
    assert (tmp_path / "history.jsonl").stat().st_mode & 0o777 == 0o640
