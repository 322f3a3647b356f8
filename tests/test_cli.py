"""The command line: what it writes, what it refuses, and that it goes on where it was stopped."""

import ast
import errno
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from importlib import import_module
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
import typer
from faults import started
from PIL import Image
from rich.console import Console
from test_stopped import stopping
from typer.testing import CliRunner, Result

import thresher as thresher_package
from thresher import Ledger, Moment, door
from thresher.__main__ import app
from thresher.app import train_job as running
from thresher.app.cli import summary
from thresher.app.commands import demo as demo_command
from thresher.app.folders import read_toml
from thresher.app.settings import Settings, make_settings, save
from thresher.app.terminal import plain_console, progress
from thresher.core.files import LOCK
from thresher.engine.plan import make_optimizer, make_schedule
from thresher.engine.store.checkpoint import RunFolder
from thresher.methods import METHODS, WEIGHTINGS, methods
from thresher.noise.noise_rate import Estimate
from thresher.record.previews import stored_picture

QUICK = ["--data", "blobs:200,3,4", "--model", "mlp:16", "--batch", "32"]
PRL = [*QUICK, "--corrupt", "symmetric:0.4", "--method", "prl-l", "--noise-rate", "0.4"]


def thresher(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "120"})


def trained(out: Path, *words: object) -> Result:
    result = thresher("train", *PRL, "--epochs", 3, "--out", out, *words)
    assert result.exit_code == 0, result.output
    return result


def history(folder: Path) -> list[dict]:
    records = [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]
    return [{key: value for key, value in record.items() if key != "seconds"} for record in records]


def parameters(folder: Path) -> list[torch.Tensor]:
    state = torch.load(folder / "checkpoint.pt", weights_only=True)
    return list(state["learners"][0]["model"].values())


def assert_same_run(one: Path, other: Path) -> None:
    assert history(one) == history(other)
    assert Ledger.read(one).to_pandas().equals(Ledger.read(other).to_pandas())  # NaN equals NaN there
    assert all(torch.equal(*pair) for pair in zip(parameters(one), parameters(other), strict=True))


def leftovers(folder: Path) -> list[Path]:
    """Files that were begun and not put in place."""
    return [path for path in folder.rglob(".*") if path.is_file() and path.name != LOCK]


def until(condition: Callable[[], bool], seconds: float = 300.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.005)


def test_train_writes_the_run_and_ends_with_json(tmp_path):
    out = tmp_path / "a"
    result = trained(out, "--json")
    found = json.loads(result.stdout.splitlines()[-1])
    assert " ".join(found) == (
        "method data corruption seed noise_rate metric last best early_stopped fine_tuned balanced_accuracy recalls "
        "trimmed_r2 median_error against_given_labels clean_share examples_per_second seconds out"
    )
    assert found["method"] == "prl-l"
    assert found["corruption"] == "symmetric:0.4"
    assert found["out"] == str(out)
    scores = [record["score"] for record in history(out)]
    assert found["last"] == pytest.approx(sum(scores) / 3)
    assert found["best"] == max(scores)
    seconds = sum(json.loads(line)["seconds"] for line in (out / "history.jsonl").read_text().splitlines())
    assert found["seconds"] == pytest.approx(seconds)
    assert found["examples_per_second"] == pytest.approx(32 * sum(record["steps"] for record in history(out)) / seconds)
    names = {path.name for path in out.iterdir()} - {LOCK}
    assert names == {
        "run.toml", "model.json", "history.jsonl", "ledger", "checkpoint.pt", "examples.parquet", "previews.npz",
        "report.html",
    }  # fmt: skip
    assert "epoch 3/3" in result.stderr
    assert "epoch" not in result.stdout


def test_the_outcome_of_a_folder_of_images_names_their_files(tmp_path):
    for place in range(40):
        path = tmp_path / "photos" / ("cat", "dog")[place % 2] / f"{place}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (6 * place, 0, 0)).save(path)
    words = f"--data {tmp_path}/photos:8 --method standard --model mlp:8 --epochs 1 --batch 8 --out {tmp_path}/a"
    told(thresher("train", *words.split(), "--validation", 0.2, "--json"))
    rows = pq.read_table(tmp_path / "a" / "examples.parquet").to_pylist()
    assert all(Path(row["file"]).parent.name == ("cat", "dog")[row["target"]] for row in rows)
    numbers = {row["id"]: int(Path(row["file"]).stem) for row in rows}
    with np.load(tmp_path / "a" / "previews.npz") as previews:
        shown = {int(id_): stored_picture(previews, place) for place, id_ in enumerate(previews["ids"])}
    reds = {id_: Image.open(io.BytesIO(encoded)).convert("RGB").getpixel((0, 0))[0] for id_, encoded in shown.items()}
    assert sorted(reds, key=reds.__getitem__) == sorted(numbers, key=numbers.__getitem__)


def written_table(path, *header, rows):
    path.write_text("\n".join(",".join(map(str, row)) for row in [header, *rows]) + "\n")
    return path


def test_recalls_go_by_the_names_of_the_classes(tmp_path):
    table = written_table(
        tmp_path / "t.csv", "x", "y", rows=[(place, "no" if place % 2 else "yes") for place in range(40)]
    )
    words = f"--data {table}:y --method standard --model mlp:8 --epochs 1 --batch 8 --out {tmp_path}/a".split()
    found = told(thresher("train", *words, "--json"))
    assert set(found["recalls"]) == {"no", "yes"}
    assert re.search(r"recall of the worst class \((no|yes)\)", thresher("train", *words).stdout)


@pytest.mark.filterwarnings("default")
def test_a_warning_is_one_sentence(tmp_path):
    table = written_table(tmp_path / "t.csv", "x", "y", rows=[(place, place % 2) for place in range(40)])
    words = f"--data {table}:y --clean {table} --method standard --model mlp:8 --epochs 1 --batch 8".split()
    said = thresher("train", *words, "--out", f"{tmp_path}/a")
    assert said.exit_code == 0
    assert said.stderr.startswith("Warning: 8 examples of ")
    assert "UserWarning" not in said.stderr


def test_results_are_json_whatever_the_score(tmp_path):
    def refused(word):
        raise AssertionError(f"{word} is no JSON")

    rows = [(place, 4.0 if place == 0 else 3.5 + 1e-6 * (place % 2)) for place in range(40)]  # the first is to train on
    table = written_table(tmp_path / "t.csv", "x", "y", rows=rows)
    words = f"--data {table}:y --method standard --model mlp:8 --epochs 1 --batch 8 --out {tmp_path}/a".split()
    for text in (thresher("train", *words, "--json").stdout, (tmp_path / "a" / "history.jsonl").read_text()):
        json.loads(text, parse_constant=refused)
    assert json.loads(text)["score"] < -1e6, "the targets to test on are nearly the same"


def test_the_noise_rate_that_was_found_is_told(tmp_path):
    words = [*QUICK, "--corrupt", "symmetric:0.4", "--method", "prl-l", "--epochs", 4, "--out", tmp_path / "a"]
    found = told(thresher("train", *words, "--data", "blobs:3000,3,4", "--json"))["noise_rate"]
    assert found == history(tmp_path / "a")[-1]["noise_rate"]
    said = f"{found['rate']:.2f} ({found['low']:.2f} to {found['high']:.2f})"
    assert f"<dt>noise rate found</dt><dd>{said}: " in (tmp_path / "a" / "report.html").read_text()
    assert told(trained(tmp_path / "b", "--json"))["noise_rate"] is None, "nothing was to be found"


@pytest.fixture
def asked(monkeypatch):
    """The sizes of the sets whose noise rate folds were asked for; they always answer 0.35."""
    sizes = []

    def estimate(train, *_, **__):
        sizes.append(len(train))
        return Estimate(0.35, 0.3, 0.4, "so it is")

    monkeypatch.setattr(door, "noise_rate_by_folds", estimate)
    return sizes


def test_the_noise_rate_by_folds_is_measured_once_told_and_kept(tmp_path, asked):
    out = tmp_path / "a"
    words = [*QUICK, "--method", "prl-l", "--noise-rate", "folds", "--epochs", 2, "--out", out, "--json"]
    for _ in range(2):  # the second time the run is finished
        assert told(thresher("train", *words))["noise_rate"] == asdict(Estimate(0.35, 0.3, 0.4, "so it is"))
    assert len(asked) == 1
    assert "<dt>noise rate found</dt><dd>0.35 (0.30 to 0.40): so it is</dd>" in (out / "report.html").read_text()
    kept = Ledger.read(out).to_pandas().groupby("epoch")["kept"].mean()
    assert kept.iloc[-1] == pytest.approx(0.65, abs=0.04)
    (out / "noise_rate.json").write_text('{"rate": "much"}')
    assert "noise_rate.json is damaged" in thresher("train", *words).output


def test_a_run_by_folds_may_have_stages_and_be_stopped_before_it_is_saved(tmp_path, asked):
    words = [*QUICK, "--noise-rate", "folds", "--epochs", 2, "--json", "--out"]
    assert told(thresher("train", "--method", "f-correction", *words, tmp_path / "a"))["noise_rate"]["rate"] == 0.35
    given = {"method": "prl-l", "data": "blobs:200,3,4", "noise_rate": "folds", "epochs": 2}
    job, other = (running.prepare_job(make_settings({**given, "seed": seed}, {})) for seed in (0, 7))

    def stop(_):
        raise KeyboardInterrupt

    asked.clear()
    with pytest.raises(KeyboardInterrupt):
        running.start(job, tmp_path / "b", stop)
    running.start(job, tmp_path / "b", None)
    assert len(asked) == 1, "the same run knows its rate"
    with pytest.raises(KeyboardInterrupt):
        running.start(job, tmp_path / "c", stop)
    running.start(other, tmp_path / "c", None)
    assert len(asked) == 3, "another run does not"


def test_the_least_trusted_rows_of_a_table_are_shown_as_they_are(tmp_path):
    rows = [(f"town {place % 9}", 1000.25 + place, "" if place == 3 else place, place % 2) for place in range(40)]
    table = written_table(tmp_path / "t.csv", "town", "price", "rooms", "sold", rows=rows)
    words = f"--data {table}:sold --method standard --model mlp:8 --epochs 1 --batch 8 --out {tmp_path}/a".split()
    told(thresher("train", *words, "--json"))
    html = (tmp_path / "a" / "report.html").read_text()
    block = json.loads(
        re.findall(r'data-gallery="1">\s*<script type="application/json">(.*?)</script>', html, re.DOTALL)[0]
    )
    assert block["names"] == ["town", "price", "rooms"]
    assert len(block["cells"]) == len(block["id"]) == 32
    for at, (town, price, rooms) in zip(block["shown"], block["cells"], strict=True):
        row = rows[block["id"][at]]
        assert (town, float(price), rooms) == (*row[:2], str(row[2]))


def test_a_finished_run_is_shown_and_not_trained_again(tmp_path):
    trained(tmp_path / "a")
    before = {path: path.read_bytes() for path in (tmp_path / "a").rglob("*") if path.is_file()}
    again = trained(tmp_path / "a")
    assert "is finished" in again.stderr
    assert "mean of the last ten epochs" in again.stdout
    assert {path: path.read_bytes() for path in (tmp_path / "a").rglob("*") if path.is_file()} == before


def test_from_repeats_a_run_and_options_change_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    trained(Path("a"))
    repeated = thresher("train", "--from", "a/run.toml")
    assert repeated.exit_code == 0, repeated.output
    folder = Path("runs/blobs-200-3-4-prl-l-seed0")
    assert str(folder / "report.html") in repeated.stdout
    assert_same_run(Path("a"), folder)
    assert (folder / "run.toml").read_text() == Path("a/run.toml").read_text()
    other = thresher("train", "--from", "a/run.toml", "--seed", 1, "--steps", 4, "--json")
    found = json.loads(other.stdout.splitlines()[-1])
    assert (found["seed"], found["out"]) == (1, "runs/blobs-200-3-4-prl-l-seed1")
    assert read_toml(Path(found["out"]) / "run.toml").keys() >= {"steps"}
    assert [record["steps"] for record in history(Path(found["out"]))] == [4]


@contextmanager
def ctrl_c_after_the_first_commit(monkeypatch) -> Iterator[None]:
    commit = RunFolder.commit

    def commit_and_press(*given: object) -> None:
        commit(*given)
        signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored where the tests run
    try:
        with monkeypatch.context() as keyboard:
            keyboard.setattr(RunFolder, "commit", commit_and_press)
            yield
    finally:
        signal.signal(signal.SIGINT, before)


def test_without_out_a_stopped_run_is_taken_up_and_a_finished_one_is_not(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ("train", *PRL, "--epochs", 2)
    base = Path("runs/blobs-200-3-4-prl-l-seed0")
    with ctrl_c_after_the_first_commit(monkeypatch):
        assert thresher(*words, "--commit-every", 0).exit_code == 130
    assert thresher(*words).exit_code == 0
    assert list(Path("runs").iterdir()) == [base]
    assert thresher(*words).exit_code == 0
    assert sorted(Path("runs").iterdir()) == [base, Path(f"{base}-2")]


@pytest.mark.parametrize("name", [name for name, each in METHODS.items() if "classification" in each.tasks])
def test_every_method_can_be_trained(tmp_path, name):
    words = [*QUICK, "--corrupt", "symmetric:0.4", "--method", name, "--noise-rate", 0.4, "--epochs", 1, "--clean", 9]
    result = thresher("train", *words, "--out", tmp_path / "a", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout.splitlines()[-1])["method"] == name


def test_settings_reach_training(tmp_path):
    words = "--optimizer sgd --schedule step:1,2 --weight-decay 0.01 --validation 0.25 --early-stop"
    trained(tmp_path / "a", *words.split())
    records = history(tmp_path / "a")
    assert [record["learning_rate"] for record in records] == pytest.approx([0.1, 0.01, 0.001])
    assert all("validation" in record for record in records)
    assert len(Ledger.read(tmp_path / "a").table()) == 3 * 150
    stored = read_toml(tmp_path / "a" / "run.toml")
    assert (stored["learning_rate"], stored["momentum"], stored["early_stop"]) == (0.1, 0.9, True)


def told(result: Result) -> dict:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout.splitlines()[-1])


def test_clean_examples_early_stopping_and_fine_tuning(tmp_path):
    out, text = tmp_path / "a", "--clean 9 --clean-batch 4 --early-stop --fine-tune --fine-tune-steps 60 --json"
    few = text.split()
    words = [*QUICK, "--corrupt", "symmetric:0.4", "--method", "l2rw", "--epochs", 3, "--out", out]
    found = told(thresher("train", *words, *few))
    table = Ledger.read(out).to_pandas()
    assert len(table) == 3 * round(0.9 * 191), "nine are taken out, then a tenth is kept apart"
    records = history(out)
    best = max(records, key=lambda record: record["validation"])
    assert found["early_stopped"] == best["score"]
    tuned = history(out / "fine-tuned")
    assert sum(record["steps"] for record in tuned) == 60
    assert found["fine_tuned"] == tuned[-1]["score"]
    assert found["balanced_accuracy"] == pytest.approx(sum(found["recalls"].values()) / 3)
    stored = read_toml(out / "run.toml")
    assert (stored["clean"], stored["clean_batch"], stored["fine_tune_steps"]) == ("9", 4, 60)
    assert told(thresher("train", *words, *few))["fine_tuned"] == found["fine_tuned"], "and it is not trained again"
    shown = thresher("train", *words, *few[:-1]).stdout
    assert "after fine-tuning" in shown
    assert "epoch chosen on the validation set" in shown


def test_clean_examples_from_elsewhere(tmp_path):
    words = [*QUICK, "--method", "clean-only", "--clean", "blobs:30,3,4", "--epochs", 2, "--out", tmp_path / "a"]
    told(thresher("train", *words, "--json"))
    table = Ledger.read(tmp_path / "a").to_pandas()
    assert len(table) == 2 * 230
    assert (table["weight"] > 0).sum() == 2 * 30


def test_augmented_images_train(tmp_path):
    words = "--data digits:0,1 --method standard --augment weak --epochs 1 --precision bfloat16"
    result = thresher("train", *words.split(), "--out", tmp_path / "a")
    assert result.exit_code == 0, result.output
    assert read_toml(tmp_path / "a" / "run.toml")["model"] == "mlp"


def test_reclaim_trains_on_a_weak_and_a_strong_view(tmp_path):
    words = (
        "--data digits:0,1 --corrupt symmetric:0.3 --noise-rate 0.3 --method reclaim --augment weak,strong --epochs 3"
    )
    result = thresher("train", *words.split(), "--epochs", 3, "--out", tmp_path / "a")
    assert result.exit_code == 0, result.output
    assert "taught" in Ledger.read(tmp_path / "a").table().column_names


BAD = {
    "--method prll --noise-rate 0.4": "did you mean 'prl-l'?",
    "--method prl-l --noise-rate some": "give a number, auto or folds",
    "--method spl --noise-rate 1.4": "noise_rate=1.4",
    "--method standard --data digit": "did you mean 'digits'?",
    "--method standard --data nowhere/table.csv": "There is no file or folder nowhere/table.csv",
    "--method standard --data-dir nowhere": "There is no data folder nowhere",
    "--method standard --corrupt symetric:0.4": "did you mean 'symmetric'?",
    "--method standard --corrupt symmetric": "has no number",
    "--method standard --model mpl": "did you mean 'mlp'?",
    "--method standard --batch 1000": "batch=1000 does not fit 200",
    "--method standard --epochs 0": "epochs must be at least 1",
    "--method standard --epochs 1 --steps 1": "not both",
    "--method standard --optimizer adem": "did you mean 'adam'?",
    "--method standard --momentum 0.5": "adam takes no momentum",
    "--method standard --learning-rate -1": "learning_rate must be a finite number of at least 0",
    "--method standard --schedule cosin": "did you mean 'cosine'?",
    "--method standard --schedule step": "is not understood",
    "--method standard --schedule linear:80": "is not understood",
    "--method standard --augment week": "did you mean 'weak'?",
    "--method standard --augment weak,string": "did you mean 'strong'?",
    "--method standard --augment weak": "Views change float images",
    "--method standard --precision float16": "did you mean 'bfloat16'?",
    "--method standard --device gpu": "There is no device 'gpu' here",
    "--method l2rw": "give --clean 50",
    "--method standard --fine-tune": "give --clean 50",
    "--method l2rw --clean 9": "give clean examples of your own",
    "--method l2rw --clean 900 --corrupt symmetric:0.4": "give 1 to 199",
    "--method l2rw --clean nowhere.npz": "There is no file or folder nowhere.npz",
    "--method l2rw --clean 9 --corrupt symmetric:0.4 --clean-batch 10": "give 1 to 9",
    "--method standard --validation 2": "must lie between 0 and 1",
    "--method standard --from nowhere.toml": "There is no file nowhere.toml",
}


@pytest.mark.parametrize("words", BAD)
def test_bad_input_is_one_sentence_and_leaves_nothing(tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    result = thresher("train", *QUICK, *words.split(), "--out", "a")
    assert result.exit_code == 2, result.output
    assert BAD[words] in result.stderr
    sentences = [line for line in result.stderr.splitlines() if "examples to train on" not in line]
    assert len(sentences) == 1, result.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_folder_of_another_run_is_refused_and_kept(tmp_path):
    trained(tmp_path / "a")
    before = (tmp_path / "a" / "checkpoint.pt").read_bytes()
    result = thresher("train", *PRL, "--epochs", 3, "--out", tmp_path / "a", "--seed", 1)
    assert result.exit_code == 2
    assert "holds another run (its seed is 0, not 1)" in result.stderr
    assert (tmp_path / "a" / "checkpoint.pt").read_bytes() == before
    assert read_toml(tmp_path / "a" / "run.toml")["seed"] == 0


def test_a_folder_with_other_files_and_a_file_are_refused(tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("mine")
    for out, said in (("full", "not empty"), ("full/thesis.txt", "is a file"), ("full/thesis.txt/a", "cannot be made")):
        result = thresher("train", *PRL, "--epochs", 1, "--out", tmp_path / out)
        assert result.exit_code == 2
        assert said in result.stderr
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["thesis.txt"]


def test_a_truncated_checkpoint_is_named(tmp_path):
    trained(tmp_path / "a")
    checkpoint = tmp_path / "a" / "checkpoint.pt"
    checkpoint.write_bytes(checkpoint.read_bytes()[:1000])
    result = thresher("train", *PRL, "--epochs", 3, "--out", tmp_path / "a")
    assert result.exit_code == 2
    assert "checkpoint.pt is damaged" in result.stderr


@pytest.mark.parametrize("name", ["run.toml", "checkpoint.pt", "report.html"])
def test_a_full_disk_loses_nothing(tmp_path, monkeypatch, name):
    put_in_place = os.replace

    def full(source: Path, target: Path) -> None:
        if Path(target).name == name:
            raise OSError(errno.ENOSPC, "No space left on device")
        put_in_place(source, target)

    with monkeypatch.context() as disk:
        disk.setattr(os, "replace", full)
        result = thresher("train", *PRL, "--epochs", 3, "--out", tmp_path / "a", "--commit-every", 0)
    assert result.exit_code == 2
    assert "free some space" in result.stderr
    assert not (tmp_path / "a" / name).exists()
    assert leftovers(tmp_path) == []
    trained(tmp_path / "a")
    trained(tmp_path / "b")
    assert_same_run(tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "a" / name).exists()


def test_a_killed_run_goes_on_to_the_same_end(tmp_path):
    words = [*PRL, "--epochs", "8"]
    told = ["train", *words, "--out", tmp_path / "a", "--commit-every", "0"]
    with pytest.MonkeyPatch.context() as patch:
        stopping(5, lambda: signal.raise_signal(signal.SIGKILL), patch)
        killed = started(list(map(str, told)))
    assert os.waitstatus_to_exitcode(os.waitpid(killed, 0)[1]) == -signal.SIGKILL
    assert len(history(tmp_path / "a")) == 4
    assert thresher("train", *words, "--out", tmp_path / "a").exit_code == 0
    assert thresher("train", *words, "--out", tmp_path / "b").exit_code == 0
    assert len(list((tmp_path / "a" / "ledger").iterdir())) > 2  # the parts of before the kill are still there
    assert_same_run(tmp_path / "a", tmp_path / "b")


def test_ctrl_c_says_how_to_go_on(tmp_path, monkeypatch):
    words = ("train", *PRL, "--epochs", 3, "--out", tmp_path / "a")
    with ctrl_c_after_the_first_commit(monkeypatch):
        result = thresher(*words, "--commit-every", 0)
    assert result.exit_code == 130, result.output
    assert result.stdout == ""
    said = f"Stopped in epoch 2; run the same again to go on from {tmp_path / 'a'}. Saved so far: 1 epoch.\n"
    assert result.stderr.endswith(said)
    assert leftovers(tmp_path) == []
    assert thresher(*words).exit_code == 0
    trained(tmp_path / "b")
    assert_same_run(tmp_path / "a", tmp_path / "b")


def test_version_comes_without_what_it_does_not_need():
    code = (
        "import sys, thresher; assert not {'typer', 'rich'} & {*sys.modules}, 'import thresher'\n"
        "sys.argv = ['thresher', '--version']\n"
        "from thresher.__main__ import app; app(standalone_mode=False)\n"
        "late = {'torch', 'numpy', 'pyarrow', 'sklearn', 'altair', 'jinja2', 'thresher.app.commands.train'}\n"
        "assert not late & {*sys.modules}, late & {*sys.modules}"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert re.fullmatch(r"thresher \d+\.\d+\.\d+\n", ended.stdout)


def test_the_help_of_the_whole_imports_no_command_and_says_what_they_say():
    code = (
        "import sys; from thresher.__main__ import app; app(['--help'], standalone_mode=False)\n"
        "assert not {'torch', 'thresher.app.commands.train'} & {*sys.modules}"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    group = typer.main.get_command(app)
    for name in group.list_commands(None):
        known = group.get_command(None, name)
        assert known.help.splitlines()[0] == summary(group.modules[name], name)
        assert f" {name} " in ended.stdout


def test_a_public_name_is_imported_from_where_it_is_said_to_be():
    told = ast.parse(Path(thresher_package.__file__).read_text()).body
    typed = next(each for each in told if isinstance(each, ast.If)).body
    homes = {name.name: line.module for line in typed for name in line.names}
    assert sorted(homes) == sorted(thresher_package.__all__)
    for name, module in homes.items():
        package = import_module(module)
        assert getattr(thresher_package, name) is getattr(package, name)
    with pytest.raises(AttributeError, match="no attribute 'fitt'"):
        thresher_package.fitt  # noqa: B018


def test_methods_lists_every_method():
    listed = json.loads(thresher("methods", "--json").stdout)
    assert [row["name"] for row in listed] == [known.name for known in methods()]
    assert {row["kind"] for row in listed} == {"recipe", "procedure", "acquisition", "weighting"}
    only = json.loads(thresher("methods", "--kind", "weighting", "--json").stdout)
    assert [row["name"] for row in only] == list(WEIGHTINGS)
    assert all(list(row) == ["name", "kind", "paper", "clock", "needs", "tasks", "summary"] for row in listed)
    assert {"name": "prl-l", "needs": ["noise_rate"], "clock": "batch"}.items() <= {
        key: value for row in listed if row["name"] == "prl-l" for key, value in row.items()
    }.items()
    shown = thresher("methods").stdout
    assert "every epoch · classification only · Coresets" in shown
    assert all(known.name in shown and known.summary in shown for known in METHODS.values())


def test_methods_are_listed_again_without_importing_them(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first = thresher("methods", "--json").stdout
    (kept,) = (tmp_path / "thresher").iterdir()
    code = "import sys; from thresher.__main__ import main; sys.argv = ['thresher', 'methods', '--json']\n"
    code += "try: main()\nfinally: assert 'torch' not in sys.modules"
    again = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (again.stderr, again.stdout) == ("", first)
    kept.write_text("damaged")
    assert thresher("methods", "--json").stdout == first == json.dumps(json.loads(kept.read_text())) + "\n"
    assert "did you mean 'recipe'" in thresher("methods", "--kind", "recipes").stderr


def test_report_of_one_run_and_of_two(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    trained(Path("runs/a"))
    trained(Path("runs/b"), "--seed", 1)
    Path("runs/a/report.html").unlink()
    assert thresher("report", "runs/a").stdout == "runs/a/report.html\n"
    assert thresher("report", "runs/a", "runs/b").stdout == "runs/report.html\n"
    assert thresher("report", "runs/a", "--out", "page.html").stdout == "page.html\n"
    assert "seed 1" in Path("runs/report.html").read_text()
    assert Path("page.html").read_text() == Path("runs/a/report.html").read_text()
    compared = Path("runs/report.html").read_text()
    Path("runs/report.html").unlink()
    assert thresher("report", "runs").stdout == "runs/report.html\n", "a folder of runs stands for them"
    assert Path("runs/report.html").read_text() == compared
    refused = thresher("report", "runs/a/ledger")
    assert refused.exit_code == 2
    assert "is not a run folder" in refused.stderr


def test_the_demo_compares_and_reports(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = thresher("demo", "--epochs", 2)
    assert result.exit_code == 0, result.output
    assert "noise rate 0.4" in result.stderr
    rows = [line.split() for line in result.stdout.splitlines()]
    assert [row[0] for row in rows if row and row[0] in METHODS] == list(demo_command.METHODS)
    assert result.stdout.endswith("Report: runs/demo/report.html\n")
    page = Path("runs/demo/report.html").read_text()
    assert all(name in page for name in demo_command.METHODS)
    assert read_toml(Path("runs/demo/standard/run.toml")).get("noise_rate") is None
    assert history(Path("runs/demo/prl-l"))[-1]["kept"] == pytest.approx(0.6, abs=0.02)
    before = {path: path.read_bytes() for path in Path("runs/demo").rglob("*.pt")}
    assert "runs/demo-2/report.html" in thresher("demo", "--epochs", 2).stdout
    Path("runs/demo/report.html").unlink()
    assert "runs/demo/report.html" in thresher("demo", "--epochs", 2).stdout
    assert {path: path.read_bytes() for path in Path("runs/demo").rglob("*.pt")} == before


def test_settings_come_back_from_toml_as_they_were(tmp_path):
    odd = Settings(
        method="prl-l", data='a "quoted" tåble\\path\n.csv:ключ', noise_rate=1e-7, learning_rate=1.0, deterministic=True
    )
    save(odd, tmp_path / "run.toml")
    assert asdict(make_settings({}, read_toml(tmp_path / "run.toml"))) == asdict(odd) | {"epochs": 60}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("epochs = 1.5", "epochs = 1.5 in .* give a whole number"),
        ("epochs = true", "give a whole number"),
        ("method = 3", "give a text in quotes"),
        ("noise_rate = 'much'\nmethod = 'spl'\ndata = 'digits'", "give a number, auto or folds"),
        ("epoch = 3", "did you mean 'epochs'"),
        ("epochs", "is no TOML"),
    ],
)
def test_a_wrong_settings_file_is_explained(tmp_path, text, said):
    (tmp_path / "run.toml").write_text(text)
    result = thresher("train", "--from", tmp_path / "run.toml")
    assert result.exit_code == 2
    assert re.search(said, result.stderr)


def test_optimizer_and_schedule_are_those_asked_for():
    weights = [torch.nn.Parameter(torch.zeros(1))]
    sgd = make_optimizer(Settings(method="spl", data="digits", optimizer="sgd", weight_decay=0.1))(weights)
    assert {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1}.items() <= sgd.param_groups[0].items()
    assert make_schedule(None, 10) is None
    assert [make_schedule("cosine", 10)(epoch, 10) for epoch in (0, 5)] == pytest.approx([1, 0.5])
    assert [make_schedule("linear", 10)(epoch, 10) for epoch in (0, 5)] == pytest.approx([1, 0.5])


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_shows_where_training_is(terminal, monkeypatch):
    monkeypatch.setattr("thresher.app.terminal.LINE_EVERY", 0.0)
    drawn = io.StringIO()
    record = {"metric": "accuracy", "score": 0.915, "kept": 0.6}
    console = Console(file=drawn, force_terminal=terminal, width=120, highlight=False)
    with progress(["spl", "standard"], console) as [spl, _]:
        spl(Moment(0, 3, 5, 12))
        until(lambda: "step 5/12" in drawn.getvalue())  # a thread draws it
        spl(Moment(2, 3, 12, 12, record))
    text = drawn.getvalue()
    assert "epoch 1/3 step 5/12" in text
    assert "epoch 3/3 step 12/12" in text
    assert "accuracy 91.5%, kept 60.0%" in text
    assert ("standard" in text) == terminal


def test_more_epochs_train_a_finished_run_on(tmp_path):
    assert thresher("train", *PRL, "--epochs", 2, "--out", tmp_path / "a").exit_code == 0
    again = thresher("train", *PRL, "--epochs", 3, "--out", tmp_path / "a")
    assert again.exit_code == 0, again.output
    assert "is not trained again" not in again.stderr
    assert read_toml(tmp_path / "a" / "run.toml")["epochs"] == 3
    trained(tmp_path / "b")
    assert_same_run(tmp_path / "a", tmp_path / "b")


def test_the_time_left_is_told_by_the_steps_after_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes before the first step, and that step itself, take longer than the others."""
    now, text = [0.0], io.StringIO()
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    with progress(["a"], plain_console(file=text, width=200)) as [watch]:
        for at, step in ((100.0, 1), (111.0, 2), (122.0, 3)):
            now[0] = at
            watch(Moment(0, 1, step, 10))
    lines = text.getvalue().splitlines()
    assert "left" not in lines[0]
    assert lines[1].endswith("about 1 min 28 s left")  # eight steps of eleven seconds
    assert lines[2].endswith("about 1 min 17 s left")
