"""Unfinished files that a killed process left are removed by the next write, unless another process holds them."""

import contextlib
import errno
import os
import shutil
import signal
import stat
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sound_folders import run_command, write_sound_folder
from tiny import examples, net

from thresher import acquire, signals
from thresher.core.files import write_whole
from thresher.core.unfinished import UNFINISHED, _lock, remove_left_behind, unfinished_beside
from thresher.rules import KCentre


def unfinished_in(folder: Path) -> list[Path]:
    """Unfinished files anywhere in a folder."""
    return sorted(folder.rglob(f".*{UNFINISHED}"))


def left(folder: Path, name: str = ".report.html.ab12cd34") -> Path:
    path = folder / f"{name}{UNFINISHED}"
    path.write_text("half")
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
        assert _lock(handle)
        write(tmp_path)
        assert unfinished_in(tmp_path) == [path]
    finally:
        os.close(handle)
    write(tmp_path)
    assert unfinished_in(tmp_path) == []


def no_fcntl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fcntl", None)  # as on Windows


def no_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", flock)


@pytest.mark.parametrize("without", [no_fcntl, no_locks])
def test_without_locks_files_are_written_and_none_is_taken_for_left_behind(
    without: Callable[[pytest.MonkeyPatch], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, right = left(tmp_path), os.replace

    def replace(one: Path, other: Path) -> None:
        opened = [os.path.realpath(f"/proc/self/fd/{handle}") for handle in os.listdir("/proc/self/fd")]
        assert str(one) not in opened  # Windows moves no open file
        right(one, other)

    without(monkeypatch)
    monkeypatch.setattr(os, "replace", replace)
    write(tmp_path)
    assert (tmp_path / "history.jsonl").read_text() == "{}"
    assert unfinished_in(tmp_path) == [path]


def a_stalled_writer(name: str) -> None:
    """Between the making of its file and the lock a writer stands still for long, and another process writes."""
    hour = time.time() - 3600
    os.utime(name, (hour, hour))
    remove_left_behind(Path(name).parent)


def a_stopped_remover(name: str) -> None:
    """Another process has taken the new file for left behind, and not removed it yet."""
    assert _lock(os.open(name, os.O_RDWR))


@pytest.mark.parametrize("between", [a_stalled_writer, a_stopped_remover])
def test_a_file_that_was_taken_for_left_behind_before_it_was_locked_is_made_again(
    between: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both happen to the first file only; another process writes beside it while it is filled."""
    made, right = [], tempfile.mkstemp

    def mkstemp(*told: Any) -> tuple[int, str]:
        handle, name = right(*told)
        made.append(name)
        if len(made) == 1:
            between(name)
        return handle, name

    def fill(path: Path) -> None:
        path.write_text("half")
        remove_left_behind(path.parent)
        path.write_text("whole")

    monkeypatch.setattr(tempfile, "mkstemp", mkstemp)
    write_whole(tmp_path / "history.jsonl", fill)
    assert (tmp_path / "history.jsonl").read_text() == "whole"
    assert len(made) == 2
    assert unfinished_in(tmp_path) == []


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # of Python 3.12 on, where there are threads
def test_processes_that_write_into_one_folder_do_not_remove_what_others_fill(tmp_path: Path) -> None:
    """Three processes write for a second and a fourth until it is killed, whose file the next write removes."""
    children = []
    for number in range(4):
        if not (child := os.fork()):
            end = time.monotonic() + (1 if number else 60)
            try:
                while time.monotonic() < end:
                    write_whole(tmp_path / f"{number}.txt", lambda path: path.write_text("whole" * 1000))
            except BaseException:
                os._exit(1)
            os._exit(0)
        children.append(child)
    time.sleep(0.5)
    os.kill(children[0], signal.SIGKILL)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert codes == [-signal.SIGKILL, 0, 0, 0]
    write(tmp_path)
    assert unfinished_in(tmp_path) == []


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, here = tmp_path_factory.mktemp("sound"), Path.cwd()
    os.chdir(folder)
    try:
        write_sound_folder(folder, Path(__file__).parents[1] / "results" / "demo-small.jsonl")
    finally:
        os.chdir(here)
    return folder


def correct() -> None:
    assert run_command(["correct", "audit", "--out", "fixed", "--count", "3"])[0] == 0


def export() -> None:
    assert run_command(["export", "run", "--out", "exported"])[0] == 0


def acquire_on_disk() -> None:
    acquire(KCentre(by=signals.features, count=3), net(seed=0), examples(), labelled=examples(6), on_disk=".")


WHOLE_FOLDERS = {
    "correct": (correct, "thresher.app.corrected_copies.write_changes"),
    "export": (export, "thresher.app.export._write_onnx"),
    "acquire": (acquire_on_disk, "thresher.engine.acquire.Sweep"),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("act", "killed_in"), WHOLE_FOLDERS.values(), ids=WHOLE_FOLDERS)
def test_a_folder_that_was_being_filled_is_removed_when_the_same_is_done_again(
    act: Callable[[], None], killed_in: str, sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(sound, tmp_path / "work")
    monkeypatch.chdir(tmp_path / "work")
    before = set(os.listdir())
    if not (child := os.fork()):
        try:  # whatever fails in here, this process must not go on with the tests
            monkeypatch.setattr(killed_in, lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL))
            act()
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert len(set(os.listdir()) - before) == 1
    act()
    assert {name for name in set(os.listdir()) - before if name.startswith((".", "tmp"))} == set()


def test_a_folder_that_another_process_fills_stays(tmp_path: Path) -> None:
    with unfinished_beside(tmp_path / "copy", is_folder=True) as folder:
        (folder / "half.csv").touch()
        write(tmp_path)
        assert (folder / "half.csv").exists()
    assert unfinished_in(tmp_path) == []


def test_a_link_that_is_called_unfinished_is_removed_and_not_what_it_leads_to(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "file").touch()
    for number, to in enumerate(("theirs", "theirs/file", "nowhere", f".1{UNFINISHED}")):
        (tmp_path / f".{number}{UNFINISHED}").symlink_to(to)
    write(tmp_path)
    assert (theirs / "file").exists()


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
