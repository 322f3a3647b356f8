"""One place for settings: options, run.toml and a run's identity follow its fields; and no stored file names code."""

import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import typer
from PIL import Image
from tiny import net, streamed
from torch import Tensor
from torch.utils.data import TensorDataset
from typer.main import get_command
from typer.testing import CliRunner, Result

from thresher import Examples, Moment, Recipe, Run, ThresherError, TrainSettings, fit, load, rules
from thresher.__main__ import app
from thresher.app.cli import options_for, taking
from thresher.app.folders import first_difference, read_toml
from thresher.app.settings import Settings, make_settings, options_of, save, to_toml
from thresher.engine.settings import TRAINING, option
from thresher.slots import Growing

BESIDE = {
    "out",
    "from_",
    "as_json",
    "commit_every",
}  # options of thresher train that are about its folder and its words


def told(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "200"})


# Options


def test_every_option_of_train_is_a_setting_and_the_other_way_round() -> None:
    train = get_command(app).get_command(None, "train")  # type: ignore[attr-defined]
    names = {each.name for each in train.params} - {"help"}
    known = {field.name: field for field in fields(Settings)}
    assert names - BESIDE == {name for name, field in known.items() if field.metadata["panel"] is not None}
    shown = " ".join(told("train", "--help").output.split())
    for each in train.params:
        if each.name in known and each.name not in BESIDE:
            flag = known[each.name].metadata.get("flag", f"--{each.name.replace('_', '-')}")
            assert each.opts == [flag]
            assert flag in shown
            assert known[each.name].metadata["help"].split(":")[0].split("(")[0].strip()[:40] in each.help


@dataclass(frozen=True)
class More(Settings):
    """Two settings more: one that makes another run, and one that does not."""

    patience: int | None = option(None, TRAINING, "How long to wait.")
    verbose: bool = option(False, TRAINING, "Say more.", same_run=False)
    hidden: int = option(3, None, "Not an option.")


def test_a_new_field_is_an_option_a_line_of_toml_and_part_of_a_run(tmp_path: Path) -> None:
    given: dict[str, Any] = {}
    command = typer.Typer()

    @command.command()
    @taking(options_for(More))
    def train(found: dict[str, Any]) -> None:
        given.update(found)

    result = CliRunner().invoke(command, ["--patience", "7", "--verbose", "--data", "digits", "--method", "spl"])
    assert result.exit_code == 0, result.output
    assert given == {"patience": 7, "verbose": True, "data": "digits", "method": "spl"}
    assert "--hidden" not in CliRunner().invoke(command, ["--help"]).output
    settings = make_settings(given, kind=More)
    text = to_toml(settings)
    assert "patience = 7\n" in text
    assert "verbose = true\n" in text
    assert "hidden" not in text
    save(settings, tmp_path / "run.toml")
    stored = read_toml(tmp_path / "run.toml", More)
    assert More(**stored) == settings
    assert first_difference(settings, stored) is None
    assert first_difference(settings, stored | {"verbose": False}) is None
    assert first_difference(settings, stored | {"patience": 8}) == "patience"
    with pytest.raises(ThresherError, match=r"no setting in .* 'patience'"):
        read_toml(tmp_path / "run.toml")


OTHER: dict[str, Any] = {  # of each option a value that is not its default
    "epochs": 7, "steps": 9, "batch": 33, "optimizer": "sgd", "learning_rate": 0.25, "momentum": 0.5,
    "weight_decay": 1e-4, "schedule": "step:80,100", "augment": "weak,strong", "clean_batch": 5, "seed": 11,
    "precision": "float32", "compiled": True, "deterministic": True, "device": "cpu", "workers": 2, "sharded": True,
    "signals_at_once": 2.5,
    "method": "spl",
    "data": 'a "quoted" [/b]\\path:ü', "corruption": "symmetric:0.4", "data_dir": "C:\\data", "noise_rate": 0.4,
    "model": "mlp:8", "clean": "50", "validation": 0.2, "early_stop": True, "fine_tune": True, "fine_tune_steps": 9,
    "pool": True, "test": "checked.csv", "task": "classes", "categorical": "a,b", "drop": "c", "na": "?,-", "sep": ";",
    "groups": "person", "skip_broken": True, "start": "represent:20", "features": "vectors.npy",
    "mix": "none",
}  # fmt: skip
FREE = {
    "compiled",
    "deterministic",
    "device",
    "sharded",
    "signals_at_once",
    "workers",
    "data_dir",
}  # a run may go on under another value of these


def test_the_table_of_values_is_whole() -> None:
    assert set(OTHER) == {field.name for field in options_of(Settings)}
    assert {field.name for field in options_of(Settings) if not field.metadata["identifies"]} == FREE


@pytest.mark.parametrize("name", OTHER)
def test_every_setting_comes_back_from_run_toml_and_tells_runs_apart(name: str, tmp_path: Path) -> None:
    plain = Settings(method="standard", data="digits")
    changed = replace(plain, **{name: OTHER[name]})
    save(changed, tmp_path / "run.toml")
    stored = read_toml(tmp_path / "run.toml")
    assert Settings(**stored) == changed
    assert first_difference(plain, stored) == (None if name in FREE else name)


def test_noise_rates_in_words_come_back(tmp_path: Path) -> None:
    for rate in ("auto", "folds", 0.25):
        save(make_settings({"method": "spl", "data": "digits", "noise_rate": rate}), tmp_path / "run.toml")
        assert read_toml(tmp_path / "run.toml")["noise_rate"] == rate


# Identity: which changes of data and settings make another run

N = 200
SETS = ("train", "test", "clean", "validation")


def rows(count: int = N, seed: int = 0) -> Examples:
    draws = torch.Generator().manual_seed(seed)
    inputs = torch.randint(0, 256, (count, 1, 4, 4), generator=draws, dtype=torch.uint8)
    ids = torch.arange(count) + 1000 * seed
    return Examples(inputs, torch.arange(count) % 3, ids=ids, columns={"is_corrupt": torch.arange(count) % 5 == 0})


DATA = {name: rows(seed=seed) for seed, name in enumerate(SETS)}


class Stopped(Exception):  # noqa: N818
    pass


def stop(moment: Moment) -> None:
    if moment.epoch == 1:
        raise Stopped


def trained(out: Path, watch: Any = None, recipe: Any = None, **changes: Any) -> Run:
    given: dict[str, Any] = {"epochs": 2, "batch": 64, "device": "cpu", "commit_every": 0.0, **DATA, **changes}
    what = recipe or Recipe(each_batch=rules.MetaGradient())
    return fit(what, given.pop("model", net), given.pop("train"), out=out, watch=watch, **given)


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was stopped in its second epoch."""
    out = tmp_path_factory.mktemp("begun") / "run"
    with pytest.raises(Stopped):
        trained(out, stop)
    return out


@pytest.fixture
def folder(begun: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(begun, tmp_path / "run"))


def other_pixel(data: Examples, place: int) -> Examples:
    assert isinstance(data.inputs, Tensor)
    inputs = data.inputs.clone()
    inputs[place, 0, 3, 3] ^= 1
    return replace(data, inputs=inputs)


def other_label(data: Examples, place: int) -> Examples:
    targets = data.targets.clone()
    targets[place] = (targets[place] + 1) % 3
    return replace(data, targets=targets)


def other_column(data: Examples, place: int) -> Examples:
    column = data.columns["is_corrupt"].clone()
    column[place] = ~column[place]
    return data.with_columns(is_corrupt=column)


def swapped_labels(data: Examples, place: int) -> Examples:
    """Two labels change places, which no sum shows."""
    targets = data.targets.clone()
    targets[place], targets[place - 1] = data.targets[place - 1], data.targets[place]
    return replace(data, targets=targets)


CHANGES = (other_pixel, other_label, other_column, swapped_labels)


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_any_change_of_any_set_is_another_run(name: str, change: Callable[..., Examples], folder: Path) -> None:
    for place in (1, 100, N - 1):  # 1 and 199 are no multiples of N // 64
        with pytest.raises(ThresherError, match=f"holds another run \\(its {name} set differs\\)"):
            trained(folder, **{name: change(DATA[name], place)})
    assert len(trained(folder).history) == 2


@pytest.mark.parametrize("kind", ["a dataset of one's own", "tensors", "a part of one"])
def test_a_dataset_whose_content_changed_is_another_run(kind: str, tmp_path: Path) -> None:
    def made(data: Examples) -> Any:
        assert isinstance(data.inputs, Tensor)
        if kind == "tensors":
            return TensorDataset(data.inputs, data.targets)
        if kind == "a part of one":
            return streamed(data).subset(list(range(150)))
        return streamed(data)

    train = replace(DATA["train"], columns={})
    with pytest.raises(Stopped):
        trained(tmp_path / "run", stop, Recipe(), train=made(train), clean=None)
    for place in (1, 100, 149):
        with pytest.raises(ThresherError, match="its train set differs"):
            trained(tmp_path / "run", None, Recipe(), train=made(other_pixel(train, place)), clean=None)
    assert len(trained(tmp_path / "run", None, Recipe(), train=made(train), clean=None).history) == 2


DIFFERENT: dict[str, Any] = {
    "epochs": 1, "batch": 32, "seed": 1, "optimizer": "sgd", "schedule": "cosine", "clean_batch": 7,
    "keep": "best_on_validation", "precision": "bfloat16",
}  # fmt: skip


@pytest.mark.parametrize("name", DIFFERENT)
def test_a_setting_that_identifies_is_named(name: str, folder: Path) -> None:
    with pytest.raises(ThresherError, match=f"its {name} (differs|is 2.0, not 1.0)"):
        trained(folder, **{name: DIFFERENT[name]})


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"learning_rate": 0.5}, "optimizer"),
        ({"weight_decay": 0.1}, "optimizer"),
        ({"average": Growing(0.9)}, "recipe"),
        ({"augment": "weak"}, "recipe"),
        ({"mix": "mixup"}, "recipe"),
        ({"recipe": Recipe()}, "recipe"),
        ({"model": lambda: net(dropout=0.5)}, "model"),
    ],
)
def test_what_stands_elsewhere_is_named_there(change: dict[str, Any], named: str, folder: Path) -> None:
    with pytest.raises(ThresherError, match=f"its {named} differs"):
        trained(folder, **change)


@pytest.mark.filterwarnings("ignore:compiled=True changes nothing", "ignore::DeprecationWarning")
@pytest.mark.parametrize(
    "change", [{"workers": 1}, {"device": None}, {"commit_every": 9.0}, {"compiled": True}, {"deterministic": True}]
)
def test_how_it_is_computed_may_change(change: dict[str, Any], folder: Path) -> None:
    assert len(trained(folder, **change).history) == 2


def test_an_image_whose_content_changed_is_another_run(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(10):
            pixels = np.full((12, 12, 3), 20 * number + ord(name) % 2, dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{number}.bmp")
    splits = load(str(tmp_path / "photos"))

    def go(watch: Any = None) -> Run:
        return fit("standard", "mlp:4", splits, epochs=2, out=tmp_path / "run", watch=watch, commit_every=0.0)

    with pytest.raises(Stopped):
        go(stop)
    for part in ("train", "test"):
        file = getattr(splits, part).inputs
        path = file.dataset.paths[file.positions[-1]]
        whole, before = path.read_bytes(), path.stat()
        path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))  # of the same size
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
        with pytest.raises(ThresherError, match=f"its {part} set differs"):
            go()
        path.write_bytes(whole)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert len(go().history) == 2


# Code that a stored file names

MODULE = """
from pathlib import Path
Path(__file__).with_name("imported").write_text("")
from torch import nn
def make(input_shape, outputs):
    return nn.Sequential(nn.Flatten(), nn.Linear(input_shape[0], outputs))
"""


@pytest.fixture
def pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run on a table with a pool by a model of one's own, whose import leaves the file `imported`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "own_model", raising=False)
    Path("own_model.py").write_text(MODULE)
    kinds = np.where(np.arange(60) < 30, np.array(["cat", "dog"])[np.arange(60) % 2], "")
    pd.DataFrame({"length": np.arange(60) % 2 + 0.1, "kind": kinds}).to_csv("rows.csv", index=False)
    words = ["--data", "rows.csv:kind", "--pool", "--method", "standard", "--epochs", 1, "--out", "run"]
    result = told("train", *words, "--model", "own_model:make")
    assert result.exit_code == 0, result.output
    Path("imported").unlink()
    del sys.modules["own_model"]
    Path("answers.csv").write_text("id,label\n40,cat\n41,dog\n")
    return Path("run")


COMMANDS: dict[str, list[str]] = {
    "query": ["query", "run", "--count", "3", "--by", "margin"],
    "label": ["label", "run", "answers.csv"],
    "train": ["train", "--from", "run/run.toml", "--out", "again"],
    "predict": ["predict", "run", "rows.csv"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_import_code_only_where_the_command_names_it(name: str, pool: Path) -> None:
    for beside in ([], *([["--model", "mlp:4"]] if name in ("query", "label") else [])):
        refused = told(*COMMANDS[name], *beside)
        assert refused.exit_code == 2, refused.output
        assert "names code to import as its model" in refused.output
        assert not Path("imported").exists()
        assert not Path("again").exists()
        assert not (pool / "answers.csv").exists()
    accepted = told(*COMMANDS[name], "--model", "own_model:make")
    assert accepted.exit_code == 0, accepted.output
    assert Path("imported").exists()


def test_another_model_takes_the_place_of_stored_code(pool: Path) -> None:
    done = told("train", "--from", pool / "run.toml", "--model", "mlp:4", "--out", "again")
    assert done.exit_code == 0, done.output
    assert not Path("imported").exists()


def test_a_setting_is_checked_wherever_it_is_given() -> None:
    for make in (TrainSettings, Settings):
        with pytest.raises(ThresherError, match="epochs must be a whole number"):
            make(epochs="3")  # type: ignore[arg-type]
