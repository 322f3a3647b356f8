"""open_run gives back everything a run knows: after its end, after an interruption, in another process."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from tiny import assert_same_tensors, examples, net, tensors, trusted, without_clock
from torch import nn

from thresher import Moment, Run, ThresherError, fit, load, open_run
from thresher.methods import fine_tune
from thresher.record.run_folder import CHECKPOINT, LEDGER, MODEL, STAGES

SHORT: dict[str, Any] = {"epochs": 2, "batch": 8, "device": "cpu", "commit_every": 0.0}


def images(folder: Path, count: int = 10) -> Path:
    """Small pictures of two classes, each mostly of one colour."""
    draws = np.random.default_rng(0)
    for name, at in (("red", 0), ("blue", 2)):
        (folder / name).mkdir(parents=True)
        for number in range(count):
            pixels = draws.integers(0, 60, (12, 12, 3), dtype=np.uint8)
            pixels[..., at] += 150
            Image.fromarray(pixels).save(folder / name / f"{number}.png")
    return folder


def table(path: Path, target: str = "real") -> Path:
    draws = np.random.default_rng(0)
    size, town = draws.normal(10, 3, 60), draws.choice(["Bonn", "Rome"], 60)
    real = 1000 + 50 * size + draws.normal(0, 1, 60)
    kind = np.where(size > 10, "big", "small")
    pd.DataFrame({"size": size, "town": town, target: real if target == "real" else kind}).to_csv(path, index=False)
    return path


def stop_after_the_first_epoch(moment: Moment) -> None:
    if moment.epoch == 1 and moment.step == 1:
        raise KeyboardInterrupt


def fitted(what: str, out: Path, model: Any = "mlp:8", **more: Any) -> tuple[Run, Any]:
    train = examples(60)
    return fit(what, model, train, noise_rate=0.25, test=examples(20, seed=3), out=out, **(SHORT | more)), train.inputs


def photos(out: Path) -> tuple[Run, Any]:
    folder = images(out.parent / "photos")
    return fit("standard", "mlp:8", load(str(folder)), out=out, **SHORT), folder


def rows(out: Path, target: str = "real") -> tuple[Run, Any]:
    path = table(out.parent / "rows.csv", target)
    return fit("standard", "mlp:8", load(f"{path}:{target}"), out=out, **SHORT), path


def tuned(out: Path) -> tuple[Run, Any]:
    train = examples(60)
    run = fit("standard", "mlp:8", train, **SHORT)
    return fine_tune(run, trusted(train, 9), steps=6, batch=4, out=out, device="cpu"), train.inputs


RUNS: dict[str, Callable[[Path], tuple[Run, Any]]] = {
    "a recipe": partial(fitted, "spl"),
    "two networks": partial(fitted, "co-teaching"),
    "an average": partial(fitted, "reclaim"),
    "best on validation": partial(
        fitted, "standard", validation=examples(30, seed=5), keep="best_on_validation", epochs=4
    ),
    "f-correction": partial(fitted, "f-correction"),
    "dmi": partial(fitted, "dmi"),
    "batch norm": partial(fitted, "standard", model=partial(net, batch_norm=True)),
    "stopped by until": partial(fitted, "standard", epochs=9, until=lambda record: record["epoch"] == 2),
    "rows with real targets": rows,
    "rows with classes": partial(rows, target="kind"),
    "image files": photos,
    "fine-tuned": tuned,
}


def same(opened: Run, run: Run, raw: Any) -> None:
    assert_same_tensors(tensors(opened), tensors(run))
    assert without_clock(opened.history) == without_clock(run.history)
    pd.testing.assert_frame_equal(opened.ledger.to_pandas(), run.ledger.to_pandas(), check_exact=True)
    for ours, theirs in zip(opened.trust(), run.trust(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0)
    np.testing.assert_array_equal(opened.predict(raw), run.predict(raw))
    assert (opened.stopped, opened.chosen, opened.scores) == (run.stopped, run.chosen, run.scores)
    assert opened.class_names == run.class_names


@pytest.mark.parametrize("name", RUNS)
def test_a_finished_run_comes_back_whole(name: str, tmp_path: Path) -> None:
    run, raw = RUNS[name](tmp_path / "run")
    before = torch.get_rng_state()
    own = partial(net, batch_norm=True) if name == "batch norm" else None
    opened = open_run(tmp_path / "run", device="cpu", model=own)
    assert torch.equal(torch.get_rng_state(), before)
    assert opened.finished
    assert not any(model.training for model in opened.models)
    same(opened, run, raw)
    if run.about["classes"] is not None:
        np.testing.assert_array_equal(opened.predict_proba(raw), run.predict_proba(raw))


def test_what_a_best_epoch_kept_is_what_is_opened(tmp_path: Path) -> None:
    run, raw = fitted(
        "standard",
        tmp_path / "run",
        validation=examples(30, seed=5),
        keep="best_on_validation",
        epochs=6,
        learning_rate=3.0,
    )
    assert run.chosen is not None
    same(open_run(tmp_path / "run"), run, raw)


IN_A_NEW_PROCESS = """
import sys, numpy, torch
import thresher
torch.set_num_threads(1)
run = thresher.open_run(sys.argv[1], device="cpu")
raw = sys.argv[2] if not sys.argv[2].endswith(".npy") else numpy.load(sys.argv[2])
numpy.savez(sys.argv[3], predicted=run.predict(raw), ids=run.trust()[0].numpy(), trust=run.trust()[1].numpy())
print(run.report())
"""


@pytest.mark.parametrize("name", ["an average", "rows with real targets", "image files"])
def test_a_new_process_predicts_the_same_and_reports(name: str, tmp_path: Path) -> None:
    run, raw = RUNS[name](tmp_path / "run")
    given = raw
    if not isinstance(raw, Path):
        given = tmp_path / "raw.npy"
        np.save(given, raw.numpy())
    found = tmp_path / "found.npz"
    command = [sys.executable, "-c", IN_A_NEW_PROCESS, str(tmp_path / "run"), str(given), str(found)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=dict(os.environ))
    told = np.load(found)
    np.testing.assert_array_equal(told["predicted"], run.predict(raw))
    np.testing.assert_array_equal(told["trust"], run.trust()[1].numpy())
    page = Path(done.stdout.strip())
    assert page == tmp_path / "run" / "report.html"
    assert "<html" in page.read_text(encoding="utf-8")


def test_real_targets_are_predicted_in_their_own_unit(tmp_path: Path) -> None:
    path = table(tmp_path / "rows.csv")
    fit("standard", "mlp:32", load(f"{path}:real"), out=tmp_path / "run", epochs=60, learning_rate=0.01, device="cpu")
    true = pd.read_csv(path)["real"].to_numpy()
    assert np.abs(open_run(tmp_path / "run").predict(path)[:, 0] - true).mean() < 40


def test_an_interrupted_run_is_opened_as_far_as_it_came(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        fitted("spl", tmp_path / "run", watch=stop_after_the_first_epoch)
    opened = open_run(tmp_path / "run")
    whole, raw = fitted("spl", tmp_path / "whole", epochs=1)
    assert not opened.finished
    assert len(opened.history) == 1
    assert_same_tensors(tensors(opened), tensors(whole))
    np.testing.assert_array_equal(opened.predict(raw), whole.predict(raw))
    assert len(opened.trust()[0]) == 60


def test_an_interrupted_run_has_chosen_no_epoch_yet(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        fitted(
            "standard", tmp_path / "run", validation=examples(30, seed=5), keep="best_on_validation",
            watch=stop_after_the_first_epoch,
        )  # fmt: skip
    assert open_run(tmp_path / "run").chosen is None


def test_a_run_that_saved_nothing_yet_is_named(tmp_path: Path) -> None:
    def at_once(_: Moment) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fitted("spl", tmp_path / "run", watch=at_once)
    with pytest.raises(ThresherError, match="has saved no epoch yet"):
        open_run(tmp_path / "run")


def test_stages_are_runs_of_their_own(tmp_path: Path) -> None:
    _, raw = fitted("f-correction", tmp_path / "run")
    stages = sorted((tmp_path / "run" / STAGES).iterdir())
    assert stages
    assert open_run(stages[0]).predict(raw).shape == (60,)


def test_a_fine_tuned_run_knows_what_the_run_knew(tmp_path: Path) -> None:
    path = table(tmp_path / "rows.csv", "kind")
    splits = load(f"{path}:kind")
    run = fit("standard", "mlp:8", splits, **SHORT)
    bare = type(splits.train)(splits.train.inputs[:9], splits.train.targets[:9], classes=2)  # no names, no columns
    fine_tune(run, bare, steps=4, batch=4, out=tmp_path / "tuned", device="cpu")
    opened = open_run(tmp_path / "tuned")
    assert opened.class_names == ["big", "small"]
    assert set(opened.predict(path)) <= {"big", "small"}


def damaged(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    def act(folder: Path) -> None:
        told = json.loads((folder / MODEL).read_text())
        (folder / MODEL).write_text(json.dumps(change(told) or told))

    return act


def without(name: str) -> Callable[[Path], None]:
    return damaged(lambda told: {key: value for key, value in told.items() if key != name})


def without_the_folder(folder: Path) -> None:
    shutil.rmtree(folder)


def as_a_file(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.write_text("")


def as_another_folder(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()


def with_a_lost_part(folder: Path) -> None:
    next((folder / LEDGER).glob("*.parquet")).unlink()


def with_half_a_checkpoint(folder: Path) -> None:
    whole = (folder / CHECKPOINT).read_bytes()
    (folder / CHECKPOINT).write_bytes(whole[: len(whole) // 2])


BROKEN: dict[str, tuple[Callable[[Path], Any], str]] = {
    "no folder": (without_the_folder, "There is no folder"),
    "a file": (as_a_file, "There is no folder"),
    "another folder": (as_another_folder, "holds no run"),
    "the old format": (lambda folder: (folder / MODEL).unlink(), "earlier version of Thresher"),
    "a newer format": (damaged(lambda told: told | {"format": 99}), "newer version of Thresher"),
    "no format": (without("format"), "is damaged"),
    "no shape": (without("input_shape"), "is damaged"),
    "no preparation": (without("preparation"), "is damaged"),
    "no classes": (without("classes"), "is damaged"),
    "a list": (damaged(lambda _: [1]), "is damaged"),
    "half a file": (lambda folder: (folder / MODEL).write_text('{"format": 2, "mo'), "is damaged"),
    "not text": (lambda folder: (folder / MODEL).write_bytes(b"\xff\xfe\x00"), "is damaged"),
    "half a checkpoint": (with_half_a_checkpoint, "is damaged and cannot be read"),
    "another checkpoint": (lambda folder: torch.save({"a": 1}, folder / CHECKPOINT), "is damaged .it lacks"),
    "no checkpoint": (lambda folder: (folder / CHECKPOINT).unlink(), "has saved no epoch yet"),
    "a lost part of the ledger": (with_a_lost_part, "lost or damaged"),
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished") / "run"
    fitted("standard", folder, epochs=1)
    return folder


@pytest.mark.parametrize("case", BROKEN)
def test_what_cannot_be_opened_is_said_in_a_sentence(case: str, finished: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(finished, tmp_path / "run"))
    act, sentence = BROKEN[case]
    act(folder)
    with pytest.raises(ThresherError, match=sentence) as caught:
        open_run(folder)
    assert "\n" not in str(caught.value)


def test_a_damaged_preparation_is_said_when_it_is_used(finished: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(finished, tmp_path / "run"))
    damaged(lambda told: told | {"preparation": {"kind": "arrays"}})(folder)
    with pytest.raises(ThresherError, match="how inputs are prepared is damaged"):
        open_run(folder).predict(examples().inputs)


def test_a_model_of_ones_own_is_asked_for(tmp_path: Path) -> None:
    run, raw = fitted("standard", tmp_path / "run", model=net)
    with pytest.raises(ThresherError, match="pass model=, one like it or its function"):
        open_run(tmp_path / "run")
    module = net()
    before = [each.detach().clone() for each in module.state_dict().values()]
    for like in (net, module):
        same(open_run(tmp_path / "run", model=like), run, raw)
    assert_same_tensors(list(module.state_dict().values()), before)  # which is copied, not filled
    wrong: dict[str, Any] = {
        "does not fit what": partial(net, 4),
        "does not fit": nn.Linear(3, 3),
        "A int is no model": 3,
        "cannot be called without arguments": nn.Linear,
        "did you mean 'mlp'": "mpl",
        "The model does not fit": "auto",
        "made a NoneType": lambda: None,
    }
    for sentence, other in wrong.items():
        with pytest.raises(ThresherError, match=sentence) as caught:
            open_run(tmp_path / "run", model=other)
        assert "\n" not in str(caught.value)


MODULE = """
from pathlib import Path
Path(__file__).with_name("imported").write_text("")
from torch import nn
def make(input_shape, outputs):
    return nn.Sequential(nn.Flatten(), nn.Linear(16, outputs))
"""


@pytest.fixture
def own_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module whose import leaves a file; gives that file."""
    (tmp_path / "own_code.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "own_code", raising=False)
    return tmp_path / "imported"


@pytest.mark.parametrize("name", ["own_code:make", "own_code", "json:loads", "../own_code:make"])
def test_code_that_a_folder_names_is_not_imported(name: str, own_code: Path, finished: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(finished, tmp_path / "run"))
    damaged(lambda told: told | {"model": name})(folder)
    with pytest.raises(ThresherError, match="names code to import"):
        open_run(folder)
    assert not own_code.exists()


def test_code_that_the_caller_names_is_imported(own_code: Path, tmp_path: Path) -> None:
    run, raw = fitted("standard", tmp_path / "run", model="own_code:make")
    assert own_code.exists()
    with pytest.raises(ThresherError, match="pass model='own_code:make' if you trust it"):
        open_run(tmp_path / "run")
    same(open_run(tmp_path / "run", model="own_code:make"), run, raw)


def test_a_report_needs_a_folder() -> None:
    with pytest.raises(ThresherError, match="train with fit"):
        fit("standard", "mlp:8", examples(), **SHORT).report()


def test_a_run_says_what_it_is_in_one_line(tmp_path: Path) -> None:
    run = fit("prl-l", "mlp:4", load("blobs:60,2,3"), noise_rate=0.1, epochs=2, out=tmp_path / "a")
    assert repr(run) == f"Run(method='prl-l', model='mlp:4', epochs=2, last={run.last():.3f}, out='{tmp_path / 'a'}')"
