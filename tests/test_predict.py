"""thresher predict, and names with square brackets and colons through every command."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from PIL import Image
from typer.testing import CliRunner, Result

from thresher import fit, open_run
from thresher.__main__ import app

ODD = ["[/b]", "[red]", ":label:"]
DRAWS = np.random.default_rng(0)


def told(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "200"})


def done(*words: object) -> Result:
    result = told(*words)
    assert result.exit_code == 0, result.output
    return result


def table(path: Path, target: str, known: int = 90) -> pd.DataFrame:
    """Three kinds by odd names, and a real target; the kinds of the first rows only are known."""
    kinds = np.arange(90) % 3
    rows = pd.DataFrame({"length": kinds + DRAWS.normal(0, 0.2, 90), "home": np.array(["", "wet"])[kinds // 2]})
    rows[target] = np.array(ODD)[kinds] if target == "kind" else 500 + 40 * rows["length"]
    if known < len(rows):
        rows.loc[known:, target] = ""
    rows.to_csv(path, index=False)
    return rows


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs on a table of classes, a table with real targets, image files and arrays."""
    folder = tmp_path_factory.mktemp("runs")
    table(folder / "kinds.csv", "kind")
    table(folder / "prices.csv", "price")
    for name, at in (("red [b]", 0), ("blue :label:", 2)):
        (folder / "photos" / name).mkdir(parents=True)
        for number in range(10):
            pixels = DRAWS.integers(0, 60, (12, 12, 3), dtype=np.uint8)
            pixels[..., at] += 150
            Image.fromarray(pixels).save(folder / "photos" / name / f"{number}.png")
    short = ("--method", "standard", "--model", "mlp:16", "--device", "cpu", "--learning-rate", 0.01)
    done("train", "--data", f"{folder}/kinds.csv:kind", *short, "--epochs", 60, "--out", folder / "kinds")
    done("train", "--data", f"{folder}/prices.csv:price", *short, "--epochs", 20, "--out", folder / "prices")
    done("train", "--data", folder / "photos", *short, "--epochs", 20, "--out", folder / "images")
    pixels = DRAWS.normal(size=(40, 1, 4, 4)).astype(np.float32)
    np.save(folder / "arrays.npy", pixels)
    np.savez(folder / "inputs.npz", inputs=pixels, labels=np.arange(40))
    np.savez(folder / "single.npz", whatever=pixels)
    np.savez(folder / "several.npz", one=pixels, two=pixels)
    fit("standard", "mlp:8", (pixels, np.arange(40) % 2), epochs=1, device="cpu", out=folder / "arrays")
    return folder


def predicted(run: Path, data: Path, out: Path) -> pd.DataFrame:
    said = done("predict", run, data, "--out", out).output
    assert str(out) in said.replace("\n", "")
    return pq.read_table(out).to_pandas() if out.suffix == ".parquet" else pd.read_csv(out)


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_rows_of_a_table_get_class_and_probability(place: Path, tmp_path: Path, ending: str) -> None:
    found = predicted(place / "kinds", place / "kinds.csv", tmp_path / f"found{ending}")
    run = open_run(place / "kinds")
    assert found["class"].tolist() == run.predict(place / "kinds.csv").tolist()
    assert set(found["class"]) == set(ODD)
    np.testing.assert_allclose(found["probability"], run.predict_proba(place / "kinds.csv").max(1), rtol=1e-6)
    assert found["row"].tolist() == list(range(90))
    assert [each.name for each in tmp_path.iterdir()] == [f"found{ending}"]


def test_real_targets_come_in_their_own_unit(place: Path, tmp_path: Path) -> None:
    found = predicted(place / "prices", place / "prices.csv", tmp_path / "found.csv")
    true = pd.read_csv(place / "prices.csv")["price"]
    assert found["prediction_0"].tolist() == pytest.approx(
        open_run(place / "prices").predict(place / "prices.csv")[:, 0]
    )
    assert 450 < found["prediction_0"].mean() < 650
    assert np.corrcoef(found["prediction_0"], true)[0, 1] > 0.8


def test_a_folder_of_images_and_a_single_one(place: Path, tmp_path: Path) -> None:
    found = predicted(place / "images", place / "photos", tmp_path / "found.csv")
    assert len(found) == 20
    assert all(Path(file).is_file() for file in found["file"])
    assert [Path(file).parent.name for file in found["file"]] == found["class"].tolist()
    single = place / "photos" / "red [b]" / "0.png"
    alone = predicted(place / "images", single, tmp_path / "alone.csv")
    assert alone["file"].tolist() == [str(single)]
    assert alone["class"].tolist() == ["red [b]"]


@pytest.mark.parametrize("file", ["arrays.npy", "inputs.npz", "single.npz"])
def test_arrays(place: Path, tmp_path: Path, file: str) -> None:
    found = predicted(place / "arrays", place / file, tmp_path / "found.csv")
    run = open_run(place / "arrays")
    assert found["class"].tolist() == run.predict(np.load(place / "arrays.npy")).tolist()


def test_labels_come_back_as_they_were_given(place: Path, tmp_path: Path) -> None:
    lengths, labels = np.arange(60)[:, None] % 3 + 0.0, np.arange(60) % 3 + 3
    for given in (labels, labels == 4, np.array(["a", "b", "c"])[labels - 3]):
        rows = pd.DataFrame({"length": lengths[:, 0], "kind": given})
        out = tmp_path / str(given.dtype)
        short = {"epochs": 30, "learning_rate": 0.05, "device": "cpu"}
        for run in (
            fit("standard", "mlp:8", (lengths, given), **short),
            fit("standard", "mlp:8", rows, target="kind", **short, out=out),
        ):
            assert run.predict(rows if run.out else lengths).dtype.kind == given.dtype.kind
            assert (run.predict(rows if run.out else lengths) == given).all()
        rows.to_csv(tmp_path / "rows.csv", index=False)
        found = predicted(out, tmp_path / "rows.csv", tmp_path / "found.parquet")
        assert (found["class"] == given).all()
    assert predicted(place / "arrays", place / "arrays.npy", tmp_path / "f.parquet")["class"].dtype == np.int64


def test_all_classes_have_their_probabilities(place: Path, tmp_path: Path) -> None:
    done("predict", place / "kinds", place / "kinds.csv", "--all-classes", "--out", tmp_path / "found.csv")
    run, found = open_run(place / "kinds"), pd.read_csv(tmp_path / "found.csv")
    columns = [f"probability_{name}" for name in run.class_names or ()]
    np.testing.assert_allclose(found[columns], run.predict_proba(place / "kinds.csv"), rtol=1e-5, atol=1e-7)
    refused = told("predict", place / "prices", place / "prices.csv", "--all-classes")
    assert refused.exit_code == 2
    assert refused.output.endswith("leave out --all-classes.\n")


def test_without_a_file_the_lines_are_printed(place: Path) -> None:
    said = done("predict", place / "kinds", place / "kinds.csv").stdout
    found = pd.read_csv(io.StringIO(said))
    assert found["class"].tolist() == open_run(place / "kinds").predict(place / "kinds.csv").tolist()


def short_of_a_column(place: Path, path: Path) -> None:
    pd.read_csv(place / "kinds.csv").drop(columns="length").to_csv(path, index=False)


WRONG: dict[str, tuple[str, Any, str]] = {
    "a missing column": ("kinds", "short.csv", "no column 'length' in short.csv"),
    "a missing file": ("kinds", "nothing.csv", "There is no file or folder"),
    "text among numbers": ("kinds", "texts.csv", "correct it"),
    "no rows": ("kinds", "empty.csv", "no rows in empty.csv"),
    "not a table": ("kinds", "kinds.txt", "give a table"),
    "an array for a table": ("kinds", "arrays.npy", "is no table: give a table"),
    "another shape": ("arrays", "wide.npy", "trained on [n, 1, 4, 4]: reshape"),
    "a table for arrays": ("arrays", "kinds.csv", "give an .npy, .npz or .parquet file"),
    "several arrays": ("arrays", "several.npz", "name the one to predict 'inputs'"),
    "not an array": ("arrays", "broken.npy", "cannot be read"),
    "an array that holds code": ("arrays", "objects.npy", "cannot be read"),
    "a table for images": ("images", "kinds.csv", "cannot be read as an image"),
    "a folder without images": ("images", "hollow", "has no images"),
    "a broken image": ("images", "broken.png", "cannot be read as an image"),
    "a folder for rows": ("kinds", "photos", "is no table: give a table"),
    "no run": ("photos", "kinds.csv", "holds no run"),
}


@pytest.mark.parametrize("case", WRONG)
@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_wrong_data_are_one_sentence_and_leave_nothing(place: Path, tmp_path: Path, case: str, ending: str) -> None:
    run, data, sentence = WRONG[case]
    short_of_a_column(place, tmp_path / "short.csv")
    (tmp_path / "texts.csv").write_text("length,home\nlong,wet\n")
    (tmp_path / "empty.csv").write_text("length,home\n")
    (tmp_path / "kinds.txt").write_text("length home\n1 wet\n")
    np.save(tmp_path / "wide.npy", np.zeros((3, 1, 5, 5), dtype=np.float32))
    np.save(tmp_path / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    (tmp_path / "broken.npy").write_bytes(b"no array")
    (tmp_path / "broken.png").write_bytes(b"no image")
    (tmp_path / "hollow").mkdir()
    given = tmp_path / data if (tmp_path / data).exists() else place / data
    out = tmp_path / "new" / f"found{ending}"
    result = told("predict", place / run, given, "--out", out)
    assert result.exit_code == 2, result.output
    assert sentence in result.output
    assert len(result.output.strip().splitlines()) == 1
    assert not out.parent.exists()


def test_another_suffix_for_the_result_is_refused(place: Path, tmp_path: Path) -> None:
    result = told("predict", place / "kinds", place / "kinds.csv", "--out", tmp_path / "[red].xlsx")
    assert result.exit_code == 2
    assert result.output == f"{tmp_path}/[red].xlsx is neither .csv nor .parquet: choose one of them.\n"
    assert "[red].xlsx" in result.output
    assert list(tmp_path.iterdir()) == []


def test_odd_names_go_through_every_command_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    known = table(Path("[red] kinds.csv"), "kind")["kind"].tolist()
    table(Path("[red] kinds.csv"), "kind", known=45)
    out = Path("runs [/b]") / ":label:"
    train = ["train", "--data", "[red] kinds.csv:kind", "--pool", "--method", "standard", "--model", "mlp:8"]
    said = done(*train, "--epochs", 1, "--out", out).output
    assert f"Report: {out}/report.html" in said
    assert "standard on [red] kinds.csv:kind" in said
    assert "standard  epoch 1/1" in said
    asked = done("query", out, "--count", 6, "--by", "margin").output
    assert str(out / "queries" / "0-margin-6") in asked
    assert f"thresher label {out} ANSWERS" in asked
    ids = pd.read_csv(out / "queries" / "0-margin-6" / "answers.csv")["id"]
    Path("[red].csv").write_text("id,label\n" + "".join(f"{id_},{known[id_]}\n" for id_ in ids))
    assert str(out / "loop.html") in done("label", out, "[red].csv").output
    found = done("predict", out, "[red] kinds.csv").stdout
    assert set(pd.read_csv(io.StringIO(found))["class"]) <= set(ODD)
    done("predict", out, "[red] kinds.csv", "--out", "[/b].csv")
    wrong = told("label", out, "[/b] :label:.csv")
    assert wrong.exit_code == 2
    assert "[/b] :label:.csv" in wrong.output


@pytest.mark.parametrize("worst", ODD)
def test_the_worst_class_is_named_as_it_is(tmp_path: Path, worst: str) -> None:
    """Its recall is shown in a table that is printed."""
    kinds = np.where(np.arange(200) % 20 == 0, worst, f"{worst} too")
    pd.DataFrame({"noise": DRAWS.normal(size=200), "kind": kinds}).to_csv(tmp_path / "rows.csv", index=False)
    said = done(
        "train", "--data", f"{tmp_path}/rows.csv:kind", "--method", "standard", "--model", "mlp:4", "--epochs", 1,
        "--out", tmp_path / worst.strip("/"),
    )  # fmt: skip
    assert f"recall of the worst class ({worst}" in said.output


@pytest.mark.parametrize("name", ODD)
def test_unknown_names_are_told_as_they_are(tmp_path: Path, name: str) -> None:
    for words in (
        ["methods", "--kind", name],
        ["train", "--data", "digits", "--method", name, "--out", tmp_path / "a"],
    ):
        result = told(*words)
        assert result.exit_code == 2
        assert f"'{name}'" in result.output


def test_a_pool_is_trained_in_batches_that_history_and_the_printed_speed_use(tmp_path: Path) -> None:
    table(tmp_path / "rows.csv", "kind", known=45)  # of which a fifth is held out
    said = done(
        "train", "--data", f"{tmp_path}/rows.csv:kind", "--pool", "--method", "standard", "--model", "mlp:4",
        "--epochs", 2, "--batch", 64, "--out", tmp_path / "run", "--json",
    )  # fmt: skip
    found = json.loads(said.stdout.splitlines()[-1])
    history = [json.loads(line) for line in (tmp_path / "run" / "history.jsonl").read_text().splitlines()]
    assert {record["batch"] for record in history} == {12}
    assert {record["steps"] for record in history} == {3}
    trained = sum(record["steps"] * record["batch"] for record in history)
    assert found["examples_per_second"] == pytest.approx(trained / sum(record["seconds"] for record in history))
