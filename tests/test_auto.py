"""The method that auto chooses: by what it sees, from the ranking, the same again; and what it tells."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny import net, real_examples
from torch import nn
from typer.testing import CliRunner

from thresher import Examples, ThresherError, fit
from thresher.__main__ import app
from thresher.app.folders import read_toml
from thresher.corruption import corrupt
from thresher.data.loading import digits
from thresher.methods import METHODS, choose
from thresher.methods.auto import neighbours_rate, ranking, simpler

ROOT = Path(__file__).parents[1]


def factory() -> nn.Module:
    return net()


def lopsided(*shape: int) -> Examples:
    """Two groups far apart, one of them rare; images, unless the shape is that of rows."""
    labels = (torch.arange(400) % 21 == 0).long()
    inputs = torch.randn(400, 4, generator=torch.Generator().manual_seed(0)) + 9 * labels[:, None]
    return Examples(inputs.reshape(400, *(shape or (1, 2, 2))), labels, classes=2)


def chosen(train: Examples, model: Any = factory, **changes: Any) -> str:
    return choose(train, model, **{"epochs": 30, **changes}).method


@pytest.mark.parametrize(
    ("changes", "seen"),
    [
        ({}, "classes"),
        ({"noise_rate": 0.3}, "classes"),
        ({"noise_rate": 0.8}, "mostly wrong"),
        ({"clean": True}, "clean examples"),
    ],
)
def test_the_best_of_the_situation_is_chosen(changes: dict[str, Any], seen: str) -> None:
    assert chosen(corrupt(digits().train, "symmetric:0.3", seed=0), **changes) == ranking()[seen][0]["method"]


def test_what_it_sees_decides() -> None:
    assert chosen(digits().train) == "standard", "nothing is wrong"
    assert chosen(real_examples()) == next(row["method"] for row in ranking()["regression"])
    balanced = next(row["method"] for row in ranking()["imbalanced"] if not METHODS[row["method"]].needs)
    assert chosen(lopsided()) == balanced
    assert chosen(lopsided(), clean=True) == ranking()["imbalanced"][0]["method"]
    rows = choose(lopsided(4), factory, epochs=30)
    assert rows.method == next(row["method"] for row in ranking()["imbalanced tables"] if row["method"] != "l2rw")
    assert chosen(lopsided(), noise_rate=0.3) == ranking()["classes"][0]["method"], "wrong labels weigh more"


def test_a_stray_class_does_not_make_a_set_imbalanced() -> None:
    inputs, labels = torch.randn(400, 1, 2, 2), torch.arange(400) % 3
    labels[:4] = 3
    assert chosen(Examples(inputs, labels, classes=4)) == ranking()["classes"][0]["method"]
    labels[:8] = 3
    assert chosen(Examples(inputs, labels, classes=4)) == chosen(lopsided())
    rare = (torch.arange(400) < 4).long()
    assert chosen(Examples(inputs, rare, classes=2)) == chosen(lopsided()), "there is no other class"


def test_where_simpler_is_as_good_it_is_said() -> None:
    said = choose(lopsided(4), factory, epochs=30).sentence()
    for row in simpler()["imbalanced tables"]:
        assert (f"{row['way']} on {row['ahead']} of {row['cells']}" in said) == (3 * row["ahead"] >= row["cells"])
    assert "scikit-learn's balanced logistic regression" in said
    assert "simpler" not in choose(lopsided(), factory, epochs=30).sentence(), "measured on tables alone"


def test_what_cannot_run_here_is_passed_over() -> None:
    noisy = corrupt(digits().train, "symmetric:0.3", seed=0)
    short = METHODS[chosen(noisy, epochs=2)]
    assert "noise_rate" not in short.needs, "there is no time to find the rate"
    assert "model factory" not in METHODS[chosen(real_examples(), net())].needs
    for seen in ranking():
        assert any(not METHODS[row["method"]].needs for row in ranking()[seen]), seen


def test_neighbours_tell_the_rate_or_that_they_cannot() -> None:
    found = neighbours_rate(corrupt(digits().train, "symmetric:0.3", seed=0))
    assert found.low < 0.3 < found.high
    equal = Examples(torch.ones(300, 3), torch.arange(300) % 3)
    assert neighbours_rate(equal).rate is None
    assert neighbours_rate(Examples(torch.ones(5, 3), torch.arange(5) % 2)).rate is None


def test_fit_trains_by_the_method_and_says_why(tmp_path: Path) -> None:
    train = corrupt(digits().train, "symmetric:0.3", seed=0)
    settings: dict[str, Any] = {"noise_rate": 0.3, "epochs": 2, "batch": 256, "device": "cpu"}
    run = fit("auto", "mlp:16", train, out=tmp_path / "a", **settings)
    name = chosen(train, noise_rate=0.3, epochs=2)
    assert run.about["method"] == name
    assert run.about["chosen"].startswith(f"auto chose {name}: 1,438 examples of 10 classes, 30% of the labels said")
    named = fit(name, "mlp:16", train, **settings)
    assert [row["loss"] for row in run.history] == [row["loss"] for row in named.history]
    assert fit("auto", "mlp:16", train, out=tmp_path / "a", **settings).history == run.history, "finished already"


def test_a_run_that_has_begun_goes_on_by_its_method(tmp_path: Path) -> None:
    words = ["train", "--data", "blobs:200,3", "--corrupt", "symmetric:0.3", "--model", "mlp:8", "--batch", "64",
             "--device", "cpu", "--out", str(tmp_path / "a")]  # fmt: skip
    assert CliRunner().invoke(app, [*words, "--method", "prl-l", "--epochs", "4"]).exit_code == 0
    result = CliRunner().invoke(app, [*words, "--epochs", "6"])
    assert result.exit_code == 0, result.output
    assert f"auto chose prl-l: the run in {tmp_path / 'a'} was begun by it." in result.stderr
    assert read_toml(tmp_path / "a" / "run.toml")["epochs"] == 6
    train = corrupt(digits().train, "symmetric:0.3", seed=0)
    settings: dict[str, Any] = {"batch": 256, "device": "cpu", "out": tmp_path / "b"}
    fit("prl-l", "mlp:16", train, epochs=4, **settings)
    assert chosen(train, epochs=5) != "prl-l"
    longer = fit("auto", "mlp:16", train, epochs=5, **settings)
    assert (longer.about["method"], len(longer.history)) == ("prl-l", 5)


@pytest.mark.parametrize("name", ["dmi", "f-correction"])
def test_several_trainings_that_share_their_epochs_are_not_made_longer(tmp_path: Path, name: str) -> None:
    """Nor is one of them, which would leave a folder that no command could finish."""
    train = corrupt(digits().train.subset(torch.arange(200)), "symmetric:0.3", seed=0)
    settings: dict[str, Any] = {"batch": 32, "device": "cpu", "out": tmp_path / "a"}
    run = fit(name, "mlp:8", train, epochs=4, **settings)
    with pytest.raises(ThresherError, match=f"has 4 epochs, which the trainings of {name} share: to train for 12, cho"):
        fit(name, "mlp:8", train, epochs=12, **settings)
    assert fit(name, "mlp:8", train, epochs=4, **settings).history == run.history


def test_the_command_chooses_by_default_tells_it_first_and_stores_the_name(tmp_path: Path) -> None:
    words = ["train", "--data", "blobs:200,3", "--corrupt", "symmetric:0.3", "--epochs", "4", "--model", "mlp:8",
             "--batch", "64", "--device", "cpu", "--out", str(tmp_path / "a")]  # fmt: skip
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    first = result.stderr.splitlines()[0]
    stored = read_toml(tmp_path / "a" / "run.toml")["method"]
    assert first.startswith(f"auto chose {stored}: ")
    again = CliRunner().invoke(app, words)
    assert "is finished and is not trained again" in again.stderr
    other = CliRunner().invoke(app, [*words, "--method", "standard"])
    assert other.exit_code == 2
    assert f"its method is {stored}, not standard" in other.stderr


def test_the_ranking_is_what_the_stored_results_give() -> None:
    spec = importlib.util.spec_from_file_location("ranking_script", ROOT / "benchmarks" / "ranking.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert ranking() == script.ranking(ROOT / "results"), "run python benchmarks/ranking.py"
    assert simpler() == script.simpler(ROOT / "results"), "run python benchmarks/ranking.py"


BEGIN_WITH = {  # situation -> how its row of the page begins
    "classes": "| labels, some of them wrong |",
    "mostly wrong": "| mostly wrong labels |",
    "clean examples": "| a few examples known to be right |",
    "imbalanced": "| rare classes | right labels |",
    "regression": "| real targets, some of them wrong |",
}


@pytest.mark.parametrize(("seen", "begins"), BEGIN_WITH.items())
def test_the_page_begins_with_what_the_ranking_has_first(seen: str, begins: str) -> None:
    lines = (ROOT / "docs" / "which-method.md").read_text(encoding="utf-8").splitlines()
    row = next(line for line in lines if line.startswith(begins))
    first = [each["method"] for each in ranking()[seen]]
    assert row.partition("](methods/")[2].partition(".md")[0] in first[:3]


def test_a_name_that_is_unknown_is_still_refused() -> None:
    with pytest.raises(ThresherError, match="autoo"):
        fit("autoo", net, digits().train, epochs=1)
