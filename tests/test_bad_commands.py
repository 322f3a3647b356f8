"""What a command is told wrongly, or finds in files: one sentence on stderr, exit code 2, and nothing left behind."""

import io
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from thresher.__main__ import app
from thresher.core.errors import printable

ROWS = "".join(f"{place % 2 + place / 100},{place % 3},{'ab'[place % 2]}\n" for place in range(40))


def table(folder: Path, name: str = "rows.csv") -> str:
    (folder / name).write_text(f"x,z,label\n{ROWS}")
    return f"{folder / name}:label"


def pipe(folder: Path) -> str:
    os.mkfifo(folder / "pipe.npz")
    return str(folder / "pipe.npz")


def objects(folder: Path) -> str:
    np.savez(folder / "objects.npz", inputs=np.array([{}, 1], dtype=object), targets=np.array([0, 1]))
    return str(folder / "objects.npz")


def terabyte(folder: Path) -> str:
    header, targets = io.BytesIO(), io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (10**9, 125)})
    np.save(targets, np.array([0, 1]))
    with zipfile.ZipFile(folder / "terabyte.npz", "w") as file:
        file.writestr("inputs.npy", header.getvalue())
        file.writestr("targets.npy", targets.getvalue())
    return str(folder / "terabyte.npz")


# what is given as data, further options, and what the sentence must say
BAD: dict[str, tuple[Callable[[Path], str], list[str], str]] = {
    "a pipe": (pipe, [], "pipe or a device"),
    "a device": (lambda _: "/dev/zero", [], "pipe or a device"),
    "pickled objects": (objects, [], "allow_pickle"),
    "a header of a terabyte": (terabyte, [], "931"),
    "blobs beyond memory": (lambda _: "blobs:1000000000000,5", [], "memory"),
    "a model beyond memory": (table, ["--model", "mlp:100000000000"], "GB"),
    "a schedule at nan": (table, ["--schedule", "step:nan"], "schedule"),
    "a momentum of 2": (table, ["--optimizer", "sgd", "--momentum", "2"], "momentum"),
    "a learning rate of nan": (table, ["--learning-rate", "nan"], "learning_rate"),
    "no fine-tuning steps": (table, ["--fine-tune-steps", "0"], "at least 1 step"),
    "a noise rate of nan": (table, ["--noise-rate", "nan", "--method", "prl-l"], "noise_rate"),
    "a validation share of nan": (table, ["--validation", "nan", "--early-stop"], "validation"),
    "no such file": (lambda folder: f"{folder}/[red]none.csv:label", [], "no file or folder"),
}


@pytest.mark.parametrize(("data", "options", "words"), BAD.values(), ids=BAD)
def test_refused_in_one_sentence(data: Callable[[Path], str], options: list[str], words: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    method = [] if "--method" in options else ["--method", "standard"]
    told = ["train", "--data", data(tmp_path), "--epochs", "1", "--out", str(out), *method, *options]
    result = CliRunner().invoke(app, told)
    assert result.exit_code == 2, result.output
    assert words in result.output
    assert "Traceback" not in result.output
    assert not out.exists()


@pytest.mark.parametrize("name", ["caf\udce9", "\x1b[31mred", "a\nb"], ids=["not UTF-8", "escape", "two lines"])
def test_a_folder_whose_name_is_no_text_is_refused_before_training(name: str, tmp_path: Path) -> None:
    out = tmp_path / name
    told = ["train", "--data", table(tmp_path), "--epochs", "1", "--method", "standard", "--out", str(out)]
    result = CliRunner().invoke(app, told)
    assert result.exit_code == 2
    assert "no plain text" in result.output
    assert not out.exists()


@pytest.mark.parametrize(
    ("text", "shown"),
    [("\x1b[31mred", r"\x1b[31mred"), ("caf\udce9", r"caf\udce9"), ("é [b]", "é [b]"), ("\x07", r"\x07")],
)
def test_what_steers_a_terminal_is_written_out(text: str, shown: str) -> None:
    assert printable(text) == shown
