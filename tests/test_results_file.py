"""The results file: every line is whole, with several processes, after a kill and on a full disk."""

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from filelock import FileLock

from thresher import ThresherError
from thresher.bench.run import results as results_module
from thresher.bench.run.results import append, read

LINES = 25
ROW = {
    "suite": "demo", "scale": "small", "cell": "one", "method": "standard", "seed": 0, "settings": {}, "status": "ok",
    "reason": None, "commit": None, "dirty": False, "versions": {}, "metric": "accuracy", "last": 0.5, "best": 0.5,
    "clean_share": None, "seconds": 1.0, "scores": [], "columns": {},
    "machine": {"cpu": "any", "cores": 2, "threads": 1, "jobs": 1, "gpu": None},
}  # fmt: skip
APPENDING = """
import sys
from pathlib import Path
from test_results_file import write

print("ready", flush=True)
write(Path(sys.argv[1]), "a")
"""
DYING_WITH_THE_LOCK = """
import os, signal, sys
from filelock import FileLock

FileLock(sys.argv[1]).acquire()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_half_a_line_is_left_out_and_swallows_nothing(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    append(path, {**ROW, "number": 1})
    whole = path.read_bytes()
    path.write_bytes(whole + b'{**ROW, "numb')
    assert read(path) == ([{**ROW, "number": 1}], 1)
    append(path, {**ROW, "number": 2})
    assert [line["number"] for line in read(path)[0]] == [1, 2]


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999", "1e308"])
@pytest.mark.parametrize("name", ["last", "best", "seconds", "clean_share", "scores", "columns"])
def test_a_result_of_no_number_that_a_mean_can_be_taken_of_counts_as_damaged(
    name: str, number: str, tmp_path: Path
) -> None:
    path = tmp_path / "r.jsonl"
    odd = {"scores": [0.5, "ODD"], "columns": {"kept": [None, "ODD"]}}.get(name, "ODD")
    path.write_text("".join(json.dumps(row).replace('"ODD"', number) + "\n" for row in (ROW, {**ROW, name: odd})))
    assert read(path) == ([ROW], 1)


@pytest.mark.parametrize("half", [b"", b'{"status'], ids=["whole", "after half a line"])
def test_a_full_disk_leaves_no_half_line(half: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "r.jsonl"
    append(path, {**ROW})
    path.write_bytes(path.read_bytes() + half)
    before, write = path.read_bytes(), os.write
    with monkeypatch.context() as patched:
        patched.setattr(results_module.os, "write", lambda file, data: write(file, data[:5]))
        with pytest.raises(ThresherError, match="free some space"):
            append(path, {**ROW, "number": 2})
    assert path.read_bytes() == before
    append(path, {**ROW, "number": 3})
    assert [line.get("number") for line in read(path)[0]] == [None, 3]


def write(path: Path, writer: str) -> None:
    for n in range(LINES):
        append(path, {**ROW, "writer": writer, "n": n, "fill": "x" * 9000})


def assert_whole(path: Path) -> None:
    lines, damaged = read(path)
    assert damaged == 0
    assert sorted((line["writer"], line["n"]) for line in lines) == [
        (writer, n) for writer in "ab" for n in range(LINES)
    ]


def test_two_threads_that_append_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    with ThreadPoolExecutor(2) as both:
        list(both.map(write, [path, path], "ab"))
    assert_whole(path)


def test_two_processes_that_append_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    paths = {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    other = subprocess.Popen(
        [sys.executable, "-c", APPENDING, str(path)], stdout=subprocess.PIPE, env={**os.environ, **paths}
    )
    assert other.stdout is not None
    with other.stdout as lines:
        assert lines.readline() == b"ready\n"
        write(path, "b")
    assert other.wait() == 0
    assert_whole(path)


def test_a_process_that_dies_with_the_lock_releases_it(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    died = subprocess.run([sys.executable, "-c", DYING_WITH_THE_LOCK, f"{path}.lock"], check=False)
    assert died.returncode == -signal.SIGKILL
    append(path, {**ROW, "number": 1})
    assert read(path) == ([{**ROW, "number": 1}], 0)


def test_an_append_waits_for_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    with ThreadPoolExecutor(1) as other:
        with FileLock(f"{path}.lock"):
            waiting = other.submit(append, path, {**ROW})
            with pytest.raises(TimeoutError):
                waiting.result(timeout=0.2)
            assert not path.exists()
        waiting.result(timeout=300)
    assert len(read(path)[0]) == 1
