"""People who label: the files they get, the answers they give, and that nothing is lost between two commands."""

import csv
import json
import shutil
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner, Result

import thresher.core.files
from thresher import ThresherError
from thresher.__main__ import app
from thresher.app.annotate.settled import settle
from thresher.app.annotate.stored_answers import add_answers, answers_of, read_answers
from thresher.app.annotate.votes import Vote, read_votes
from thresher.core.files import alone_in
from thresher.data import load
from thresher.data.pools import load_with_pool

CLASSES = ["cat", "dog", "eel"]
COUNT, KNOWN = 90, 30


def told(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "120"})


def done(*words: object) -> Any:
    result = told(*words, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout.splitlines()[-1])


TRAIN = ["train", "--data", "animals.csv:kind", "--pool", "--method", "standard", "--model", "mlp:8", "--epochs", 3]
KINDS = [CLASSES[place % 3] for place in range(COUNT)]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table animals.csv, of which the first rows have a kind, and a run on it."""
    folder = tmp_path_factory.mktemp("trained")
    draws = np.random.default_rng(0)
    rows = [
        [CLASSES.index(kind) + draws.normal(0, 0.3), draws.normal(), "wet" if kind == "eel" else ""] for kind in KINDS
    ]
    with (folder / "animals.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["length", "weight", "home", "kind"])
        writer.writerows(
            [*row, kind if place < KNOWN else ""] for place, (row, kind) in enumerate(zip(rows, KINDS, strict=True))
        )
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        done(*TRAIN, "--out", "runs/a")
    return folder


@pytest.fixture
def truth(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A copy of that folder as the current one; what the kinds truly are."""
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return KINDS


@pytest.fixture
def run(truth: list[str]) -> Path:  # noqa: ARG001  # it copies the run
    return Path("runs/a")


def answer(query: dict[str, Any], truth: list[str], name: str = "answers.csv") -> Path:
    path = Path(query["out"]) / name
    path.write_text("id,label\n" + "".join(f"{id_},{truth[id_]}\n" for id_ in query["ids"]))
    return path


def exported(tasks: list[dict[str, Any]], label: Callable[[int], str]) -> list[dict[str, Any]]:
    """Tasks as Label Studio gives them back: with ids of its own, and one annotation each."""
    return [
        {
            "id": 500 + place,
            "data": task["data"],
            "annotations": [annotation(label(task["data"]["thresher_id"]), by=1)],
            "predictions": [],
        }
        for place, task in enumerate(tasks)
    ]


def annotation(*labels: str, by: Any = 1, cancelled: bool = False, at: str = "") -> dict[str, Any]:
    result = [{"from_name": "label", "to_name": "example", "type": "choices", "value": {"choices": list(labels)}}]
    times = {"created_at": at, "updated_at": at} if at else {}
    return {"result": result if labels else [], "was_cancelled": cancelled, "completed_by": by, **times}


# What people are given


def test_a_question_has_tasks_an_interface_a_sheet_and_a_preview(run: Path) -> None:
    query = done("query", run, "--count", 5, "--by", "margin")
    folder = Path(query["out"])
    assert len(set(query["ids"])) == 5
    assert min(query["ids"]) >= KNOWN
    tasks = json.loads((folder / "tasks.json").read_text())
    rows = list(csv.DictReader(Path("animals.csv").read_text().splitlines()))
    for task, id_ in zip(tasks, query["ids"], strict=True):
        assert task["data"]["thresher_id"] == id_
        assert task["data"]["row"]["length"] == float(rows[id_]["length"])  # as in the file, not as the model sees it
        assert set(task["data"]["row"]) == {"length", "weight", "home"}
    interface = ElementTree.fromstring((folder / "interface.xml").read_text())
    assert [choice.get("value") for choice in interface.iter("Choice")] == CLASSES
    assert interface.find("Table").get("value") == "$row"
    assert interface.find("Choices").get("toName") == interface.find("Table").get("name")
    assert (folder / "answers.csv").read_text().splitlines() == ["id,label", *(f"{id_}," for id_ in query["ids"])]
    assert str(query["ids"][0]) in (folder / "preview.html").read_text()


def test_a_question_says_what_it_reads_before_it_is_answered(run: Path) -> None:
    result = told("query", run, "--count", 5, "--by", "margin", "--json")
    assert f"margin reads {COUNT - KNOWN} examples of the pool" in result.stderr
    assert len(json.loads(result.stdout)["ids"]) == 5


def test_the_same_question_chooses_the_same_and_leaves_a_sheet_that_was_begun(run: Path, truth: list[str]) -> None:
    first = done("query", run, "--count", 5)
    sheet = answer(first, truth).read_text()
    assert done("query", run, "--count", 5) == first
    assert (Path(first["out"]) / "answers.csv").read_text() == sheet


def test_images_are_asked_about_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for place in range(40):
        kind = CLASSES[place % 2]
        file = Path("photos") / (kind if place < 20 else "unlabelled") / f"{place}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (700, 350), (200, 0, 0) if kind == "cat" else (0, 0, 200)).save(file)
    words = ["--data", "photos:8", "--method", "standard", "--model", "mlp:8", "--epochs", 2, "--out", "runs/p"]
    assert "train with --pool" in told("train", *words).output
    done("train", *words, "--pool")
    query = done("query", "runs/p", "--count", 4, "--by", "badge")
    tasks = json.loads((Path(query["out"]) / "tasks.json").read_text())
    assert all(task["data"]["image"].startswith("data:image/png;base64,") for task in tasks)
    files = sorted(Path("photos/unlabelled").iterdir())
    pooled = load_with_pool("photos:8")
    assert [pooled.show([id_])[0]["image"] for id_ in pooled.pool_ids()] == files
    answers = {id_: CLASSES[int(pooled.show([id_])[0]["image"].stem) % 2] for id_ in query["ids"]}
    Path("answers.json").write_text(json.dumps(exported(tasks, answers.__getitem__)))
    assert done("label", "runs/p", "answers.json")["new"] == 4


# What they answer


def test_all_three_kinds_of_export_say_the_same(tmp_path: Path) -> None:
    tasks = [{"data": {"thresher_id": id_, "row": {}}} for id_ in (7, 8)]
    (tmp_path / "full.json").write_text(json.dumps(exported(tasks, lambda id_: "cat" if id_ == 7 else "dog")))
    small = [
        {"thresher_id": 7, "id": 501, "label": "cat", "annotator": 1},
        {"thresher_id": 8, "id": 502, "label": {"choices": ["dog"]}, "annotator": 1},
    ]
    (tmp_path / "min.json").write_text(json.dumps(small))
    (tmp_path / "plain.csv").write_text("id, label\n7,cat\n8, dog \n9,\n")
    image, row = f"data:image/png;base64,{'A' * 200_000}", "{'note': 'two\nlines'}"
    (tmp_path / "studio.csv").write_text(
        f'annotator,id,image,label,row,thresher_id\n1,501,"{image}",cat,,7\n1,502,,dog,"{row}",8\n'
    )
    for path in tmp_path.iterdir():
        settled = settle(read_votes(path), {7, 8, 9}, CLASSES, path.name)
        assert (settled.answers, settled.warnings) == ({7: "cat", 8: "dog"}, ()), path.name


def test_nobody_is_taken_to_answer_what_was_skipped(tmp_path: Path) -> None:
    task = {"data": {"thresher_id": 7}, "annotations": [annotation("cat", cancelled=True), annotation()]}
    (tmp_path / "a.json").write_text(json.dumps([task, {"data": {"thresher_id": 8}, "annotations": []}]))
    assert read_votes(tmp_path / "a.json") == []


def test_the_majority_counts_with_a_warning_and_a_tie_stays_open() -> None:
    votes = [Vote(7, "dog", "a"), Vote(7, "cat", "b"), Vote(7, "dog", "c"), Vote(8, "cat", "a"), Vote(8, "dog", "b")]
    settled = settle(votes, {7, 8}, CLASSES, "a.json")
    assert settled.answers == {7: "dog"}
    assert settled.warnings == (
        "Annotators disagree on id 7; the majority counts.",
        "Annotators disagree on id 8 without a majority; these stay open and can be asked again.",
    )


def test_of_two_votes_of_one_annotator_the_later_counts(tmp_path: Path) -> None:
    early, late = "2026-03-09T22:16:08.728378Z", "2026-03-10T07:00:00.000000Z"
    settled = settle([Vote(9, "cat", "a"), Vote(9, "eel", "a"), Vote(9, "eel", "a")], {9}, CLASSES, "a.json")
    assert settled.answers == {9: "eel"}
    assert settled.warnings == ("One annotator labelled id 9 twice; the later label counts.",)
    task = {"data": {"thresher_id": 7}, "annotations": [annotation("dog", at=late), annotation("cat", at=early)]}
    (tmp_path / "full.json").write_text(json.dumps([task]))
    small = [  # Label Studio writes the latest first
        {"thresher_id": 7, "label": label, "annotator": 1, "created_at": early, "updated_at": at}
        for label, at in (("dog", late), ("cat", early))
    ]
    (tmp_path / "min.json").write_text(json.dumps(small))
    (tmp_path / "a.csv").write_text(f"thresher_id,label,annotator,updated_at\n7,dog,x,{late}\n7,cat,x,{early}\n")
    for path in tmp_path.iterdir():
        assert settle(read_votes(path), {7}, CLASSES, path.name).answers == {7: "dog"}, path.name


def test_blanks_around_a_class_do_not_matter_unless_they_tell_two_apart() -> None:
    assert settle([Vote(7, "cat")], {7}, ["cat ", "dog"], "a.csv").answers == {7: "cat "}
    assert settle([Vote(7, "cat "), Vote(8, "cat")], {7, 8}, ["cat ", "cat"], "a.csv").answers == {7: "cat ", 8: "cat"}


def test_people_are_told_apart_however_the_export_names_them(tmp_path: Path) -> None:
    people = [annotation("cat", by={"id": 3, "email": "x"}), annotation("dog", by={"id": 3, "email": "x"})]
    (tmp_path / "a.json").write_text(json.dumps([{"data": {"thresher_id": 7}, "annotations": people}]))
    assert settle(read_votes(tmp_path / "a.json"), {7}, CLASSES, "a").answers == {7: "dog"}


WRONG: dict[str, tuple[str, str, str]] = {
    "unknown id": ("a.csv", "id,label\n3,cat\n70,cat\n", "id 3, not in the pool"),
    "unknown label": ("a.csv", "id,label\n70,cta\n", "'cta' of id 70. There is no class 'cta': did you mean 'cat'"),
    "no columns": ("a.csv", "number,kind\n70,cat\n", "no columns id and label"),
    "no number": ("a.csv", "id,label\nx70,cat\n", "Line 2 of a.csv has the id 'x70'"),
    "no JSON": ("a.json", "{", "is damaged"),
    "no list": ("a.json", "{}", "is damaged"),
    "foreign tasks": ("a.json", '[{"data": {"image": "x"}, "annotations": []}]', "Task 1 of a.json has no thresher_id"),
    "tasks without annotations": ("a.json", '[{"data": {"thresher_id": 70}}]', "Task 1 of a.json has no annotations"),
    "ids of annotations": ("a.json", '[{"data": {"thresher_id": 70}, "annotations": [3]}]', "has no annotations"),
    "two questions": (
        "a.json",
        json.dumps([{"data": {"thresher_id": 70}, "annotations": [{"result": 2 * annotation("cat")["result"]}]}]),
        "2 questions answered",
    ),
    "two labels": (
        "a.json",
        json.dumps([{"data": {"thresher_id": 70}, "annotations": [annotation("cat", "dog")]}]),
        "several labels",
    ),
    "no text": ("a.csv", "\xff", "is not a text file"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_answers_are_refused_and_nothing_is_kept(case: str, run: Path) -> None:
    name, text, words = WRONG[case]
    Path(name).write_bytes(text.encode("latin-1"))
    result = told("label", run, name)
    assert result.exit_code == 2
    assert words in " ".join(result.stderr.split())
    assert read_answers(run) == []


def test_a_file_without_an_answer_is_no_mistake_but_said(run: Path) -> None:
    query = done("query", run, "--count", 3, "--by", "random")
    result = told("label", run, Path(query["out"]) / "answers.csv")
    assert result.exit_code == 0
    assert "answers.csv answers nothing" in " ".join(result.stderr.split())
    assert "0 new labels" in result.stdout


# Rounds


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_the_loop_goes_on_and_the_same_answers_again_change_nothing(run: Path, truth: list[str]) -> None:
    query = done("query", run, "--count", 12, "--by", "s-badge")
    answers = answer(query, truth)
    first = done("label", run, answers)
    assert first["round"] == 1
    assert (first["new"], first["labelled"], first["left"]) == (12, 24 + 12, COUNT - KNOWN - 12)
    before = tree(run)
    assert done("label", run, answers) == {**first, "new": 0}
    assert tree(run) == before
    again = done("query", run, "--count", 12, "--by", "s-badge", "--avoid", "trust")
    assert again["by"] == "s-badge-avoid-trust"
    assert "give --avoid trust" in told("query", run, "--avoid", "noise").output
    assert not set(again["ids"]) & set(query["ids"])
    assert done("label", run, answer(again, truth))["round"] == 2
    loop = json.loads((run / "loop.json").read_text())
    assert [record["by"] for record in loop["rounds"]] == ["s-badge", "s-badge-avoid-trust", None]
    page = (run / "loop.html").read_text()
    assert "s-badge then s-badge-avoid-trust" in page
    assert "12 of those chosen by s-badge with 24 labels" in page
    assert sum(page.count(f"<dd>{name}</dd>") for name in CLASSES) == 24
    assert page.count("<dt>home</dt>") == 24  # rows as they are in the file


def test_answers_are_credited_to_the_question_that_asked(run: Path, truth: list[str]) -> None:
    answered = answer(done("query", run, "--count", 12, "--by", "margin"), truth)
    done("query", run, "--count", 12, "--by", "random")
    done("label", run, answered)
    assert json.loads((run / "loop.json").read_text())["rounds"][0]["by"] == "margin"
    assert "of those chosen by margin" in (run / "loop.html").read_text()


def test_what_was_answered_is_shown_with_its_labels(run: Path, truth: list[str]) -> None:
    query = done("query", run, "--count", 6, "--by", "random")
    skipped, *answered = query["ids"]
    Path("a.csv").write_text("id,label\n" + "".join(f"{id_},{truth[id_]}\n" for id_ in answered))
    done("label", run, "a.csv")
    with np.load(run / "picks" / "0.npz") as shown:
        assert dict(zip(shown["ids"].tolist(), shown["targets"].tolist(), strict=True)) == {
            id_: CLASSES.index(truth[id_]) for id_ in answered
        }
    assert skipped in done("query", run, "--count", COUNT - KNOWN - 5, "--by", "random")["ids"]


def test_a_rule_that_cannot_avoid_is_refused_before_any_training(run: Path) -> None:
    add_answers(run, {70: "cat"})  # a round that is still to be trained
    result = told("query", run, "--count", 3, "--by", "random", "--avoid", "trust")
    assert "RandomPicks reads no signal" in " ".join(result.stderr.split())
    assert not (run / "rounds").exists()


def test_a_question_may_keep_the_pool_on_disk(run: Path) -> None:
    plain = done("query", run, "--count", 5, "--by", "badge")
    assert done("query", run, "--count", 5, "--by", "badge", "--on-disk", "kept") == plain
    assert list(Path("kept").iterdir()) == []


def test_a_round_is_trained_on_the_answers_and_nothing_else(run: Path, truth: list[str]) -> None:
    query = done("query", run, "--count", 12, "--by", "random")
    done("label", run, answer(query, truth))
    pooled = load_with_pool("animals.csv:kind")
    train, rest = pooled.with_answers(answers_of(read_answers(run), 1, CLASSES))
    assert set(train.ids.tolist()) == set(pooled.examples.ids[pooled.labelled].tolist()) | set(query["ids"])
    assert [CLASSES[label] for label in train.targets] == [truth[id_] for id_ in train.ids.tolist()]
    assert rest is not None
    assert len(rest) == COUNT - KNOWN - 12
    trained = pq.read_table(run / "rounds" / "1" / "examples.parquet").to_pydict()
    assert dict(zip(trained["id"], trained["target"], strict=True)) == dict(
        zip(train.ids.tolist(), train.targets.tolist(), strict=True)
    )


def test_a_contradiction_is_refused_unless_it_is_to_replace(run: Path) -> None:
    Path("a.csv").write_text("id,label\n70,cat\n71,dog\n")
    Path("b.csv").write_text("id,label\n70,dog\n71,dog\n")
    done("label", run, "a.csv")
    result = told("label", run, "b.csv")
    assert result.exit_code == 2
    assert "id 70 was 'cat' and now is 'dog'" in " ".join(result.stderr.split())
    assert done("label", run, "b.csv", "--replace")["new"] == 1
    assert answers_of(read_answers(run), 1, CLASSES) == {70: 0, 71: 1}
    assert answers_of(read_answers(run), 2, CLASSES) == {70: 1, 71: 1}


def test_a_label_that_died_at_any_write_ends_as_if_it_had_not(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("a.csv").write_text("id,label\n70,cat\n71,dog\n")
    count, at, whole = 0, -1, thresher.core.files.write_whole

    def write(path: Path, fill: Callable[[Path], object]) -> None:
        nonlocal count
        count += 1
        if count == at:
            raise KeyboardInterrupt
        whole(path, fill)

    modules = (
        "engine.store.checkpoint",
        "record.outcome",
        "record.ledger",
        "app.annotate.stored_answers",
        "app.settings",
        "record.loop",
        "report.page",
    )
    for module in modules:
        monkeypatch.setattr(f"thresher.{module}.write_whole", write)
    start = tree(run)
    done("label", run, "a.csv")
    wanted = states(run)
    writes = count
    assert writes >= 6
    for at in range(1, writes + 1):  # noqa: B007  # `write` reads it
        restore(run, start)
        count = 0
        assert told("label", run, "a.csv").exit_code == 130
        count = -(10**6)
        done("label", run, "a.csv")
        assert states(run) == wanted


def states(run: Path) -> list[Any]:
    saved = torch.load(run / "rounds" / "1" / "checkpoint.pt", weights_only=True)
    return [(run / "answers.csv").read_bytes(), [value.tolist() for value in saved["learners"][0]["model"].values()]]


def restore(run: Path, files: dict[str, bytes]) -> None:
    for path in run.rglob("*"):
        if path.is_file() and str(path) not in files:
            path.unlink()
    for name, content in files.items():
        Path(name).write_bytes(content)


def test_adding_answers_twice_is_adding_them_once(tmp_path: Path) -> None:
    assert add_answers(tmp_path, {5: "cat", 6: "dog, wet"}) == [5, 6]
    assert add_answers(tmp_path, {5: "cat", 7: "eel"}) == [7]
    assert add_answers(tmp_path, {5: "cat"}) == []
    assert answers_of(read_answers(tmp_path), 2, ["cat", "dog, wet", "eel"]) == {5: 0, 6: 1, 7: 2}


@pytest.mark.skipif(sys.platform == "win32", reason="no locks there")
def test_answers_are_not_added_beside_another_process(tmp_path: Path) -> None:
    with alone_in(tmp_path), pytest.raises(ThresherError, match="Another process is at work in"):
        add_answers(tmp_path, {5: "cat"})
    assert add_answers(tmp_path, {5: "cat"}) == [5]


# Pools


@pytest.mark.usefixtures("truth")
def test_a_table_keeps_its_inputs_while_labels_come_in() -> None:
    pooled = load_with_pool("animals.csv:kind")
    assert len(pooled.test) + int(pooled.labelled.sum()) == KNOWN
    assert len(pooled.pool_ids()) == COUNT - KNOWN
    learnt = pooled.examples.inputs
    assert torch.allclose(learnt[:, 0].mean(), torch.zeros(()), atol=1e-5)
    with pytest.raises(ThresherError, match=r"60 rows without a target.*--pool"):
        load("animals.csv:kind")


def test_whole_numbers_with_gaps_are_classes(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("x,y\n" + "".join(f"{i}.5,{i % 2 if i < 20 else ''}\n" for i in range(30)))
    assert load_with_pool(f"{tmp_path}/t.csv:y").examples.class_names == ["0", "1"]


def test_rows_are_shown_as_json_has_them(tmp_path: Path) -> None:
    n = 30
    columns = {
        "real": [float("nan") if place == 25 else place / 2 for place in range(n)],
        "price": pa.array([Decimal(f"{place}.50") for place in range(n)]),
        "kind": ["a" if place % 2 else "b" for place in range(20)] + [None] * 10,
    }
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    (seen,) = load_with_pool(f"{tmp_path}/t.parquet:kind").show([25])
    assert seen == {"row": {"real": None, "price": "25.50"}}
    assert json.loads(json.dumps(seen, allow_nan=False)) == seen


def test_images_that_move_are_noticed(tmp_path: Path) -> None:
    for place, kind in enumerate(["cat"] * 5 + ["dog"] * 5 + ["unlabelled"] * 3):
        (tmp_path / kind).mkdir(exist_ok=True)
        Image.new("RGB", (4, 4), (place, 0, 0)).save(tmp_path / kind / f"{place}.png")
    (tmp_path / "cat" / "._0.png").write_text("left by an archive")
    before = load_with_pool(f"{tmp_path}:4")
    assert len(before.examples) + len(before.test) == 13
    (tmp_path / "cat" / "1.png").rename(tmp_path / "dog" / "1.png")
    (tmp_path / "dog" / "5.png").rename(tmp_path / "cat" / "5.png")
    assert load_with_pool(f"{tmp_path}:4").fingerprint != before.fingerprint


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x,y\n1,a\n2,b\n", "no empty cell"),
        ("x,y\n1,\n2,\n", "label a few rows"),
        ("x,y\n1,0.5\n2,\n", "real targets"),
        ("x,z\n1,a\n2,\n", "There is no column"),
    ],
)
def test_a_table_without_a_pool_is_refused(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(ThresherError, match=words):
        load_with_pool(f"{tmp_path}/t.csv:y")


def test_runs_without_a_pool_and_pools_that_changed_are_refused(run: Path) -> None:
    done("query", run, "--count", 3, "--by", "random")
    assert "ask for fewer" in told("query", run, "--count", 1000).output
    assert "did you mean 's-badge'" in " ".join(told("query", run, "--by", "sbadge").output.split())
    before = Path("animals.csv").read_text()
    for after in (before + "1.0,2.0,wet,\n", before.replace(",cat\n", ",dog\n", 1)):
        Path("animals.csv").write_text(after)
        assert "is not what" in told("query", run, "--count", 3).output
    done("train", "--data", "blobs:200,3", "--method", "standard", "--model", "mlp:8", "--epochs", 1, "--out", "runs/b")
    assert "without --pool" in told("query", "runs/b").output
    assert "holds no run" in told("label", "runs/nothing", "a.csv").output
    assert "cannot have a pool" in told("train", "--data", "blobs:100,3", "--method", "standard", "--pool").output
    assert "leave out --corrupt" in told(*TRAIN, "--corrupt", "symmetric:0.2").output


# The walk-through of the docs


def test_the_commands_of_the_docs_run_as_they_stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parent.parent / "docs" / "active.md").read_text()
    first_block = page.split("```python\n")[1].split("```")[0]
    exec(compile(first_block, "docs/active.md", "exec"), {})
    commands = [line.split()[1:] for block in page.split("```sh\n")[1:] for line in block.split("```")[0].splitlines()]
    assert [words[0] for words in commands] == ["train", "query", "label", "query", "label"]
    pooled = load_with_pool("photos:8")
    for words in commands:
        if words[0] == "label":  # people read the digit; here its file says which one it is
            sheet = Path(words[2])
            ids = [int(row["id"]) for row in csv.DictReader(sheet.read_text().splitlines())]
            said = [f"{id_},{pooled.show([id_])[0]['image'].stem[-1]}\n" for id_ in ids]
            sheet.write_text("id,label\n" + "".join(said))
        result = told(*words)
        assert result.exit_code == 0, result.output
    assert len(read_answers(Path("runs/photos"))) == 40
    assert Path("runs/photos/loop.html").exists()
    assert Path("runs/photos/rounds/2/examples.parquet").exists()


@pytest.mark.usefixtures("truth")
@pytest.mark.parametrize("method", ["prl-l", "crust-central"])
def test_other_methods_can_train_on_the_few_labels_of_the_start(method: str) -> None:
    words = [method if word == "standard" else 7 if word == 3 else word for word in TRAIN]
    done(*words, "--out", "runs/other")
    query = done("query", "runs/other", "--count", 12, "--by", "s-badge")
    assert done("label", "runs/other", answer(query, KINDS))["labelled"] == 24 + 12
