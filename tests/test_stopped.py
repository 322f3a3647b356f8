"""Commands that Ctrl-C or SIGTERM stops in the middle of a training: what is said is right, and nothing is lost."""

import os
import random
import signal
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from comparing import differences
from sound_folders import run_command
from test_left_behind_files import unfinished_in

from thresher.engine.loop.training import Training

QUICK = ["--epochs", "2", "--batch", "16", "--model", "mlp:4", "--out", "run"]
TRAIN = ["train", "--data", "rows.csv:label", *QUICK]
CLEAN = "clean.csv:label"
COMMANDS: dict[str, list[str]] = {
    "train": [*TRAIN, "--method", "standard"],
    "folds": [*TRAIN, "--method", "prl-l", "--noise-rate", "folds"],
    "several trainings": [*TRAIN, "--method", "incv"],
    "fine-tuning": [
        *TRAIN,
        "--method",
        "standard",
        "--fine-tune",
        "--fine-tune-steps",
        "6",
        "--clean",
        "clean.csv:label",
    ],
    "pool": ["train", "--data", "pool.csv:label", "--pool", "--method", "standard", *QUICK],
    "audit": ["audit", "rows.csv:label", "--folds", "2", *QUICK],
    "distil": ["distil", "--data", "rows.csv:label", "--labelled", "40", "--weights", "fidelity,unweighted", *QUICK],
}
run_epoch = Training.run_epoch


def write_tables(folder: Path) -> None:
    draws = random.Random(0)
    rows = [f"{draws.gauss(place % 3, 0.7):.3f},{draws.gauss(0, 1):.3f},c{place % 3}" for place in range(90)]
    (folder / "rows.csv").write_text("\n".join(["x,z,label", *rows]) + "\n")
    (folder / "clean.csv").write_text("\n".join(["x,z,label", *rows[:12]]) + "\n")
    some = [row if place < 45 else row.rpartition(",")[0] + "," for place, row in enumerate(rows)]
    (folder / "pool.csv").write_text("\n".join(["x,z,label", *some]) + "\n")


def stopping(at: int, stop: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let training stop in the middle of its epoch number `at`, counted over all trainings of the process."""
    begun: list[int] = []

    def epoch(self: Training) -> Generator[Any, None, None]:
        begun.append(1)
        steps = run_epoch(self)
        if len(begun) == at:
            yield next(steps)
            stop()
        yield from steps

    monkeypatch.setattr(Training, "run_epoch", epoch)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A function of a command's name: the folder in which it ran to its end, once."""
    made: dict[str, Path] = {}

    def folder(name: str) -> Path:
        if name not in made:
            made[name] = tmp_path_factory.mktemp("twin")
            write_tables(made[name])
            with pytest.MonkeyPatch.context() as patch:
                patch.chdir(made[name])
                code, said, _ = run_command(COMMANDS[name])
            assert code == 0, said
        return made[name]

    return folder


pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.usefixtures("default_signals")]


@pytest.fixture
def default_signals() -> Iterator[None]:
    """Signals as they are where nothing holds them; the processes of CI may ignore some."""
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    for each, handler in before.items():
        signal.signal(each, handler)


@pytest.mark.parametrize("at", [1, 2, 3])
@pytest.mark.parametrize("name", COMMANDS)
def test_ctrl_c_loses_nothing_and_says_what_to_do(
    name: str, at: int, undisturbed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = undisturbed(name)
    write_tables(tmp_path)
    monkeypatch.chdir(tmp_path)
    stopping(at, lambda: os.kill(os.getpid(), signal.SIGINT), monkeypatch)
    code, said, raised = run_command(COMMANDS[name])
    if not (at == 3 and name in ("train", "pool")):  # which have no third epoch
        assert (code, raised) == (130, None), said
        assert "Stopped" in said
        assert "pass out=" not in said
        assert ("go on from run" in said) or name == "folds" or "anew" in said
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    code, said, _ = run_command(COMMANDS[name])
    assert code == 0, said
    assert differences(whole, tmp_path) == []
    assert unfinished_in(tmp_path) == []


def test_sigterm_saves_the_epoch_that_is_under_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_tables(tmp_path)
    monkeypatch.chdir(tmp_path)
    stopping(1, lambda: os.kill(os.getpid(), signal.SIGTERM), monkeypatch)
    code, said, raised = run_command(COMMANDS["train"])
    assert (code, raised) == (128 + signal.SIGTERM, None)
    assert "after epoch 1, which is saved" in said
    assert len((tmp_path / "run" / "history.jsonl").read_text().splitlines()) == 1
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
