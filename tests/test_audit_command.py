"""thresher audit: from a folder, a table or an array to a list of issues and a run."""

import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv
from typer.testing import CliRunner

from thresher import ThresherError, open_run
from thresher.__main__ import app
from thresher.app.audit_job import read_probabilities
from thresher.record.issues import Issues


def audited(*words: str | Path) -> dict[str, object]:
    result = CliRunner().invoke(app, ["audit", *map(str, words), "--json"])
    assert result.exit_code == 0, result.output
    found: dict[str, object] = json.loads(result.stdout.splitlines()[-1])
    return found


def table(path: Path, rows: int = 120) -> None:
    """A table of two classes, of which the rows 3 and 8 are labelled wrongly."""
    draws = np.random.default_rng(0)
    names = np.array(["cat", "dog"])[np.arange(rows) % 2]
    width = draws.normal(size=rows) + 6 * (np.arange(rows) % 2)
    names[[3, 8]] = ["cat", "dog"]
    csv.write_csv(pa.table({"width": width, "length": draws.normal(size=rows), "kind": names}), path)


def test_a_table_becomes_a_list_of_all_rows_and_a_run(tmp_path: Path) -> None:
    table(tmp_path / "pets.csv")
    found = audited(tmp_path / "pets.csv", "--target", "kind", "--out", tmp_path / "run", "--epochs", "5")
    assert found["examples"] == 120
    assert "of 120 labels look wrong" in str(found["headline"])
    rows = csv.read_csv(tmp_path / "run" / "issues.csv")
    assert rows.num_rows == 120
    assert set(rows["row"].to_pylist()[:2]) == {3, 8}
    assert dict(zip(rows["row"].to_pylist(), rows["suggested"].to_pylist(), strict=True))[3] == "dog"
    run = open_run(tmp_path / "run")
    assert run.issues().summary["issues"] == found["issues"]
    assert run.predict([{"width": 6.0, "length": 0.0}]).tolist() == ["dog"]
    assert (tmp_path / "run" / "report.html").exists()
    assert 'kind"' in (tmp_path / "run" / "run.toml").read_text()


def test_what_a_person_reads(tmp_path: Path) -> None:
    table(tmp_path / "pets.csv")
    words = [str(tmp_path / "pets.csv"), "--target", "kind", "--out", str(tmp_path / "run"), "--epochs", "5"]
    result = CliRunner().invoke(app, ["audit", *words, "--count", "2"])
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    shown = [line.split() for line in lines if "disagreement" in line]
    assert sorted(line[0] for line in shown) == ["3", "8"]
    assert any("issues.csv" in line for line in lines)
    again = CliRunner().invoke(app, ["audit", *words, "--count", "2"])
    assert again.stdout == result.stdout


@pytest.mark.filterwarnings("ignore:The same image both to train and to test on")
def test_images_keep_their_files_and_a_test_folder_stays_apart(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    draws = np.random.default_rng(0)
    for side, count in (("train", 15), ("test", 3)):
        for kind, shade in (("dark", 40), ("light", 200)):
            (tmp_path / "photos" / side / kind).mkdir(parents=True)
            for number in range(count):
                pixels = (shade + draws.integers(0, 30, (8, 8, 3))).astype(np.uint8)
                image.fromarray(pixels).save(tmp_path / "photos" / side / kind / f"{number}.png")
    (tmp_path / "photos/train/dark/0.png").rename(tmp_path / "photos/train/light/moved.png")
    (tmp_path / "photos/test/dark/1.png").write_bytes((tmp_path / "photos/train/dark/1.png").read_bytes())
    photos = f"{tmp_path / 'photos'}:8"
    few = ["--model", "mlp:16", "--epochs", "10", "--folds", "3", "--batch", "8", "--count", "1"]
    result = CliRunner().invoke(app, ["audit", photos, "--out", str(tmp_path / "run"), *few])
    assert result.exit_code == 0, result.output
    assert str(tmp_path / "photos/train/light/moved.png") in result.stdout, "the path is in one piece"
    assert "Groups of duplicates: 1, 1 across sets" in result.stdout
    issues = open_run(tmp_path / "run").issues()
    assert len(issues) == 30
    assert issues.column("file")[0].endswith("light/moved.png")
    assert issues.column("suggested")[0] == "dark"


def test_probabilities_come_from_a_file(tmp_path: Path) -> None:
    table(tmp_path / "pets.csv")
    np.save(tmp_path / "p.npy", 0.1 + 0.8 * np.eye(2)[np.arange(120) % 2])
    words = [tmp_path / "pets.csv", "--target", "kind", "--out", tmp_path / "run", "--epochs", "4"]
    found = audited(*words, "--probabilities", tmp_path / "p.npy")
    assert found["method"] == "neighbours, given"
    np.savez(tmp_path / "two.npz", a=np.zeros(3), b=np.zeros(3))
    with pytest.raises(ThresherError, match="holds 2 arrays"):
        read_probabilities(tmp_path / "two.npz")
    (tmp_path / "bad.npy").write_text("nothing")
    with pytest.raises(ThresherError, match="cannot be read"):
        read_probabilities(tmp_path / "bad.npy")


def test_a_column_that_names_rows_stands_beside_their_verdicts(tmp_path: Path) -> None:
    draws = np.random.default_rng(0)
    labels = np.arange(90) % 3
    rows = pa.table(
        {
            "user_id": [f"person-{at}" for at in range(90)],
            "x": draws.normal(size=90) + 6 * labels,
            "y": draws.normal(size=90),
            "kind": labels,
        }
    )
    csv.write_csv(rows, tmp_path / "t.csv")
    words = [str(tmp_path / "t.csv"), "--target", "kind", "--out", str(tmp_path / "run"), "--epochs", "2"]
    result = CliRunner().invoke(app, ["audit", *words])
    assert result.exit_code == 0, result.output
    said = "Column user_id has another value in nearly every row: it is no input, and carried along."
    assert result.stderr.index(said) < result.stderr.index("Judging by"), "told before anything is judged"
    found = Issues.read(tmp_path / "run")
    assert found.column("user_id").tolist() == [f"person-{row}" for row in found.column("row")]


def test_real_targets_are_listed_as_they_are_written(tmp_path: Path) -> None:
    size = np.arange(120.0)
    price = 10 * size + np.random.default_rng(0).normal(size=120)
    price[7] = 123456.5
    csv.write_csv(pa.table({"size": size, "price": price}), tmp_path / "homes.csv")
    words = [str(tmp_path / "homes.csv"), "--target", "price", "--out", str(tmp_path / "run"), "--epochs", "1"]
    result = CliRunner().invoke(app, ["audit", *words, "--count", "1"])
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    head = next(at for at, line in enumerate(lines) if line.startswith("row"))
    assert lines[head].split() == ["row", "label", "expected", "low", "high", "trust", "reason"]
    assert lines[head + 1].split()[:2] == ["7", "123456.5"]
    assert " of 120 targets " in result.stdout
    assert any(re.search(r"All 120, the worst first, \d+ of them marked as issues: ", line) for line in lines)
    assert result.stderr.index("auto chose") < result.stderr.index("epoch 1/1"), "told before it is trained"
