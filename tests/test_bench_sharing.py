"""CUDA's multi-process service around jobs that share a GPU, by a command on PATH that only notes what it gets."""

import os
from pathlib import Path

import pytest

from thresher.bench.run import sharing
from thresher.bench.run.sharing import PLACE, shared_gpu


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file in which the fake command notes its arguments, its input and where the service is to be."""
    command, notes = tmp_path / "nvidia-cuda-mps-control", tmp_path / "notes"
    command.write_text(
        f'#!/bin/sh\necho "$*|$(cat)|${PLACE}" >> {notes}\n'
        'if [ -n "$REFUSE" ]; then echo "Cannot find MPS" >&2; exit 1; fi\n'
    )
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.delenv(PLACE, raising=False)
    monkeypatch.setattr(sharing, "uses_cuda", lambda device: device != "cpu")
    monkeypatch.setattr(sharing, "USUAL_PLACE", tmp_path / "usual")
    return notes


def test_the_service_is_started_for_several_processes_and_ended(told: Path) -> None:
    with shared_gpu("cuda", 2) as said:
        assert said is not None
        assert "was started" in said
        place = os.environ[PLACE]
        assert told.read_text() == f"-d||{place}\n"
        assert Path(place).is_dir()
    assert told.read_text().splitlines()[1:] == [f"|quit|{place}"]
    assert PLACE not in os.environ
    assert not Path(place).exists()


def test_the_service_ends_where_the_jobs_fail(told: Path) -> None:
    with pytest.raises(KeyboardInterrupt), shared_gpu(None, 6):
        raise KeyboardInterrupt
    assert "|quit|" in told.read_text()


@pytest.mark.parametrize(("device", "at_once"), [("cpu", 4), ("cuda", 1)])
def test_one_process_or_a_cpu_needs_no_service(told: Path, device: str, at_once: int) -> None:
    with shared_gpu(device, at_once) as said:
        assert said is None
    assert not told.exists()


def test_a_service_that_runs_is_left_alone(told: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sharing.USUAL_PLACE.mkdir()
    (sharing.USUAL_PLACE / "control").touch()
    with shared_gpu("cuda", 2) as said:
        assert said is not None
        assert "runs already" in said
    elsewhere = sharing.USUAL_PLACE.rename(sharing.USUAL_PLACE.with_name("elsewhere"))
    monkeypatch.setenv(PLACE, str(elsewhere))
    with shared_gpu("cuda", 2) as said:
        assert said is not None
        assert "runs already" in said
    assert not told.exists()


def test_a_named_place_without_a_service_is_no_service(told: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PLACE, "/somewhere")
    with shared_gpu("cuda", 2) as said:
        assert said is not None
        assert "was started" in said
        assert os.environ[PLACE] != "/somewhere"
    assert os.environ[PLACE] == "/somewhere"
    assert told.read_text().startswith("-d|")


def test_a_service_that_may_not_start_is_done_without(told: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFUSE", "1")
    with shared_gpu("cuda", 2) as said:
        assert said is not None
        assert "take turns" in said
        assert "Cannot find MPS" in said
        assert PLACE not in os.environ
    assert told.read_text().count("\n") == 1
