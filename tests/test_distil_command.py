"""thresher distil: what it writes and refuses, from which data and teachers, and that it goes on where it stopped."""

import json
import os
import signal
from collections.abc import Generator
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from faults import started
from PIL import Image
from test_predictions import write
from tiny import assert_same_tensors
from torch import Tensor
from typer.testing import CliRunner

from thresher.__main__ import app
from thresher.app.commands import options
from thresher.app.distil_settings import OPTIONS, UNUSED, DistilSettings
from thresher.app.settings import Settings, options_of
from thresher.data import load
from thresher.engine.loop.training import Training
from thresher.record.run_folder import PREVIEWS

WORDS = [
    "distil",
    "--data",
    "blobs:200,3,4",
    "--labelled",
    "30",
    "--validation",
    "40",
    "--model",
    "mlp:8",
    "--batch",
    "16",
]
WORDS += ["--weights", "unweighted,debias", "--epochs", "3", "--confidence", "entropy", "--every-epoch"]


def thresher(*words: object) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "120"})


def parameters(folder: Path) -> list[Tensor]:
    return list(torch.load(folder / "checkpoint.pt", weights_only=True)["learners"][0]["model"].values())


def test_the_command_writes_runs_and_a_report_and_goes_on(tmp_path: Path) -> None:
    out = tmp_path / "a"
    result = thresher(*WORDS, "--out", out, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout.splitlines()[-1])
    assert (found["labelled"], found["validation"], found["unlabelled"]) == (30, 40, 130)
    assert [each["method"] for each in found["students"]] == ["unweighted", "debias"]
    assert 0 <= found["teacher_wrong"] <= 1
    assert {path.name for path in out.iterdir()} == {"run.toml", "stages", "unweighted", "debias", "report.html"}
    assert "debias  epoch 3/3" in result.stderr
    page = (out / "report.html").read_text()
    for title in ("Students beside their teacher", "Teacher against its confidence", "Weight against both confidences"):
        assert page.count(f">{title}<") == 1
    again = thresher(*WORDS, "--out", out, "--json")
    assert json.loads(again.stdout.splitlines()[-1]) == found
    other = thresher(*WORDS, "--out", out, "--temperature", 2)
    assert other.exit_code == 2
    assert "its temperature is 1.0, not 2.0" in other.stderr
    repeated = thresher("distil", "--from", out / "run.toml", "--out", tmp_path / "b")
    assert repeated.exit_code == 0, repeated.output
    assert "The teacher has an accuracy of" in repeated.stdout
    assert_same_tensors(parameters(out / "debias"), parameters(tmp_path / "b" / "debias"))


def test_a_student_s_method_may_ask_for_clean_examples(tmp_path: Path) -> None:
    result = thresher(*WORDS, "--method", "l2rw", "--out", tmp_path / "run", "--json")
    assert result.exit_code == 0, result.output
    students = json.loads(result.stdout.splitlines()[-1])["students"]
    assert [student["method"] for student in students] == ["l2rw, unweighted", "l2rw, debias"]


def test_a_killed_command_ends_as_one_that_was_not(tmp_path: Path) -> None:
    words = [*WORDS, "--commit-every", "0", "--epochs", "10"]
    run_epoch = Training.run_epoch

    def epoch(self: Training) -> Generator[Any, None, None]:
        steps = run_epoch(self)
        if (tmp_path / "a" / "debias" / "checkpoint.pt").exists():  # the last of four trainings has saved an epoch
            yield next(steps)
            signal.raise_signal(signal.SIGKILL)
        yield from steps

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Training, "run_epoch", epoch)
        killed = started([*words, "--out", str(tmp_path / "a")])
    assert os.waitstatus_to_exitcode(os.waitpid(killed, 0)[1]) == -signal.SIGKILL
    assert thresher(*words, "--out", tmp_path / "a").exit_code == 0
    assert thresher(*words, "--out", tmp_path / "b").exit_code == 0
    for name in ("stages/teacher", "stages/pretraining", "unweighted", "debias"):
        assert_same_tensors(parameters(tmp_path / "a" / name), parameters(tmp_path / "b" / name))


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["--labelled", "190"], "leave some over"),
        (["--weights", "magic"], "no weighting 'magic'"),
        (["--confidence", "magic"], "no confidence 'magic'"),
        (["--teacher", "missing.parquet"], "no file missing.parquet"),
        (["--data", "regression"], "classification only"),
        (["--labelled", "none"], "Invalid value"),
        (["--pool"], "in one way: --labelled 500"),
        (["--match", "body"], "write student=teacher"),
        (["--match", "body=body,body=head"], "names a layer of the student twice"),
        (["--match", "=body"], "write student=teacher"),
        (["--epochs", "0"], "epochs=0 trains nothing"),
        (["--pretraining-epochs", "0"], "pretraining_epochs=0 trains nothing"),
        (["--validation", "nan"], "--validation nan is no share and no count"),
        (["--validation", "inf"], "--validation inf is no share and no count"),
        (["--validation", "1.5"], "--validation 1.5 is no share and no count"),
        (["--validation", "-3"], "--validation -3 is no share and no count"),
        (["--temperature", "inf"], "give a number above 0"),
        (["--method", "prl-l", "--epochs", "1"], "The noise rate is found in"),
        (["--match", "neck=body"], "no layer 'neck' in MLP: choose one of body"),
    ],
)
def test_the_command_refuses_at_once(words: list[str], what: str) -> None:
    refused = thresher(*WORDS, *words)
    assert refused.exit_code != 0
    assert what in " ".join(refused.stderr.split())


def test_unlabelled_data_of_its_own_and_a_table(tmp_path: Path) -> None:
    words = ["distil", "--data", "blobs:100,3,4", "--unlabelled", "blobs:80,3,4", "--model", "mlp:8", "--batch", "16"]
    found = thresher(*words, "--epochs", "2", "--out", tmp_path / "a", "--json")
    assert found.exit_code == 0, found.output
    told = json.loads(found.stdout.splitlines()[-1])
    assert (told["labelled"], told["unlabelled"], told["validation"], told["teacher_wrong"]) == (90, 80, 10, None)
    ids = torch.arange(200)
    table = write(tmp_path / "teacher.npz", ids, torch.eye(3)[ids % 3] * 0.7 + 0.1)
    by_table = thresher(*WORDS, "--teacher", table, "--out", tmp_path / "b", "--json")
    assert by_table.exit_code == 0, by_table.output
    assert json.loads(by_table.stdout.splitlines()[-1])["teacher"] is None


def found(*words: object) -> dict[str, Any]:
    """What a command prints at its end."""
    result = thresher(*words, "--json")
    assert result.exit_code == 0, result.output
    told: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    return told


@pytest.fixture
def no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever only looks at numbers need not wait for charts."""

    def blank(folders: list[Path], page: Path) -> Path:  # noqa: ARG001
        page.write_text("")
        return page

    monkeypatch.setattr("thresher.report.write_report", blank)


SHORT = ["--model", "mlp:8", "--batch", "8", "--epochs", "2"]


@pytest.mark.usefixtures("no_report")
def test_rows_without_a_label_are_the_unlabelled_ones(tmp_path: Path) -> None:
    draws = torch.Generator().manual_seed(0)
    features, kinds = torch.randn(200, 2, generator=draws), ["ant", "bee"]
    lines = [
        f"{x:.3f},{y:.3f},{kinds[int(x > 0)] if place % 3 else ''}" for place, (x, y) in enumerate(features.tolist())
    ]
    table = tmp_path / "bugs.csv"
    table.write_text("\n".join(["x,y,kind", *lines]))
    words = ["distil", "--data", f"{table}:kind", "--pool", "--validation", "20", *SHORT]
    told = found(*words, "--out", tmp_path / "a")
    assert (told["unlabelled"], told["labelled"], told["teacher_wrong"]) == (67, 87, None)
    with np.load(tmp_path / "a" / "debias" / PREVIEWS) as stored:
        least = dict(stored)
    for id_, row in zip(least["ids"].tolist(), map(json.loads, least["row"]), strict=True):
        assert row == dict(zip("xy", map(float, lines[id_].split(",")[:2]), strict=True)), "as the table has it"
    said = tmp_path / "teacher.csv"  # the columns are not in the order of the classes
    said.write_text(
        "\n".join(
            [
                "id,bee,ant",
                *(f"{i},{0.9 if x > 0 else 0.1},{0.1 if x > 0 else 0.9}" for i, (x, _) in enumerate(features.tolist())),
            ]
        )
    )
    by_table = found(*words, "--teacher", said, "--epochs", "20", "--out", tmp_path / "b")
    assert by_table["students"][0]["last"] > 0.9


@pytest.mark.usefixtures("no_report")
def test_unlabelled_examples_from_elsewhere_are_no_rows_of_the_table(tmp_path: Path) -> None:
    lines = [f"{place},{-place},{'ant' if place % 2 else 'bee'}" for place in range(150)]
    (tmp_path / "bugs.csv").write_text("\n".join(["x,y,kind", *lines]))
    np.savez(
        tmp_path / "more.npz",
        train_images=np.random.default_rng(0).normal(size=(90, 2)).astype(np.float32),
        train_targets=np.arange(90) % 2,
        test_images=np.zeros((4, 2), np.float32),
        test_targets=np.arange(4) % 2,
    )
    words = ["distil", "--data", f"{tmp_path / 'bugs.csv'}:kind", "--unlabelled", tmp_path / "more.npz", *SHORT]
    found(*words, "--out", tmp_path / "a")
    with np.load(tmp_path / "a" / "debias" / PREVIEWS) as stored:
        least = dict(stored)
    own = load(f"{tmp_path / 'bugs.csv'}:kind").train.ids.tolist()
    rows = {id_: json.loads(row) for id_, row in zip(least["ids"].tolist(), least["row"], strict=True)}
    assert any(id_ in own for id_ in rows)
    assert any(id_ not in own for id_ in rows)
    for id_, row in rows.items():
        expected = {"x": id_, "y": -id_} if id_ in own else {"x": None, "y": None}
        assert row == expected


@pytest.mark.usefixtures("no_report")
def test_a_folder_of_images_and_a_table_by_their_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    draws, lines = torch.Generator().manual_seed(0), ["file,dark,light,trained_on"]
    for place in range(90):
        light = place % 2
        kind = ("dark", "light")[light] if place < 60 else "unlabelled"
        file = Path("photos") / kind / f"{place}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        noise = torch.randint(0, 100, (8, 8, 3), generator=draws, dtype=torch.uint8)
        Image.fromarray((noise + 120 * light).numpy()).save(file)
        lines.append(
            f"{kind}/{place}.png,{0.1 if light else 0.9},{0.9 if light else 0.1},{str(10 < place < 30).lower()}"
        )
    Path("teacher.csv").write_text("\n".join(lines))
    words = ["distil", "--data", "photos:8", *SHORT, "--pool", "--validation", "25", "--teacher", "teacher.csv"]
    told = found(*words, "--out", "a", "--weights", "debias,fidelity")
    assert (told["labelled"], told["unlabelled"], told["validation"], told["teacher"]) == (23, 30, 25, None)
    refused = thresher(*words, "--validation", "35", "--out", "b")
    assert "has learnt from all but 32 examples: lower --validation" in refused.stderr
    Path("photos/unlabelled").rename("more")
    for name, out in (("more", "c"), ("more:8", "d")):
        more = found("distil", "--data", "photos:8", *SHORT, "--unlabelled", name, "--out", out)
        assert (more["unlabelled"], more["teacher_wrong"]) == (30, None)
    other = thresher("distil", "--data", "photos:8", *SHORT, "--unlabelled", "more:16", "--out", "e")
    assert "leave out ':16'" in other.stderr


@pytest.mark.usefixtures("no_report")
def test_layers_are_matched_and_weights_apply(tmp_path: Path) -> None:
    words = [*WORDS, "--teacher", "mlp:12x12", "--match", "body=body,head=head"]
    told = found(*words, "--out", tmp_path / "a")
    assert [each["method"] for each in told["students"]] == ["VID, unweighted", "VID, debias"]
    again, plain = found(*words, "--out", tmp_path / "b"), found(*words[:-2], "--out", tmp_path / "c")
    assert [each["last"] for each in again["students"]] == [each["last"] for each in told["students"]]
    assert_same_tensors(*(parameters(tmp_path / name / "debias") for name in "ab"))
    assert not torch.equal(*(parameters(tmp_path / name / "debias")[0] for name in "ac"))
    assert len(plain["students"]) == 2


@pytest.mark.usefixtures("no_report")
def test_without_out_a_stopped_run_is_taken_up_and_another_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    first = found(*WORDS)
    assert first["out"] == "runs/blobs-200-3-4-standard-seed0-distil"
    assert found(*WORDS)["out"].endswith("distil-2")
    (tmp_path / first["out"] / "report.html").unlink()
    assert found(*WORDS, "--temperature", "2")["out"].endswith("distil-3")
    assert found(*WORDS)["out"] == first["out"]


def test_settings_of_a_training_that_mean_nothing_here_are_refused(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text('method = "standard"\ndata = "digits"\ncorruption = "symmetric:0.4"\n')
    refused = thresher("distil", "--from", tmp_path / "run.toml", "--labelled", "50")
    assert "takes no corruption" in refused.stderr


def test_every_setting_has_an_option() -> None:
    assert options.SETTINGS.keys() == {field.name for field in options_of(Settings)}
    assert {*OPTIONS, *UNUSED} == {field.name for field in options_of(DistilSettings)}
    hidden = {field.name for field in fields(Settings)} - options.SETTINGS.keys()
    assert hidden == {"average", "captured", "channels_last", "commit_every", "keep", "objective"}, (
        "which Python alone sets"
    )
