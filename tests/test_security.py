"""The promises of SECURITY.md that no other test holds."""

import csv
import pickle
import socket
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from bad_python import call
from sound_folders import DISTIL, QUICK, READ, run_command, write_sound_folder
from tiny import net

from thresher import ThresherError, open_run

RESULTS = Path(__file__).parents[1] / "results" / "demo-small.jsonl"


class Runs:
    """A pickle that would make a file."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("plain", [True, False], ids=["a bare pickle", "within torch's file"])
def test_a_pickle_as_checkpoint_is_refused_and_not_run(plain: bool, tmp_path: Path) -> None:
    import torch

    run, made = tmp_path / "run", tmp_path / "made"
    call(out=run)
    if plain:
        (run / "checkpoint.pt").write_bytes(pickle.dumps(Runs(made)))
    else:
        torch.save({"identity": Runs(made)}, run / "checkpoint.pt")
    with pytest.raises(ThresherError, match=r"checkpoint\.pt is damaged"):
        open_run(run, model=net)
    assert not made.exists()


def test_a_checkpoint_names_no_file_outside_of_its_ledger(tmp_path: Path) -> None:
    import torch

    run = tmp_path / "run"
    call(out=run)
    part, outside = next((run / "ledger").iterdir()), tmp_path / "theirs.parquet"
    outside.write_bytes(part.read_bytes())
    saved = torch.load(run / "checkpoint.pt", weights_only=True)
    torch.save({**saved, "ledger": [f"../../{outside.name}"]}, run / "checkpoint.pt")
    with pytest.raises(ThresherError, match="of the ledger is lost or damaged"):
        open_run(run, model=net)
    with pytest.raises(ThresherError, match="of the ledger is lost or damaged"):
        call(out=run, epochs=2)
    assert outside.exists()


def test_no_command_opens_a_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    with pytest.raises(AssertionError, match="a connection was opened"):
        urllib.request.urlopen("http://localhost:9")
    monkeypatch.chdir(tmp_path)
    write_sound_folder(tmp_path, RESULTS)  # by train, query, label, audit and correct
    others = {command[0]: command for commands in READ.values() for command in commands if "new" not in command}
    distil = [*DISTIL, *QUICK, "--out", "distilled"]
    for command in (*others.values(), ["scan", "images"], distil, ["methods"], ["demo", "--out", "shown"]):
        code, said, raised = run_command(command)
        assert code == 0, (command, said, raised)
    assert {"train", "audit", "label", "review", "correct", "predict", "report", "export", "query"} <= others.keys()


def test_what_a_spreadsheet_would_run_is_text_in_predictions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{place % 2},{place},{('=1+1', '@SUM(A1)')[place % 2]}\n" for place in range(40))
    Path("rows.csv").write_text(f"x,z,label\n{rows}")
    told = ["train", "--data", "rows.csv:label", "--method", "standard", *QUICK, "--out", "run"]
    assert run_command(told)[0] == 0
    assert run_command(["predict", "run", "rows.csv", "--all-classes", "--out", "said.csv"])[0] == 0
    with open("said.csv", newline="") as file:
        cells = [cell for row in csv.reader(file) for cell in row]
    assert {"'=1+1", "'@SUM(A1)"} & set(cells)
    assert not [cell for cell in cells if cell[:1] in tuple("=+-@")]
