"""thresher review and thresher label: people are asked about labels, and their answers become corrections."""

import csv
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from audited import COUNT, given, photos, rows, write_issues
from typer.testing import CliRunner, Result

from thresher import fit
from thresher.__main__ import app
from thresher.record.issues import Issues

LABELS = [given(id_) for id_ in range(COUNT)]
RUN = Path("run")


def told(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "200"})


def done(*words: object) -> Any:
    result = told(*words, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def tasks(found: dict[str, Any]) -> list[dict[str, Any]]:
    return [task["data"] for task in json.loads((Path(found["out"]) / "tasks.json").read_text())]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def files() -> list[str]:
    found = photos(Path("photos"))
    write_issues(RUN, "photos", {"file": found}, LABELS)
    return found


def test_images_are_asked_about_with_their_files_and_both_labels(files: list[str]) -> None:
    found = done("review", RUN, "--count", 4)
    assert found["ids"] == [0, 3, 13, 1]
    shown = tasks(found)
    assert all(each["image"].startswith("data:image/png;base64,") for each in shown)
    assert [each["question"] for each in shown] == [
        f"labelled cat, looks like dog (90%): {files[0]}",
        f"labelled cat, looks like dog (90%): {files[3]}",
        f"labelled dog, looks like cat (90%): {files[13]}",
        f"labelled cat (low trust): {files[1]}",
    ]
    folder = Path(found["out"])
    interface = ElementTree.fromstring((folder / "interface.xml").read_text())
    assert [each.tag for each in interface] == ["Header", "Image", "Choices"]
    assert interface.find("Header").get("value") == "$question"
    with open(folder / "answers.csv", newline="") as file:
        sheet = list(csv.DictReader(file))
    assert [(row["id"], row["label"]) for row in sheet] == [("0", ""), ("3", ""), ("13", ""), ("1", "")]
    assert files[13] in sheet[2]["question"]
    assert "looks like dog" in (folder / "preview.html").read_text()


def test_rows_are_shown_as_text_without_their_label() -> None:
    pd.DataFrame(rows(LABELS)).to_csv("rows.csv", index=False)
    write_issues(RUN, "rows.csv:kind", {"row": range(COUNT)}, LABELS)
    first = tasks(done("review", RUN, "--count", 2))[1]
    assert first["row"] == {"length": str(rows(LABELS)["length"][3]), "note": ""}
    assert first["question"] == "labelled cat, looks like dog (90%): row 3"


@pytest.mark.parametrize("shape", [(6,), (4, 4), (4, 4, 3)])
def test_arrays_are_pictures_or_numbers(shape: tuple[int, ...]) -> None:
    images = np.random.default_rng(0).integers(0, 255, (COUNT, *shape), dtype=np.uint8)
    if len(shape) == 1:
        images = images.astype(np.float32)
    np.savez("set.npz", train_images=images, train_targets=np.arange(COUNT) >= COUNT // 2)
    write_issues(RUN, "set.npz", {"row": range(COUNT)}, ["0"] * (COUNT // 2) + ["1"] * (COUNT // 2))
    seen = tasks(done("review", RUN, "--count", COUNT))
    if len(shape) == 1:
        assert seen[0]["row"] == {f"x{at}": value for at, value in enumerate(images[0].tolist())}
    else:
        assert all(each["image"].startswith("data:image/png") for each in seen)
        assert len({each["image"] for each in seen}) == COUNT


def test_a_run_from_python_shows_what_it_has_kept() -> None:
    inputs = np.random.default_rng(0).normal(size=(COUNT, 3))
    fit("standard", "mlp:4", (inputs, LABELS), epochs=1, device="cpu", out=RUN)
    write_issues(RUN, None, {}, LABELS)
    seen = tasks(done("review", RUN, "--count", 1))[0]
    np.testing.assert_allclose(list(seen["row"].values()), inputs[0], rtol=1e-6)
    assert seen["question"].endswith(": row 0")


def test_answers_are_kept_and_not_asked_again(files: list[str]) -> None:  # noqa: ARG001
    first = done("review", RUN, "--count", 2)
    (Path(first["out"]) / "answers.csv").write_text("id,question,label\n0,?,dog\n3,?,cat\n")
    answers = Path(first["out"]) / "answers.csv"
    assert done("label", RUN, answers) == {"new": 2, "answered": 2, "changed": 1}
    assert done("label", RUN, answers) == {"new": 0, "answered": 2, "changed": 1}
    second = done("review", RUN, "--count", 2)
    assert second["ids"] == [13, 1]
    assert second["out"] != first["out"]
    exported = [
        {"data": task, "annotations": [{"result": [{"type": "choices", "value": {"choices": ["cat"]}}]}]}
        for task in tasks(second)
    ]
    Path("export.json").write_text(json.dumps(exported))
    assert done("label", RUN, "export.json") == {"new": 2, "answered": 4, "changed": 2}
    Path("late.csv").write_text("id,label\n0,cat\n")
    assert "give --replace" in told("label", RUN, "late.csv").output
    assert done("label", RUN, "late.csv", "--replace")["changed"] == 1
    said = told("label", RUN, "late.csv").stdout
    assert "thresher correct run --out DEST" in said


WRONG_ANSWERS = {
    "id,label\n99,cat\n": "answers id 99, not in the audit of this run",
    "id,label\n0,cta\n": "did you mean 'cat'",
    "number\n0\n": "no columns id and label",
}


@pytest.mark.parametrize("text", WRONG_ANSWERS)
def test_wrong_answers_are_refused_and_nothing_is_kept(text: str, files: list[str]) -> None:  # noqa: ARG001
    Path("a.csv").write_text(text)
    result = told("label", RUN, "a.csv")
    assert result.exit_code == 2
    assert WRONG_ANSWERS[text] in result.output
    assert len(result.output.splitlines()) == 1
    assert not (RUN / "answers.csv").exists()


def test_what_cannot_be_asked_is_refused(files: list[str]) -> None:
    for words, sentence in (
        (["review", RUN, "--count", 100], "100 of 24 open examples cannot be asked about"),
        (["review", "nothing"], "holds no audit"),
        (["label", RUN], "There are no answers to take in"),
        (["query", RUN], "ask about these with thresher review run"),
    ):
        result = told(*words)
        assert (result.exit_code, len(result.output.splitlines())) == (2, 1)
        assert sentence in result.output
    Path(files[0]).write_bytes(b"no image")
    assert "cannot be read as an image" in told("review", RUN, "--count", 2).output
    (RUN / "issues.parquet").write_bytes(b"no table")
    assert "run the audit again" in told("review", RUN).output


def test_real_targets_are_no_choice() -> None:
    columns = {"label": [1.0], "expected": [2.0], "low": [1.5], "high": [2.5], "reason": [""], "is_issue": [True]}
    RUN.mkdir()
    Issues(pa.table({"id": [0], "trust": [0.1], "weight": [0.0], **columns})).write(RUN)
    assert "Real targets cannot be asked for as a choice" in told("review", RUN, "--count", 1).output


def test_a_run_without_a_pool_says_what_to_do() -> None:
    pd.DataFrame(rows(LABELS)).to_csv("rows.csv", index=False)
    words = ["--method", "standard", "--model", "mlp:4", "--epochs", 1, "--out", RUN]
    assert told("train", "--data", "rows.csv:kind", *words).exit_code == 0
    result = told("query", RUN)
    assert result.exit_code == 2
    assert "run thresher audit and then thresher review; else train with --pool" in result.output
