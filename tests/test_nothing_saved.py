"""A training that ends in an error before it has saved an epoch leaves no folder, and what was there as it was."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from sound_folders import run_command
from tiny import examples, net
from torch import Tensor, nn

from thresher import Recipe, ThresherError, audit, fit
from thresher.core.files import alone_in
from thresher.engine.store.unsaved import nothing_left_unless_saved

TELLS_NOTHING = """
from torch import nn

class NaN(nn.Linear):
    def forward(self, inputs):
        return super().forward(inputs) * float("nan")

def nan(input_shape, outputs):
    return NaN(input_shape[0], outputs)
"""
TRAIN = ["train", "--data", "rows.csv:label", "--epochs", "2", "--method"]
DIVERGE = ["--model", "mlp:4", "--optimizer", "sgd", "--learning-rate", "1e30"]
COMMANDS = {
    "at the first step": ([*TRAIN, "standard", "--model", "own_nan:nan", "--out", "new"], "first batch"),
    "in a later step": ([*TRAIN, "standard", *DIVERGE, "--batch", "8", "--out", "new"], "diverged in epoch 1"),
    "folders in folders": ([*TRAIN, "standard", *DIVERGE, "--out", "new/of/runs"], "diverged in epoch 1"),
    "a folder that was empty": ([*TRAIN, "standard", *DIVERGE, "--out", "empty"], "diverged in epoch 1"),
    "the first of several stages": ([*TRAIN, "dmi", *DIVERGE, "--out", "new"], "diverged in epoch 1"),
    "a teacher": (["distil", "--data", "rows.csv:label", "--labelled", "24", *DIVERGE, "--out", "new"], "diverged"),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("words", "said"), COMMANDS.values(), ids=COMMANDS)
def test_commands(words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = "".join(f"{place % 2 + place / 100},{place % 3},{'ab'[place % 2]}\n" for place in range(60))
    (tmp_path / "rows.csv").write_text(f"x,z,label\n{rows}")
    (tmp_path / "own_nan.py").write_text(TELLS_NOTHING)
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    code, told, raised = run_command(words)
    assert (code, raised) == (2, None), told
    assert said in " ".join(told.split())
    found = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if "__pycache__" not in str(path)}
    assert found == {"rows.csv", "own_nan.py", "empty"}


class Broken(nn.Module):
    """Fails from its third training pass on."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.passes = net(), 0

    def forward(self, inputs: Tensor) -> Tensor:
        self.passes += self.training
        if self.passes > 2:
            raise ValueError("mine")
        outputs: Tensor = self.inner(inputs)
        return outputs


def stops(_: object) -> None:
    raise ValueError("mine")


CALLS: dict[str, tuple[Callable[[], nn.Module], dict[str, Any]]] = {
    "a model that fails": (Broken, {}),
    "a watch that fails": (net, {"watch": stops}),
    "a loss that is not finite": (net, {"objective": lambda outputs, _: outputs.sum(1) * torch.nan}),
}


@pytest.mark.parametrize(("model", "told"), CALLS.values(), ids=CALLS)
def test_calls(model: Callable[[], nn.Module], told: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises((ValueError, ThresherError)):
        fit(Recipe(), model, examples(), epochs=2, batch=8, device="cpu", out=tmp_path / "new" / "run", **told)
    assert list(tmp_path.iterdir()) == []


def test_an_audit_whose_first_judge_fails_leaves_no_folder(tmp_path: Path) -> None:
    told = {"epochs": 1, "optimizer": "sgd", "learning_rate": 1e30, "device": "cpu", "out": tmp_path / "new"}
    with pytest.raises(ThresherError, match="diverged"):
        audit(examples(), model=net, **told)
    assert list(tmp_path.iterdir()) == []


def test_what_was_there_what_is_not_ours_and_what_another_process_holds_stay(tmp_path: Path) -> None:
    def fail(folder: Path, *names: str) -> set[str]:
        with suppress(KeyError), nothing_left_unless_saved(folder):
            folder.mkdir(exist_ok=True)
            for name in names:
                (folder / name).touch()
            raise KeyError
        return set(os.listdir(folder)) if folder.exists() else set()

    assert fail(tmp_path / "a", "run.toml", "log.txt") == {"run.toml", "log.txt"}
    assert fail(tmp_path / "a", "model.json") == {"run.toml", "log.txt"}
    (tmp_path / "b").mkdir()
    with alone_in(tmp_path / "b"):
        assert fail(tmp_path / "b", "model.json") == {".lock", "model.json"}


def test_a_training_that_is_interrupted_keeps_its_folder(tmp_path: Path) -> None:
    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(Recipe(), net, examples(), epochs=2, batch=8, device="cpu", out=tmp_path / "run", watch=interrupt)
    assert (tmp_path / "run" / "model.json").exists()
