"""The promises of SECURITY.md that no other test holds."""

import pickle
import socket
from pathlib import Path
from typing import Any

import pytest
from bad_python import call
from tiny import net
from typer.testing import CliRunner

from thresher import ThresherError, open_run
from thresher.__main__ import app


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


def test_training_and_reporting_open_no_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    out = str(tmp_path / "run")
    told = ["train", "--data", "blobs:60,3", "--method", "standard", "--epochs", "1", "--out", out]
    assert CliRunner().invoke(app, told).exit_code == 0
    assert CliRunner().invoke(app, ["report", out]).exit_code == 0
