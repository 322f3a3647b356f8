"""Options, places and answers that cannot be: one sentence, exit code 2, and every file as it was before."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path

import bad_options
import pytest
from sound_folders import run_command, write_sound_folder

RESULTS = Path(__file__).parents[1] / "results" / "demo-small.jsonl"
TABLES = (
    bad_options.OF_TABLES, bad_options.OF_ARRAYS, bad_options.OF_IMAGES, bad_options.OF_TRAINING,
    bad_options.OF_AUDITS, bad_options.OF_WHAT_IS_WRITTEN, bad_options.OF_RECORDS, bad_options.OF_BENCHES,
)  # fmt: skip
CASES = {name: case for each in TABLES for name, case in each.items()}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, here = tmp_path_factory.mktemp("sound"), Path.cwd()
    os.chdir(folder)
    try:
        write_sound_folder(folder, RESULTS)
    finally:
        os.chdir(here)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    """What each file holds, locks apart, which stay where a process was at work."""
    files = (path for path in folder.rglob("*") if path.name != ".lock")
    return {
        str(path.relative_to(folder)): blake2b(path.read_bytes()).digest() if path.is_file() else b"" for path in files
    }


def test_no_case_hides_another() -> None:
    assert len(CASES) == sum(map(len, TABLES))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("words", "said", "before"), CASES.values(), ids=CASES)
def test_refused_and_nothing_is_changed(
    words: list[str],
    said: str,
    before: Callable[[Path], object] | None,
    sound: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    work = tmp_path / "work"
    shutil.copytree(sound, work)
    monkeypatch.chdir(work)
    if before is not None:
        before(work)
    were = contents(work)
    code, told, raised = run_command(words)
    assert (code, raised) == (2, None), told
    assert said in " ".join(told.split())
    assert "Traceback" not in told
    assert len(told.splitlines()[-1]) < 2000
    assert contents(work) == were


def shell(line: str, folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    told = line.replace("thresher", f"{sys.executable} -m thresher")
    return subprocess.run(
        ["bash", "-c", told], cwd=folder, env=os.environ | more, capture_output=True, text=True, check=False
    )


SURROUNDINGS = {
    "a closed output": ("thresher predict run rows.csv >&-", {}, "give --out"),
    "a full output": ("thresher methods > /dev/full", {}, "No space left"),
    "a working directory that is gone": ("mkdir d && cd d && rmdir ../d && thresher methods", {}, "is gone"),
    "a folder of data that is none": (
        "thresher train --data mnist --method standard --out new",
        {"THRESHER_DATA": "rows.csv"},
        "no data folder",
    ),
}


@pytest.mark.parametrize(("line", "more", "said"), SURROUNDINGS.values(), ids=SURROUNDINGS)
def test_surroundings_that_cannot_be_are_said(line: str, more: dict[str, str], said: str, sound: Path) -> None:
    found = shell(line, sound, **more)
    assert found.returncode == 2, found.stderr
    assert said in found.stderr
    assert "Traceback" not in found.stderr


@pytest.mark.parametrize("more", [{"PYTHONIOENCODING": "ascii"}, {"COLUMNS": "0"}, {"COLUMNS": "abc"}], ids=str)
def test_terminals_that_show_little_show_what_they_can(more: dict[str, str], sound: Path) -> None:
    found = shell("thresher methods", sound, **more)
    assert found.returncode == 0, found.stderr
    assert "co-teaching" in found.stdout


def test_a_run_whose_method_has_no_name_is_shown_by_its_folder(
    sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(sound / "run", tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    bad_options.replaced("run/run.toml", 'method = "prl-l"', 'method = ""')(tmp_path)
    assert run_command(["report", "run", "--out", "page.html"])[0] == 0
    assert "<title>run " in Path("page.html").read_text()
