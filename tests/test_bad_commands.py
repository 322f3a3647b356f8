"""What a command is told wrongly, or finds in files: one sentence on stderr, exit code 2, and nothing left behind."""

import io
import os
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image
from sound_folders import run_command
from typer.testing import CliRunner

from thresher import ThresherError, load
from thresher.__main__ import app
from thresher.app.annotate.stored_answers import read_answers
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


def images(folder: Path) -> Path:
    for name in ("a", "b"):
        (folder / "images" / name).mkdir(parents=True)
        for place in range(4):
            Image.new("RGB", (4, 4), (60 * place, 9, 9)).save(folder / "images" / name / f"{place}.png")
    return folder / "images"


def bomb(folder: Path, side: int = 12_000) -> str:
    """A file of a few bytes that would be an image of 144 million pixels."""
    path = images(folder) / "a" / "bomb.png"
    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(bytes(99))), (b"IEND", b"")]
    framed = [struct.pack(">I", len(b)) + k + b + struct.pack(">I", zlib.crc32(k + b)) for k, b in chunks]
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(framed))
    return str(path.parent.parent)


def no_text(folder: Path, file: bytes = b"a/caf\xe9.png") -> str:
    path = images(folder)
    os.rename(path / ("a/0.png" if b"/" in file else "a"), os.fsencode(path) + b"/" + file)
    return str(path)


def arrays(inputs: Any, targets: Any) -> Callable[[Path], str]:
    def write(folder: Path) -> str:
        np.savez(folder / "arrays.npz", train_images=np.asarray(inputs), train_targets=np.asarray(targets))
        return str(folder / "arrays.npz")

    return write


def cells(target: Callable[[int], object]) -> Callable[[Path], str]:
    def write(folder: Path) -> str:
        rows = "".join(f"{place},{target(place)}\n" for place in range(40))
        (folder / "cells.csv").write_text(f"x,label\n{rows}")
        return f"{folder / 'cells.csv'}:label"

    return write


def written(content: bytes) -> Callable[[Path], str]:
    """A file that is called a table of texts."""

    def write(folder: Path) -> str:
        (folder / "rows.csv").write_bytes(content)
        return f"{folder / 'rows.csv'}:label"

    return write


def twice(folder: Path) -> str:
    columns = [pa.array(range(40)), pa.array(range(40)), pa.array(["a", "b"] * 20)]
    pq.write_table(pa.Table.from_arrays(columns, names=["x", "x", "label"]), folder / "rows.parquet")
    return f"{folder / 'rows.parquet'}:label"


def junk_archive(folder: Path) -> str:
    (folder / "rows.csv.gz").write_bytes(b"\x1f\x8bjunk")
    return f"{folder / 'rows.csv.gz'}:label"


def linked(folder: Path, to: str) -> str:
    os.symlink(to, images(folder) / "a" / "link.png")
    return str(folder / "images")


def pipe_among_images(folder: Path) -> str:
    os.mkfifo(images(folder) / "a" / "pipe.png")
    return str(folder / "images")


X, Y = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 2

# what is given as data, further options, and what the sentence must say
BAD: dict[str, tuple[Callable[[Path], str], list[str], str]] = {
    "a pipe": (pipe, [], "pipe or a device"),
    "a device": (lambda _: "/dev/zero", [], "pipe or a device"),
    "pickled objects": (objects, [], "allow_pickle"),
    "a header of a terabyte": (terabyte, [], "931"),
    "blobs beyond memory": (lambda _: "blobs:1000000000000,5", [], "256,000 GB"),
    "a model beyond memory": (table, ["--model", "mlp:100000000000"], "GB"),
    "a model of more numbers than torch counts": (table, ["--model", "mlp:99999999999999999999"], "GB"),
    "a million workers": (table, ["--workers", "1000000"], "too many"),
    "a model that is no factory": (table, ["--model", "os:system"], "os:system needs command"),
    "a schedule at nan": (table, ["--schedule", "step:nan"], "schedule"),
    "a momentum of 2": (table, ["--optimizer", "sgd", "--momentum", "2"], "momentum"),
    "a learning rate of nan": (table, ["--learning-rate", "nan"], "learning_rate"),
    "no fine-tuning steps": (table, ["--fine-tune-steps", "0"], "at least 1 step"),
    "a noise rate of nan": (table, ["--noise-rate", "nan", "--method", "prl-l"], "noise_rate"),
    "a validation share of nan": (table, ["--validation", "nan", "--early-stop"], "validation"),
    "an image of 144 million pixels": (bomb, [], "0.4 GB"),
    "an image whose name is no text": (no_text, [], "not UTF-8"),
    "a class whose name is no text": (lambda folder: no_text(folder, b"caf\xe9"), [], "not UTF-8"),
    "a label of ten million": (arrays(X, Y * 10**7), [], "10.2 GB"),
    "no rows": (arrays(X[:0], Y[:0]), [], "no examples"),
    "no real targets": (arrays(X[:0], X[:0]), [], "is empty"),
    "complex inputs": (arrays(X + 1j, Y), [], "real numbers"),
    "texts as inputs": (arrays(X.astype(str), Y), [], "real numbers"),
    "the same target everywhere": (arrays(X, np.ones(40)), [], "same target"),
    "targets of 1e200": (arrays(X, X[:, 0] * 1e200), [], "1e+30"),
    "cells of 1e200": (cells(lambda place: place * 1.5e200), [], "1e+30"),
    "a home of nobody": (lambda _: "~nobody_at_all/rows.csv:label", [], "nobody_at_all"),
    "a workbook": (written(b"PK\x03\x04" + bytes(range(200))), [], "save the sheet as CSV"),
    "two bytes a letter": (written(f"x,z,label\n{ROWS}".encode("utf-16")), [], "not UTF-8"),
    "one byte a letter": (written(f"x,größe,label\n{ROWS}".encode("latin-1")), [], "not UTF-8"),
    "decimal commas": (
        written(f"x;z;label\n{ROWS.replace(',', ';').replace('.', ',')}".encode()),
        [],
        "with a decimal point",
    ),
    "commas between thousands": (
        written(
            ("x,z,label\n" + "".join(f'"1,{place:03}",{place % 3},{"ab"[place % 2]}\n' for place in range(40))).encode()
        ),
        [],
        "nothing between thousands",
    ),
    "a column twice": (written(f"x,x,label\n{ROWS}".encode()), [], "is twice"),
    "a column of Parquet twice": (twice, [], "is twice"),
    "a damaged archive": (junk_archive, [], "cannot be read"),
    "images of ten billion pixels": (lambda folder: f"{images(folder)}:100000", [], "30.0 GB"),
    "a link that leads nowhere": (lambda folder: linked(folder, "/nowhere/0.png"), [], "cannot be read as an image"),
    "a link to itself": (lambda folder: linked(folder, "link.png"), [], "cannot be read as an image"),
    "a pipe among images": (pipe_among_images, [], "a pipe or a device"),
    "a device among images": (lambda folder: linked(folder, "/dev/zero"), [], "a pipe or a device"),
    "blobs of many classes": (lambda _: "blobs:1000,1000000000000", [], "64,000 GB"),
    "blobs of one class": (lambda _: "blobs:100,1", [], "at least 2 classes"),
    "no such file": (lambda folder: f"{folder}/[red]none.csv:label", [], "no file or folder"),
}


@pytest.mark.parametrize(("data", "options", "words"), BAD.values(), ids=BAD)
def test_refused_in_one_sentence(data: Callable[[Path], str], options: list[str], words: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    method = [] if "--method" in options else ["--method", "standard"]
    told = ["train", "--data", data(tmp_path), "--epochs", "1", "--out", str(out), *method, *options]
    result = CliRunner().invoke(app, told)
    assert result.exit_code == 2, result.output
    assert words in " ".join(result.output.split())  # a line may end within them, after a long path
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


def test_whole_numbers_above_two_to_the_53_are_read(tmp_path: Path) -> None:
    rows = "".join(f"{place},{123456789012345678 + place % 7},{'ab'[place % 2]}\n" for place in range(40))
    (tmp_path / "long.csv").write_text(f"x,key,label\n{rows}")
    train, _ = load(f"{tmp_path / 'long.csv'}:label")
    assert train.input_shape == (2,)


def test_a_round_that_was_made_up_is_refused_and_not_trained(tmp_path: Path) -> None:
    (tmp_path / "answers.csv").write_text("round,id,label\n1000000,3,a\n")
    with pytest.raises(ThresherError, match="without a gap"):
        read_answers(tmp_path)


@pytest.mark.parametrize("command", ["predict run rows.csv", "export run", "report run", "correct a", "audit r.csv:y"])
@pytest.mark.parametrize("joined", [True, False], ids=["--out=NAME", "--out NAME"])
def test_no_command_writes_to_a_path_that_is_no_text(command: str, joined: bool, tmp_path: Path) -> None:
    out = str(tmp_path / "caf\udce9.csv")
    result = CliRunner().invoke(app, [*command.split(), *([f"--out={out}"] if joined else ["--out", out])])
    assert result.exit_code == 2
    assert "no plain text" in result.output
    assert list(tmp_path.iterdir()) == []


WORLD = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "29871"}
LAUNCHES = {
    "no number of processes": {**WORLD, "WORLD_SIZE": "two"},
    "no process": {**WORLD, "RANK": ""},
    "a process beyond them": {**WORLD, "RANK": "5"},
    "no address": {**WORLD, "MASTER_ADDR": ""},
    "a port that is none": {**WORLD, "MASTER_PORT": "99999999"},
    "a place that is none": {**WORLD, "LOCAL_RANK": "first"},
}


@pytest.mark.parametrize("told", LAUNCHES.values(), ids=LAUNCHES)
def test_what_torchrun_would_not_set_is_refused(
    told: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    out = tmp_path / "run"
    result = CliRunner().invoke(app, ["train", "--data", table(tmp_path), "--method", "standard", "--out", str(out)])
    assert result.exit_code == 2, result.output
    assert "start them by torchrun" in result.output
    assert not out.exists()


ENDLESS = {
    "features": ["train", "--data", "none.npz", "--features", "PIPE"],
    "probabilities": ["audit", "none.csv:label", "--probabilities", "PIPE"],
    "settings": ["train", "--from", "PIPE"],
    "new data": ["predict", "run", "PIPE"],
    "answers": ["label", "run", "PIPE"],
    "a test set": ["train", "--data", "none.csv:label", "--test=PIPE:label"],
    "a teacher": ["distil", "--data", "none.npz", "--teacher", "PIPE"],
}


@pytest.mark.parametrize("command", ENDLESS.values(), ids=ENDLESS)
def test_no_command_waits_for_a_pipe(command: list[str], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    result = CliRunner().invoke(app, [word.replace("PIPE", str(tmp_path / "pipe")) for word in command])
    assert result.exit_code == 2
    assert "pipe or a device" in result.output


@pytest.mark.parametrize("more", [["--folds", "1"], ["--folds", "1000"], ["--probabilities", "wrong.npy"]])
def test_an_audit_that_is_refused_leaves_no_folder(more: list[str], tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("wrong.npy", np.ones((3, 2)))
    result = CliRunner().invoke(app, ["audit", table(tmp_path), "--epochs", "1", "--out", "audit", *more])
    assert result.exit_code == 2, result.output
    assert not Path("audit").exists()


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a small run, in the working directory."""
    monkeypatch.chdir(tmp_path)
    told = ["train", "--data", table(tmp_path), "--method", "standard", "--epochs", "1", "--model", "mlp:4"]
    result = CliRunner().invoke(app, [*told, "--out", "run"])
    assert result.exit_code == 0, result.output
    return tmp_path / "run"


def not_finite(run: Path) -> None:
    saved = torch.load(run / "checkpoint.pt", weights_only=True)
    next(iter(saved["learners"][0]["model"].values())).fill_(float("nan"))
    torch.save(saved, run / "checkpoint.pt")


def forgotten(run: Path) -> None:
    saved = torch.load(run / "checkpoint.pt", weights_only=True)
    torch.save({**saved, "history": []}, run / "checkpoint.pt")


def without_metric(run: Path) -> None:
    saved = torch.load(run / "checkpoint.pt", weights_only=True)
    del saved["history"][0]["metric"]
    torch.save(saved, run / "checkpoint.pt")


def of_no_class(run: Path) -> None:
    saved = torch.load(run / "checkpoint.pt", weights_only=True)
    saved["history"][0]["scores"]["recall_x"] = 0.5
    torch.save(saved, run / "checkpoint.pt")


def too_good(run: Path) -> None:
    saved = torch.load(run / "checkpoint.pt", weights_only=True)
    saved["history"][0]["score"] = 1e308
    torch.save(saved, run / "checkpoint.pt")


def deep(run: Path) -> None:
    (run / "run.toml").write_text("a = " + "[" * 5000 + "]" * 5000)


def nothing(_: Path) -> None:
    pass


def endless_ledger(run: Path) -> None:
    part = next((run / "ledger").iterdir())
    part.unlink()
    os.mkfifo(part)


def texts_in_ledger(run: Path) -> None:
    part = next((run / "ledger").iterdir())
    table = pq.read_table(part)
    place = table.column_names.index("weight")
    pq.write_table(table.set_column(place, "weight", pa.array(["a"] * len(table))), part)


def other_changes(run: Path) -> None:
    result = CliRunner().invoke(app, ["audit", "rows.csv:label", "--epochs", "1", "--model", "mlp:4", "--out", "audit"])
    assert result.exit_code == 0, result.output
    result = CliRunner().invoke(app, ["correct", "audit", "--count", "2", "--out", "copy"])
    assert result.exit_code == 0, result.output
    (run.parent / "copy" / "changes.csv").write_text("junk\n")


PREDICT = ["predict", "run", "rows.csv", "--out"]
FOLDERS: dict[str, tuple[Callable[[Path], None], list[str], str]] = {
    "parameters that are not finite": (not_finite, [*PREDICT, "said.csv"], "not finite"),
    "no epoch in a finished run": (forgotten, [*PREDICT, "said.csv"], "without an epoch"),
    "an epoch without a metric": (without_metric, [*PREDICT, "said.csv"], "lacks 'metric'"),
    "the recall of no class": (of_no_class, [*PREDICT, "said.csv"], "that of no class"),
    "an accuracy of 1e308": (too_good, [*PREDICT, "said.csv"], "has the accuracy 1e+308"),
    "settings nested too deep": (deep, ["train", "--from", "run/run.toml", "--out", "new"], "is no TOML"),
    "a ledger that is a pipe": (endless_ledger, ["report", "run", "--out", "page.html"], "pipe or a device"),
    "texts as weights in a ledger": (texts_in_ledger, ["report", "run", "--out", "page.html"], "column weight holds"),
    "a report in place of the data": (nothing, ["report", "run", "--out", "rows.csv"], "ends in .html"),
    "a list of changes that is none": (other_changes, ["correct", "copy", "--undo"], "is damaged"),
    "predictions in place of the data": (nothing, [*PREDICT, "rows.csv"], "would be replaced"),
}


@pytest.mark.parametrize(("tamper", "command", "words"), FOLDERS.values(), ids=FOLDERS)
def test_a_tampered_folder_is_refused(
    tamper: Callable[[Path], None], command: list[str], words: str, run: Path, tmp_path: Path
) -> None:
    tamper(run)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 2, result.output
    assert words in " ".join(result.output.split())
    assert {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before


def test_texts_in_lines_and_tables_steer_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    from rich.table import Table

    from thresher.app.terminal import plain_console

    hostile = "a\x1b[31m\x9b0m\udcff[/b]"
    table = Table("name")
    table.add_row(hostile)
    plain_console().print(f"{hostile}\nnext", soft_wrap=True)
    plain_console().print(table)
    said = capsys.readouterr().out
    assert said.count(r"a\x1b[31m\x9b0m\udcff[/b]") == 2
    assert "\nnext" in said


def test_a_scan_lists_names_that_are_not_utf_8(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in (b"a", b"b"):
        os.makedirs(os.path.join(b"images", name))
        Path(os.fsdecode(os.path.join(b"images", name, b"\xff.png"))).write_bytes(b"no image")
    code, said, raised = run_command(["scan", "images"])
    assert raised is None, said
    assert "\\udcff.png" in said, code
