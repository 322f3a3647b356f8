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


PRICES = [10.5, 20.25, 999.0, 40.0]


@pytest.fixture
def prices() -> None:
    """An audited table of real targets, of which row 2 is far from what is expected and row 0 a little."""
    pd.DataFrame({"size": [1, 2, 3, 4], "price": PRICES}).to_csv("homes.csv", index=False)
    order = [2, 0, 1, 3]
    expected = {"expected": [30.1, 10.0, 20.0, 40.0], "low": [28.0, 8.0, 18.0, 38.0], "high": [32.0, 12.0, 22.0, 42.0]}
    facts = {"trust": [0.01, 0.4, 0.9, 0.9], "weight": [0.0, 0.8, 1, 1], "is_issue": [True, False, False, False]}
    places = {"id": order, "row": order, "label": [PRICES[at] for at in order], "reason": ["disagreement", "", "", ""]}
    RUN.mkdir()
    Issues(pa.table({**places, **expected, **facts}), {"data": "homes.csv:price"}).write(RUN)


def number_export(values: dict[int, float]) -> list[dict[str, Any]]:
    """What Label Studio exports of a project with a Number."""
    return [
        {"data": {"thresher_id": id_}, "annotations": [{"result": [{"type": "number", "value": {"number": value}}]}]}
        for id_, value in values.items()
    ]


@pytest.mark.usefixtures("prices")
def test_real_targets_are_asked_for_as_numbers_and_become_corrections() -> None:
    found = done("review", RUN, "--count", 2)
    assert [each["question"] for each in tasks(found)] == [
        "given 999, expected 30.1 (28 to 32): row 2",
        "given 10.5, expected 10 (8 to 12): row 0",
    ]
    assert tasks(found)[0]["row"] == {"size": "3"}
    interface = ElementTree.fromstring((Path(found["out"]) / "interface.xml").read_text())
    assert [each.tag for each in interface] == ["Header", "Table", "Number"]
    assert float(interface.find("Number").get("step")) == 1e-4  # of intervals four wide
    Path("export.json").write_text(json.dumps(number_export({2: 31.123456789, 0: 10.5})))
    assert done("label", RUN, "export.json") == {"new": 2, "answered": 2, "changed": 1}
    assert done("review", RUN, "--count", 1)["ids"] == [1]
    done("correct", RUN, "--out", "new")
    corrected = pd.read_csv("new/homes.csv")["price_corrected"].tolist()
    assert corrected == [10.5, 20.25, 31.123456789, 40.0], "as people wrote it, and as it was where they agree"
    with open("new/changes.csv", newline="") as file:
        assert [(row["row"], row["old"], row["new"], row["why"]) for row in csv.DictReader(file)] == [
            ("2", "999", "31.123456789", "answered by people")
        ]
    assert told("correct", "--undo", "new").exit_code == 0
    assert Path("new/homes.csv").read_text() == Path("homes.csv").read_text()


@pytest.mark.usefixtures("prices")
def test_numbers_are_read_however_they_are_exported() -> None:
    Path("full.json").write_text(json.dumps(number_export({2: 31})))
    Path("min.json").write_text(json.dumps([{"thresher_id": 2, "label": [{"number": 31}]}]))
    Path("plain.json").write_text(json.dumps([{"thresher_id": 2, "label": 31}]))
    Path("sheet.csv").write_text("id,question,label\n2,?,31\n0,?,\n")
    Path("studio.csv").write_text('label,thresher_id\n"[{""number"": 31}]",2\n')
    counts = [done("label", RUN, path)["new"] for path in ("full.json", "min.json", "plain.json", "sheet.csv")]
    assert [*counts, done("label", RUN, "studio.csv")["new"]] == [1, 0, 0, 0, 0]
    votes = [{"thresher_id": 0, "label": each, "annotator": who} for who, each in (("a", 9), ("b", 11), ("c", 12.5))]
    Path("three.json").write_text(json.dumps(votes))
    result = told("label", RUN, "three.json")
    assert "Annotators disagree on id 0; the median counts." in result.stderr
    done("correct", RUN, "--out", "new")
    assert pd.read_csv("new/homes.csv")["price_corrected"].tolist()[:3] == [11, 20.25, 31]


@pytest.mark.usefixtures("prices")
@pytest.mark.parametrize("text", ["much", "3,5", "nan"])
def test_answers_that_are_no_number_are_refused(text: str) -> None:
    Path("a.csv").write_text(f'id,label\n2,"{text}"\n')
    result = told("label", RUN, "a.csv")
    assert (result.exit_code, len(result.output.splitlines())) == (2, 1)
    assert f"says '{text}' of id 2, which is no number" in result.output
    assert not (RUN / "answers.csv").exists()


def test_a_run_without_a_pool_says_what_to_do() -> None:
    pd.DataFrame(rows(LABELS)).to_csv("rows.csv", index=False)
    words = ["--method", "standard", "--model", "mlp:4", "--epochs", 1, "--out", RUN]
    assert told("train", "--data", "rows.csv:kind", *words).exit_code == 0
    result = told("query", RUN)
    assert result.exit_code == 2
    assert "run thresher audit and then thresher review; else train with --pool" in result.output
