"""What happens in long weeks, made to happen: full disks, lost rights, few files, little memory, clocks, moves, age."""

import errno
import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from comparing import differences
from faults import few_bytes, few_files, jumping_clock, little_memory, rights_hold, run_with, small_disk, started
from sound_folders import run_command
from test_left_behind_files import unfinished_in
from test_stopped import stopping, write_tables

import thresher.bench.pages.terminal
from thresher.core.files import alone_in

QUICK = ["--batch", "16", "--model", "mlp:8", "--commit-every", "0"]
TRAIN = ["train", "--data", "rows.csv:label", "--method", "standard", "--epochs", "3", *QUICK, "--out", "run"]
LONGER = [*TRAIN[:6], "5", *TRAIN[7:]]
REPORT, PREDICT = ["report", "run", "--out", "page.html"], ["predict", "run", "rows.csv", "--out", "predicted.csv"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with tables and a run that nothing disturbed."""
    folder = tmp_path_factory.mktemp("finished")
    write_tables(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        code, said, _ = run_command(TRAIN)
    assert code == 0, said
    return folder


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with the same tables."""
    folder = tmp_path / "here"
    folder.mkdir()
    write_tables(folder)
    monkeypatch.chdir(folder)
    return folder


def assert_refused(found: tuple[int, str]) -> None:
    code, said = found
    assert code == 2, said
    assert said.endswith("None"), said  # nothing was raised
    assert "Traceback" not in said


def assert_goes_on_like(twin: Path, here: Path) -> None:
    code, said, _ = run_command(TRAIN)
    assert code == 0, said
    assert differences(twin / "run", here / "run") == []
    assert unfinished_in(here) == []


def test_a_full_disk_is_said_and_the_run_goes_on_once_there_is_room(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = False
    for kilobytes in (12, 24, 48):  # which run out at different files
        with small_disk(tmp_path / f"disk{kilobytes}", kilobytes) as enlarge:
            if enlarge is None:
                pytest.skip("only root may mount a small disk; files of few bytes stand in for it below")
            monkeypatch.chdir(tmp_path / f"disk{kilobytes}")
            write_tables(Path.cwd())
            code, said = run_with(None, TRAIN)
            full = full or code == 2
            if code:
                assert_refused((code, said))
                assert "is full" in said
                assert unfinished_in(Path.cwd()) == []
            enlarge(10_000)
            assert_goes_on_like(finished, Path.cwd())
            monkeypatch.chdir(tmp_path)
    assert full


@pytest.mark.parametrize("fault", [few_bytes, few_files, little_memory], ids=lambda fault: fault.__name__)
def test_what_the_system_refuses_is_said_in_a_sentence_and_the_run_goes_on(
    fault: Callable[[], None], finished: Path, here: Path
) -> None:
    large = [each if each != "mlp:8" else "mlp:2000,2000" for each in [*TRAIN[:-1], "other"]]
    assert_refused(run_with(fault, large if fault is little_memory else TRAIN))
    assert_goes_on_like(finished, here)


def test_a_quota_that_is_used_up_reads_like_a_full_disk(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: int) -> None:
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    monkeypatch.setattr(os, "fsync", refuse)  # file systems with quotas are not at hand in every test
    code, said, raised = run_command(TRAIN)
    assert (code, raised) == (2, None)
    assert "The disk is full while writing" in said
    assert unfinished_in(here) == []


@pytest.fixture
def read_only(finished: Path, here: Path) -> Iterator[Path]:
    """The working directory with the finished run in it, in which nothing may be written."""
    shutil.copytree(finished / "run", here / "run")
    inside = [here, here / "run", *(here / "run").rglob("*")]
    for path in inside:
        path.chmod(0o555 if path.is_dir() else 0o444)
    yield here
    for path in inside:
        path.chmod(0o755 if path.is_dir() else 0o644)


def test_a_finished_run_is_shown_where_nothing_may_be_written(read_only: Path, tmp_path: Path) -> None:
    before = sorted(path.name for path in (read_only / "run").rglob("*"))
    code, said = run_with(rights_hold, TRAIN)
    assert code == 0, said
    assert "accuracy" in said
    for command in (REPORT, PREDICT):
        code, said = run_with(rights_hold, [*command[:-1], str(tmp_path / command[-1])])
        assert code == 0, said
    assert sorted(path.name for path in (read_only / "run").rglob("*")) == before


@pytest.mark.parametrize("command", [LONGER, REPORT, PREDICT], ids=["more epochs", "report", "predict"])
def test_what_has_to_be_written_where_nothing_may_be_is_refused(command: list[str], read_only: Path) -> None:
    assert_refused(run_with(rights_hold, command))
    assert sorted(path.name for path in read_only.iterdir()) == ["clean.csv", "pool.csv", "rows.csv", "run"]


BENCHES = {
    "a suite": ["bench", "run", "demo", "--results", "results"],
    "rates": ["sensitivity", "--data", "blobs:200,3", "--method", "prl-l", "--rates", "0.1,0.3", "--out", "rates"],
}


@pytest.mark.parametrize("command", BENCHES.values(), ids=BENCHES)
def test_a_bench_whose_results_could_not_be_written_is_refused_before_its_first_run(
    command: list[str], read_only: Path
) -> None:
    def no_run_begins() -> None:
        rights_hold()
        thresher.bench.pages.terminal.run_jobs = lambda *_: os._exit(1)

    assert_refused(run_with(no_run_begins, command))
    assert sorted(path.name for path in read_only.iterdir()) == ["clean.csv", "pool.csv", "rows.csv", "run"]


@pytest.mark.usefixtures("read_only")
def test_a_new_run_where_nothing_may_be_written_is_refused_before_training() -> None:
    found = run_with(rights_hold, [*TRAIN[:-1], "another"])
    assert_refused(found)
    assert "another" in found[1]
    assert "epoch" not in found[1]


def test_clocks_that_jump_change_nothing(finished: Path, here: Path) -> None:
    code, said = run_with(jumping_clock, TRAIN)
    assert code == 0, said
    assert differences(finished / "run", here / "run") == []


def test_files_from_the_future_are_read_and_gone_on_with(
    finished: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopping(2, lambda: signal.raise_signal(signal.SIGINT), monkeypatch)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    assert run_command(TRAIN)[0] == 130
    signal.signal(signal.SIGINT, before)
    monkeypatch.undo()
    monkeypatch.chdir(here)
    for path in here.rglob("*"):
        os.utime(path, (time.time() + 10**7,) * 2)
    assert_goes_on_like(finished, here)


def test_two_processes_at_once_leave_one_whole_run(finished: Path, here: Path) -> None:
    children = [started(TRAIN) for _ in range(2)]
    codes = sorted(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children)
    assert codes in ([0, 0], [0, 2])  # the second saw the first at work, or finished
    assert_goes_on_like(finished, here)


def test_a_folder_in_which_another_process_is_at_work_is_refused(here: Path) -> None:
    (here / "run").mkdir()
    with alone_in(here / "run"):
        found = run_with(None, TRAIN)
    assert_refused(found)
    assert "Another process is at work in run" in found[1]


@pytest.mark.parametrize("moved", ["renamed", "copied to another machine"])
def test_a_run_that_was_moved_goes_on_there(
    moved: str, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "an other place"
    (shutil.copytree if moved == "renamed" else _copied_without_times)(finished, place)
    monkeypatch.chdir(place)
    os.rename("run", "renamed")
    shown = [each if each != "run" else "renamed" for each in LONGER]
    for command in (shown, ["report", "renamed"], ["predict", "renamed", "rows.csv", "--out", "predicted.csv"]):
        code, said, _ = run_command(command)
        assert code == 0, said
    assert len((place / "renamed" / "history.jsonl").read_text().splitlines()) == 5
    assert str(finished).encode() not in b"".join(path.read_bytes() for path in place.rglob("*") if path.is_file())


def _copied_without_times(source: Path, place: Path) -> None:
    shutil.copytree(source, place, copy_function=shutil.copyfile)


def _with_format(number: int | None) -> Callable[[Path], None]:
    def change(run: Path) -> None:
        about = json.loads((run / "model.json").read_text())
        (run / "model.json").write_text(json.dumps(about | {"format": number or 2}))
        state = torch.load(run / "checkpoint.pt", weights_only=True)
        identity = json.loads(state["identity"]) | {"format": number}
        state["identity"] = json.dumps({name: each for name, each in identity.items() if each is not None})
        torch.save(state, run / "checkpoint.pt")

    return change


AGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "a newer one": (_with_format(99), "newer version"),
    "one before formats": (_with_format(None), "earlier version"),
    "one without its model": (lambda run: (run / "model.json").unlink(), "earlier version"),
}


@pytest.mark.parametrize(("change", "words"), AGES.values(), ids=AGES)
def test_a_run_of_another_version_is_refused_in_a_sentence(
    change: Callable[[Path], None], words: str, finished: Path, here: Path
) -> None:
    shutil.copytree(finished / "run", here / "run")
    change(here / "run")
    code, said, raised = run_command(LONGER)
    assert (code, raised) == (2, None), said
    assert words in said
