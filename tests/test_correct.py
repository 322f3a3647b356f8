"""thresher correct: what a corrected copy holds, what it leaves alone, and the way back."""

import csv
import gzip
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from audited import COUNT, WRONG, checksums, contents, given, photos, rows, write_issues
from typer.testing import CliRunner, Result

from thresher import ThresherError, fit
from thresher.__main__ import app
from thresher.data import load
from thresher.data.arrays import read_arrays
from thresher.data.clean import load_test
from thresher.data.loading import load_whole
from thresher.record.issues import Issues

LABELS = [given(id_) for id_ in range(COUNT)]
TRUE = [WRONG.get(id_, label) for id_, label in enumerate(LABELS)]
RUN = Path("run")


def told(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "200"})


def done(*words: object) -> Any:
    result = told("correct", RUN, *words, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def undone(folder: str = "new") -> str:
    result = told("correct", "--undo", folder)
    assert result.exit_code == 0, result.output
    return result.stdout


def changes(folder: str = "new") -> list[dict[str, str]]:
    with open(Path(folder) / "changes.csv", newline="") as file:
        return list(csv.DictReader(file))


def answer(text: str) -> None:
    Path("answers.csv").write_text(f"id,label\n{text}")
    assert told("label", RUN, "answers.csv").exit_code == 0


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def files() -> list[str]:
    found = photos(Path("photos"))
    write_issues(RUN, "photos:16", {"file": found}, LABELS)
    return found


def tables(name: str, labels: list[Any]) -> Path:
    """A table of this name, audited by its column kind."""
    path, columns = Path(name), rows(labels)
    if path.suffix == ".parquet":
        pq.write_table(pa.table(columns), path)
    else:
        text = pd.DataFrame(columns).to_csv(index=False, sep="\t" if ".tsv" in name else ",")
        path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    write_issues(RUN, f"{name}:kind", {"row": range(COUNT)}, [str(label) for label in labels])
    return path


# Images


@pytest.mark.parametrize("words", [[], ["--copy"]], ids=["links", "copies"])
def test_images_lie_in_the_folder_of_their_corrected_class(files: list[str], words: list[str]) -> None:
    before = checksums(Path("photos"))
    found = done("--out", "new", *words)
    assert found == {
        "relabelled": 3, "by_people": 0, "dropped": 0, "examples": COUNT, "out": "new", "data": "new",
    }  # fmt: skip
    train, test = load("new:16")
    assert len(train) + len(test) == COUNT
    moved = {row["file"]: row["now"] for row in changes()}
    assert moved == {
        "cat/0.png": "dog/0-from-cat.png", "cat/more/3.png": "dog/more/3.png", "dog/1.png": "cat/1-from-dog.png",
    }  # fmt: skip
    for file, true in zip(files, TRUE, strict=True):
        inside = Path(file).relative_to("photos").as_posix()
        now = Path("new") / moved.get(inside, inside)
        assert now.relative_to("new").parts[0] == true
        assert now.read_bytes() == Path(file).read_bytes()
        assert os.path.samefile(now, file) == (words == [])
    assert Path("new/licence.txt").read_text() == "free"
    assert checksums(Path("photos")) == before
    assert next((row["id"], row["old"], row["new"], row["why"]) for row in changes()) == (
        "0", "cat", "dog", "disagreement (trust 0.100)",
    )  # fmt: skip


@pytest.mark.parametrize("words", [[], ["--drop"]])
def test_one_file_lists_every_image_that_is_left_with_its_corrected_label(files: list[str], words: list[str]) -> None:
    done("--out", "new", *words)
    with open("new/labels_corrected.csv", newline="") as file:
        listed = {row["file"]: row["label"] for row in csv.DictReader(file)}
    there = {path.relative_to("new").as_posix() for path in Path("new").glob("[!.]*/**/*.png")}
    assert listed == {file: file.partition("/")[0] for file in there}
    assert len(listed) == len(files) - (len(WRONG) if words else 0)
    undone()
    assert not Path("new/labels_corrected.csv").exists()


@pytest.mark.parametrize("words", [[], ["--drop"], ["--copy", "--drop", "--count", 5], ["--below", 0.25]])
def test_undo_gives_the_images_back_as_they_were(files: list[str], words: list[Any]) -> None:  # noqa: ARG001
    before = checksums(Path("photos"))
    done("--out", "new", *words)
    assert contents(Path("new")) != contents(Path("photos"))
    count = len(changes())
    assert f"{count} changes taken back" in undone()
    assert contents(Path("new")) == contents(Path("photos"))
    assert sorted(p.name for p in Path("new").rglob("*") if p.is_dir()) == ["cat", "dog", "more"]
    assert checksums(Path("photos")) == before
    assert "is no corrected copy" in told("correct", "--undo", "new").output


def test_an_undo_that_was_interrupted_goes_on(files: list[str]) -> None:  # noqa: ARG001
    done("--out", "new")
    Path("new/dog/0-from-cat.png").rename("new/cat/0.png")
    undone()
    assert contents(Path("new")) == contents(Path("photos"))


def test_dropped_images_are_no_class(files: list[str]) -> None:  # noqa: ARG001
    assert done("--out", "new", "--drop")["dropped"] == 3
    train, test = load("new:16")
    assert (len(train) + len(test), list(train.class_names or ())) == (COUNT - 3, ["cat", "dog"])
    assert [row["new"] for row in changes()] == ["", "", ""]


def test_links_are_symbolic_where_hard_ones_cannot_be(files: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    done("--out", "new")
    assert Path("new/dog/0-from-cat.png").is_symlink()
    assert os.path.samefile("new/dog/0-from-cat.png", files[0])
    undone()
    assert contents(Path("new")) == contents(Path("photos"))


@pytest.mark.parametrize(("rate", "words", "taken"), [(0.1, [], 3), (None, [], 0), (None, ["--count", "2"], 2)])
def test_a_correction_without_a_rate_takes_no_suggestion_unless_it_is_told_how_many(
    files: list[str],  # noqa: ARG001
    rate: float | None,
    words: list[str],
    taken: int,
) -> None:
    found = Issues.read(RUN)
    noise_rate = {"rate": rate, "low": 0.05 if rate else 0.0, "high": 0.5, "why": ""}
    Issues(found.table, {**found.summary, "noise_rate": noise_rate}).write(RUN)
    said = told("correct", RUN, "--out", "new", *words).stdout
    assert said.startswith(f"{taken} of {COUNT} examples have another label")
    assert ("thresher review run" in said and "--count" in said) == (taken == 0)


def test_people_are_heard_where_no_suggestion_is_taken(files: list[str]) -> None:  # noqa: ARG001
    found = Issues.read(RUN)
    Issues(found.table, {**found.summary, "noise_rate": {"rate": None, "low": 0.0, "high": 1.0, "why": ""}}).write(RUN)
    answer("5,dog\n")
    assert done("--out", "new")["by_people"] == len(changes()) == 1


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet"])
@pytest.mark.parametrize("words", [[], ["--drop"]])
def test_of_several_targets_the_furthest_off_becomes_the_expected_one(name: str, words: list[str]) -> None:
    labels = real(RUN, f"{name}:length,price", several=True)
    frame = pd.DataFrame({"x": range(COUNT), "length": np.arange(COUNT) / 4, "price": labels})
    frame.to_csv(name, index=False) if name.endswith("csv") else frame.to_parquet(name)
    done("--out", "new", *words)
    assert [(row["row"], row["target"]) for row in changes()] == [("7", "price")]
    new = read(Path("new") / name)
    if words:
        assert new["x"].tolist() == [row for row in range(COUNT) if row != 7]
    else:
        assert new["price_corrected"].tolist() == [*labels[:7], 7.25, *labels[8:]]
        assert new["length_corrected"].tolist() == frame["length"].tolist()
    undone()
    pd.testing.assert_frame_equal(read(Path("new") / name), frame)


def test_images_in_train_and_test_and_in_a_moved_folder() -> None:
    files = photos(Path("photos/train"))
    photos(Path("photos/test"))
    write_issues(RUN, "photos", {"file": files}, LABELS)
    Path("photos").rename("od:d photos")
    assert "give --data, where it lies now" in told("correct", RUN, "--out", "new").output
    done("--out", "new", "--data", "od:d photos")
    assert {row["now"] for row in changes()} == {
        "train/dog/0-from-cat.png", "train/dog/more/3.png", "train/cat/1-from-dog.png",
    }  # fmt: skip
    assert contents(Path("new/test")) == contents(Path("od:d photos/test"))


def test_the_folder_is_known_from_the_files_where_an_audit_does_not_name_it() -> None:
    write_issues(RUN, None, {"file": photos(Path("photos/train"))}, LABELS)
    photos(Path("photos/test"))
    done("--out", "new")
    assert contents(Path("new/test")) == contents(Path("photos/test"))
    assert Path("new/train/dog/0-from-cat.png").exists()


# Which, and what people said


def test_a_trust_or_a_number_says_which(files: list[str]) -> None:  # noqa: ARG001
    assert done("--out", "a", "--below", 0.25)["relabelled"] == 2
    assert done("--out", "b", "--count", 1)["relabelled"] == 1
    assert done("--out", "c", "--count", 10)["relabelled"] == 3  # the others have no other suggestion
    assert done("--out", "d", "--count", 10, "--drop")["dropped"] == 10


def test_answers_of_people_win(files: list[str]) -> None:  # noqa: ARG001
    answer("0,cat\n3,dog\n20,cat\n")
    found = done("--out", "new")
    assert (found["relabelled"], found["by_people"]) == (3, 2)
    assert {row["id"]: row["why"] for row in changes()} == {
        "3": "answered by people", "13": "disagreement (trust 0.300)", "20": "answered by people",
    }  # fmt: skip
    assert done("--out", "dropped", "--drop") == {
        "relabelled": 2, "by_people": 2, "dropped": 1, "examples": COUNT, "out": "dropped", "data": "dropped",
    }  # fmt: skip


# Tables


def typed(labels: list[str], kind: str) -> list[Any]:
    values = {"text": {"cat": "cat", "dog": "dog"}, "int": {"cat": 3, "dog": 5}, "bool": {"cat": True, "dog": False}}
    return [values[kind][label] for label in labels]


def read(path: Path) -> pd.DataFrame:
    if path.suffix == ".parquet":
        return pq.read_table(path).to_pandas()
    return pd.read_csv(path, sep="\t" if ".tsv" in path.name else ",", keep_default_na=False)


@pytest.mark.parametrize("kind", ["text", "int", "bool"])
@pytest.mark.parametrize("name", ["rows.csv", "rows.tsv.gz", "rows.parquet"])
def test_a_table_gets_one_more_column_and_loses_it_again(name: str, kind: str) -> None:
    path = tables(name, typed(LABELS, kind))
    before, raw = read(path), path.read_bytes()
    found = done("--out", "new")
    assert found["data"] == f"new/{name}"
    new = read(Path("new") / name)
    assert new["kind_corrected"].tolist() == typed(TRUE, kind)
    assert new["kind_corrected"].dtype == before["kind"].dtype
    pd.testing.assert_frame_equal(new.drop(columns="kind_corrected"), before)
    assert [row["row"] for row in changes()] == ["0", "3", "13"]
    undone()
    pd.testing.assert_frame_equal(read(Path("new") / name), before)
    assert [each.name for each in Path("new").iterdir()] == [name]
    assert path.read_bytes() == raw


def test_a_table_with_other_marks_and_labels_that_are_written_otherwise() -> None:
    """Classes are named 0 and 1; the file has decimals, semicolons, and line ends of another kind."""
    text = "size;kind\r\n" + "".join(f"{id_},5;{float(label == 'dog')}\r\n" for id_, label in enumerate(LABELS))
    Path("rows.csv").write_bytes(text.encode())
    write_issues(RUN, "rows.csv:kind", {"row": range(COUNT)}, [str(int(label == "dog")) for label in LABELS])
    done("--out", "new")
    raw = Path("new/rows.csv").read_bytes()
    assert [line.split(b";")[2] for line in raw.split(b"\r\n")[1:-1]] == [
        b"1.0" if label == "dog" else b"0.0" for label in TRUE
    ]
    undone()
    assert Path("new/rows.csv").read_bytes() == text.encode()


def test_the_separator_that_the_audit_was_told_is_remembered() -> None:
    text = "size:more:kind\n" + "".join(f"{id_};2:a,b:{label}\n" for id_, label in enumerate(LABELS))
    Path("rows.csv").write_text(text)
    write_issues(RUN, "rows.csv:kind", {"row": range(COUNT)}, LABELS)
    (RUN / "run.toml").write_text('data = "rows.csv:kind"\nsep = ":"\n')
    asked = told("review", str(RUN), "--count", "3", "--json")
    assert asked.exit_code == 0, asked.output
    tasks = json.loads((Path(json.loads(asked.output)["out"]) / "tasks.json").read_text())
    assert "0;2" in json.dumps(tasks[0])
    done("--out", "new")
    assert [line.split(":")[3] for line in Path("new/rows.csv").read_text().splitlines()] == ["kind_corrected", *TRUE]
    undone()
    assert Path("new/rows.csv").read_text() == text


def test_the_target_is_known_from_the_model_where_only_the_table_is_told() -> None:
    tables("rows.csv", LABELS)
    fit("standard", "mlp:4", pd.read_csv("rows.csv"), target="kind", epochs=1, device="cpu", out="trained")
    write_issues(Path("trained"), None, {"row": range(COUNT)}, LABELS)
    result = told("correct", "trained", "--data", "rows.csv", "--out", "new", "--json")
    assert json.loads(result.stdout)["relabelled"] == 3
    assert read(Path("new/rows.csv"))["kind_corrected"].tolist() == TRUE


@pytest.mark.parametrize("name", ["rows.csv", "rows.tsv", "rows.parquet"])
def test_rows_that_are_left_out_come_back(name: str) -> None:
    path = tables(name, LABELS)
    before, raw = read(path), path.read_bytes()
    assert done("--out", "new", "--drop")["dropped"] == 3
    new = read(Path("new") / name)
    pd.testing.assert_frame_equal(
        new.drop(columns="kind_corrected"), before.drop(index=list(WRONG)).reset_index(drop=True)
    )
    assert (new["kind"] == new["kind_corrected"]).all()
    assert read(Path("new") / f"dropped-{name}")["length"].tolist() == before["length"][list(WRONG)].tolist()
    undone()
    pd.testing.assert_frame_equal(read(Path("new") / name), before)
    if name != "rows.parquet":
        assert (Path("new") / name).read_bytes() == raw
    assert [each.name for each in Path("new").iterdir()] == [name]


def test_given_labels_are_no_input_beside_corrected_ones() -> None:
    path = tables("rows.csv", LABELS)
    done("--out", "new")
    train, _ = load("new/rows.csv:kind_corrected")
    alone, _ = load(f"{path}:kind")
    assert train.input_shape == alone.input_shape == load("new/rows.csv:kind").train.input_shape
    assert [(train.class_names or ())[label] for label in train.labels.tolist()] == [TRUE[i] for i in train.ids]


def test_what_trains_on_corrected_labels_is_tested_on_a_table_that_was_never_corrected() -> None:
    path = str(tables("rows.csv", LABELS))
    done("--out", "new")
    new = "new/rows.csv:kind_corrected"
    train = load_whole(new)
    for test in (load_test(name, train, new) for name in (path, f"{path}:kind", "new/rows.csv:kind")):
        assert test.class_names == train.class_names
        assert [(test.class_names or ())[label] for label in test.labels.tolist()] == LABELS
    both = load_test("new/rows.csv", train, new)
    assert [(both.class_names or ())[label] for label in both.labels.tolist()] == TRUE
    with pytest.raises(ThresherError, match="are in its column kind_corrected: call that"):
        load_test(f"{path}:length", train, new)
    pd.read_csv(path).drop(columns="kind").to_csv("none.csv", index=False)
    with pytest.raises(ThresherError, match="no column in none"):
        load_test("none.csv", train, new)


def real(run: Path, data: str, several: bool = False) -> list[float]:
    """An audit of real targets, of which one is far from what is expected; of several it is the second one."""
    labels = [float(id_) for id_ in range(COUNT)]
    labels[7] = 1e6
    order = [7, *(id_ for id_ in range(COUNT) if id_ != 7)]
    expected = [id_ + 0.25 for id_ in order]
    facts = {"trust": np.linspace(0, 1, COUNT), "is_issue": [id_ == 7 for id_ in order], "weight": np.ones(COUNT)}
    bounds = {"expected": expected, "low": expected, "high": expected, "reason": [""] * COUNT}
    places = {"id": order, "row": order, "label": [float(np.float32(labels[id_])) for id_ in order]}
    if several:
        places["dimension"] = [1] * COUNT
    run.mkdir()
    Issues(pa.table({**places, **facts, **bounds}), {"data": data}).write(run)
    return labels


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet"])
def test_real_targets_become_those_expected(name: str) -> None:
    frame = pd.DataFrame({"x": range(COUNT), "price": real(RUN, f"{name}:price")})
    frame.to_csv(name, index=False) if name.endswith("csv") else frame.to_parquet(name)
    done("--out", "new")
    new = read(Path("new") / name)
    assert new["price_corrected"].tolist() == [*frame["price"][:7], 7.25, *frame["price"][8:]]
    undone()
    pd.testing.assert_frame_equal(read(Path("new") / name), frame)


@pytest.mark.parametrize(("low", "reason", "taken"), [(0.02, "disagreement", 1), (0.0, "disagreement", 0),
                                                      (0.02, "outlier", 0)])  # fmt: skip
def test_real_targets_stay_where_all_may_be_right_or_only_the_inputs_are_odd(
    low: float, reason: str, taken: int
) -> None:
    pd.DataFrame({"x": range(COUNT), "price": real(RUN, "rows.csv:price")}).to_csv("rows.csv", index=False)
    found = Issues.read(RUN)
    reasons = pa.array([reason, *found.table["reason"].to_pylist()[1:]])
    table = found.table.set_column(found.table.column_names.index("reason"), "reason", reasons)
    Issues(table, {**found.summary, "noise_rate": {"rate": 0.04, "low": low, "high": 0.1, "why": ""}}).write(RUN)
    assert done("--out", "new")["relabelled"] == taken
    assert done("--out", "worst", "--count", "1")["relabelled"] == 1


# Arrays


@pytest.mark.parametrize("words", [[], ["--drop"]])
@pytest.mark.parametrize("key", ["train_targets", "labels"])
def test_arrays_get_other_labels_and_the_given_ones_back(words: list[str], key: str) -> None:
    part = "train_" if key.startswith("train_") else ""
    labels = np.array([4 if label == "cat" else 9 for label in LABELS])
    arrays = {
        f"{part}images": np.arange(COUNT * 4.0).reshape(COUNT, 4),
        key: labels,
        "test_images": np.ones((COUNT, 4)),
    }
    np.savez("set.npz", **arrays)
    raw = Path("set.npz").read_bytes()
    write_issues(RUN, "set.npz", {"row": range(COUNT)}, LABELS)
    done("--out", "new", *words)
    new = read_arrays(Path("new/set.npz"))
    if words:
        assert len(new[key]) == len(new[f"{part}images"]) == COUNT - 3
        assert len(new["test_images"]) == COUNT
    else:
        assert new[key].tolist() == [4 if label == "cat" else 9 for label in TRUE]
        np.testing.assert_array_equal(new[f"{key}_given"], labels)
    undone()
    again = read_arrays(Path("new/set.npz"))
    assert set(again) == set(arrays)
    for name, values in arrays.items():
        np.testing.assert_array_equal(again[name], values)
    assert [each.name for each in Path("new").iterdir()] == ["set.npz"]
    assert Path("set.npz").read_bytes() == raw


@pytest.mark.parametrize("data", [None, "digits"])
def test_of_data_that_have_no_file_the_labels_are_written(data: str | None) -> None:
    longer = [label.replace("cat", "elephant") for label in LABELS]
    issues = write_issues(RUN, data, {}, longer)
    assert done("--out", "new")["data"] == "new/labels.npz"
    new = read_arrays(Path("new/labels.npz"))
    assert new["labels"].tolist() == issues.corrected().tolist() == [each.replace("cat", "elephant") for each in TRUE]
    assert new["labels_given"].tolist() == longer
    assert done("--out", "fewer", "--drop")["dropped"] == 3
    assert read_arrays(Path("fewer/labels.npz"))["ids"].tolist() == [id_ for id_ in range(COUNT) if id_ not in WRONG]
    undone("fewer")
    assert read_arrays(Path("fewer/labels.npz"))["labels"].tolist() == longer


# Refusals


REFUSED: dict[str, tuple[list[Any], str]] = {
    "no place": ([], "give --out, a new folder"),
    "both ways to choose": (["--out", "new", "--below", 0.1, "--count", 3], "give one of them"),
    "no trust": (["--out", "new", "--below", 7], "Trust lies between 0 and 1"),
    "too many": (["--out", "new", "--count", 100], "100 of 24 examples cannot be chosen"),
    "in the data": (["--out", "photos/new"], "lies in the data"),
    "not empty": (["--out", "."], ". is not empty"),
    "a file": (["--out", "answers.csv"], "answers.csv is a file"),
    "no such data": (["--out", "new", "--data", "elsewhere"], "give --data, where it lies now"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_wrong_words_are_refused_and_nothing_is_written(case: str, files: list[str]) -> None:  # noqa: ARG001
    Path("answers.csv").write_text("")
    before = contents(Path())
    words, sentence = REFUSED[case]
    result = told("correct", RUN, *words)
    assert result.exit_code == 2
    assert sentence in result.output
    assert len(result.output.splitlines()) == 1
    assert contents(Path()) == before
    assert not Path("new").exists()


def test_data_that_changed_since_the_audit_are_refused(files: list[str]) -> None:
    Path(files[3]).unlink()
    assert "was audited and is not there" in told("correct", RUN, "--out", "new").output
    path = tables("rows.csv", LABELS)
    path.write_text(path.read_text().replace("cat", "dog", 1))
    assert "row 0 is 'dog' and was 'cat'" in told("correct", RUN, "--out", "new").output
    tables("rows.csv", LABELS)
    path.write_text("\n".join(path.read_text().splitlines()[:5]))
    assert "has no row" in told("correct", RUN, "--out", "new").output
    path.write_text("length,kind\n1,2,3\n")
    assert "rows of different lengths" in told("correct", RUN, "--out", "new").output
    path.write_bytes(b"\xff\xfe,kind\n")
    assert "cannot be read as a table" in told("correct", RUN, "--out", "new").output
    np.savez("set.npz", labels=np.zeros(COUNT))
    write_issues(RUN, "set.npz", {"row": range(COUNT)}, LABELS)
    assert "does not hold the labels that were audited" in told("correct", RUN, "--out", "new").output
    assert sorted(each.name for each in Path().iterdir()) == ["photos", "rows.csv", "run", "set.npz"]


def test_folders_without_an_audit_or_a_correction_are_refused() -> None:
    Path("run").mkdir()
    assert "holds no audit" in told("correct", RUN, "--out", "new").output
    assert "is no corrected copy" in told("correct", "--undo", RUN).output


@pytest.mark.parametrize("name", ["../elsewhere.png", "/tmp/elsewhere.png"])
def test_a_list_of_changes_leads_nowhere_else(files: list[str], name: str) -> None:  # noqa: ARG001
    done("--out", "new")
    path = Path("new/changes.csv")
    path.write_text(path.read_text().replace("cat/0.png", name))
    assert "outside of it" in told("correct", "--undo", "new").output
    path.write_text("id\nx,y\n")
    assert "is damaged" in told("correct", "--undo", "new").output


def test_a_suggestion_is_never_a_path(files: list[str]) -> None:
    write_issues(RUN, "photos", {"file": files}, [label.replace("dog", "../../dog") for label in LABELS])
    result = told("correct", RUN, "--out", "new/copy")
    assert result.exit_code == 2
    assert "There is no folder of the class '../../dog'" in result.output
    assert not Path("dog").exists()


def test_corrected_labels_in_python(tmp_path: Path) -> None:
    issues = write_issues(tmp_path / "run", None, {}, LABELS)
    assert issues.corrected().tolist() == TRUE
    assert issues.corrected(below=0.15).tolist() == ["dog", *LABELS[1:]]
    with pytest.raises(ThresherError, match="give one of them"):
        issues.corrected(below=0.1, count=3)
