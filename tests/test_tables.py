"""Tables as people have them: ids, dates, gaps, rare texts, groups and options; and test sets of their own."""

import datetime
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from pyarrow import csv
from typer.testing import CliRunner

from thresher import ThresherError, fit
from thresher.__main__ import app
from thresher.app.terminal import against_true_labels
from thresher.core import errors
from thresher.core.examples import Examples
from thresher.corruption import corrupt
from thresher.data import (
    Splits,
    TableOptions,
    column_encoders,
    digits,
    hold_out,
    is_held_out,
    load,
    load_test,
    load_whole,
    notes_of,
    preparation_of,
    split,
    table_files,
)
from thresher.data.preparation_record import preparation_from_record
from thresher.data.table_files import read_table
from thresher.data.tables import table
from thresher.engine.loop.history import measure
from thresher.engine.loop.scores import trimmed_r_squared
from thresher.noise import CorrectedAccuracy
from thresher.report.page import _caution
from thresher.report.run_record import read_run
from thresher.report.summary import against_labels, is_against_given_labels

DRAWS = np.random.default_rng(0)


def frame(rows: int = 60, **columns: Any) -> pd.DataFrame:
    """A table with one input that tells the target, and these columns."""
    age = DRAWS.normal(40, 10, rows)
    return pd.DataFrame({"age": age, **columns, "target": np.where(age > 40, "old", "young")})


def saved(table: pd.DataFrame, path: Path, **how: Any) -> str:
    table.to_csv(path, index=False, **how)
    return str(path)


def width(examples: Examples) -> int:
    return examples.input_shape[0]


def test_ids_and_free_texts_are_carried_along_with_a_line_that_says_so(tmp_path: Path) -> None:
    names = {"user_id": range(100, 160), "path": [f"scans/{at}.png" for at in range(60)], "size": range(60)}
    name = saved(frame(**names), tmp_path / "t.csv")
    train = load(name).train
    assert width(train) == 2  # age and size: numbers that all differ are no ids unless they are called so
    assert [note.split(":")[0] for note in notes_of(train)] == [
        f"Column {column} has another value in nearly every row" for column in ("user_id", "path")
    ]
    assert list(train.brought) == ["user_id", "path"]
    assert [train.brought["path"][at] for at in (7, 11)] == [f"scans/{int(train.ids[at])}.png" for at in (7, 11)]
    read = preparation_from_record(json.loads(json.dumps(preparation_of(train).record())))
    assert read.carried == ("user_id", "path")  # type: ignore[attr-defined]


def test_a_text_with_many_values_becomes_few_columns(tmp_path: Path) -> None:
    towns = [f"town{at % 400 if at % 2 else at % 10}" for at in range(1200)]
    train = load(saved(frame(1200, town=towns), tmp_path / "t.csv")).train
    assert width(train) == 101
    assert "different texts: the 100 commonest are inputs" in notes_of(train)[0]
    encoder = preparation_of(train).encoders[1]  # type: ignore[attr-defined]
    assert {f"town{at}" for at in range(0, 10, 2)} <= set(encoder.known)


def test_dates_become_points_in_time_and_on_circles(tmp_path: Path) -> None:
    days = [datetime.date(2024, 1, 1) + datetime.timedelta(days=at) for at in range(60)]
    whole = frame(day=days, hour=[datetime.datetime(2024, 1, 1, at % 24) for at in range(60)])
    whole.loc[3, "day"] = None
    preparation = preparation_of(load_whole(saved(whole, tmp_path / "t.csv")))
    for source in (tmp_path / "t.csv", whole):
        made = preparation(source)
        assert isinstance(made, torch.Tensor)
        assert made.shape == (60, 1 + 6 + 7)  # age; day, two circles and a gap; hour and three circles
        monday, gap = made[0, 1:7], made[3, 1:7]
        assert torch.allclose(monday[1:5], torch.tensor([0.0, 1.0, 0.0, 1.0]), atol=1e-6)
        assert gap.tolist() == [0, 0, 0, 0, 0, 1]
        noon = made[12, 7:]
        assert torch.allclose(noon[5:], torch.tensor([0.0, -1.0]), atol=1e-6)


def test_missing_values_in_other_words(tmp_path: Path) -> None:
    weight = [str(at) if at % 5 else "?" for at in range(60)]
    kind = ["x" if at % 3 else "unknown" for at in range(60)]
    path = saved(frame(weight=weight, kind=kind), tmp_path / "t.csv")
    assert width(load(path).train) == 1 + 2 + 2  # weight is a number with gaps, and `unknown` a category
    told = load(path, options=TableOptions(na=("unknown",))).train
    encoder = preparation_of(told).encoders[-1]  # type: ignore[attr-defined]
    assert encoder.known == ("", "x")
    texts = pd.read_csv(path, dtype={"weight": str})
    texts.to_parquet(tmp_path / "t.parquet")
    numbers = load(f"{tmp_path / 't.parquet'}", options=TableOptions(na=("?", "unknown"))).train
    assert torch.equal(numbers.inputs, told.inputs)  # type: ignore[arg-type]
    raw = pd.DataFrame({"age": [1.0], "weight": ["?"], "kind": ["unknown"]})
    read = preparation_from_record(preparation_of(told).record())
    assert read(raw)[0, 2:].tolist() == [1.0, 1.0, 0.0]  # type: ignore[index]


@pytest.mark.parametrize(("sep", "told"), [(";", None), ("|", None), (":", ":"), ("\t", "tab")])
def test_other_separators(tmp_path: Path, sep: str, told: str | None) -> None:
    path = saved(frame(size=range(60)), tmp_path / "t.csv", sep=sep)
    assert width(load(path, options=TableOptions.from_words(sep=told)).train) == 2


def test_numbers_can_be_categories_and_columns_be_left_out(tmp_path: Path) -> None:
    table = frame(code=[at % 4 for at in range(60)], noise=range(60))
    path = saved(table, tmp_path / "t.csv")
    train = load(path, options=TableOptions(categorical=("code",), drop=("noise",))).train
    assert width(train) == 1 + 4
    preparation = preparation_of(train)
    with_decimals = table.astype({"code": float})  # as pandas reads them beside a missing one
    assert torch.equal(preparation(with_decimals), preparation(table))  # type: ignore[arg-type]


GUESSES: dict[str, tuple[list[Any], str | None, str]] = {
    "decimals that are 0 and 1": ([0.0, 1.0] * 60, "only 0 and 1", "classes"),
    "ages": ([17 + at * 7 % 60 for at in range(120)], "60 different whole numbers", "regression"),
    "letters by number": ([1 + at % 24 for at in range(120)], "24 different whole numbers without a gap", "classes"),
    "ratings": ([1 + at % 5 for at in range(120)], None, "classes"),
    "prices": ([0.5 * at for at in range(120)], None, "regression"),
}


@pytest.mark.parametrize("case", GUESSES)
def test_the_task_is_guessed_said_and_can_be_told(tmp_path: Path, case: str) -> None:
    values, said, task = GUESSES[case]
    (tmp_path / "t.csv").write_text("a,y\n" + "\n".join(f"{at % 7}.5,{value}" for at, value in enumerate(values)))
    train = load_whole(f"{tmp_path / 't.csv'}:y")
    assert train.is_regression == (task == "regression")
    notes = notes_of(train)
    assert len(notes) == (said is not None)
    if said is not None:
        assert said in notes[0]
        assert "--task" in notes[0]
    for other in ("classes", "regression"):
        told = load_whole(f"{tmp_path / 't.csv'}:y", options=TableOptions(task=other))
        assert told.is_regression == (other == "regression")
        assert notes_of(told) == ()


def test_a_task_of_texts_cannot_be_regression(tmp_path: Path) -> None:
    with pytest.raises(ThresherError, match="Column target holds text: real targets must be numbers"):
        load(saved(frame(), tmp_path / "t.csv"), options=TableOptions(task="regression"))


def test_groups_stay_on_one_side_of_every_split(tmp_path: Path) -> None:
    people = [f"p{at % 37}" for at in range(600)]
    train, test = load(saved(frame(600, person=people), tmp_path / "t.csv"), options=TableOptions(groups="person"))
    assert width(train) == 1
    assert preparation_of(train).carried == ("person",)  # type: ignore[attr-defined]
    assert not set(train.columns["group"].tolist()) & set(test.columns["group"].tolist())
    assert 0.1 < len(test) / 600 < 0.3
    inner = split(train)
    assert not set(inner.train.columns["group"].tolist()) & set(inner.test.columns["group"].tolist())


@pytest.mark.parametrize("seed", range(5))
def test_held_out_groups_have_nearly_the_share_of_each_class(seed: int) -> None:
    draws = torch.Generator().manual_seed(seed)
    labels = (torch.rand(2000, generator=draws) < 0.2).long()
    groups = torch.randint(0, 200, (2000,), generator=draws)
    train, test = hold_out(labels, 0.2, groups)
    assert not set(groups[train].tolist()) & set(groups[test].tolist())
    shares = labels[test].bincount() / labels.bincount()
    assert torch.allclose(shares, torch.full((2,), 0.2), atol=0.06)
    each = torch.arange(2000)  # everybody for themselves: as without groups
    assert (labels[hold_out(labels, 0.2, each)[1]].bincount() - 0.2 * labels.bincount()).abs().max() <= 0.5


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown column to drop": ({"drop": "agee"}, "no column in t.csv 'agee': did you mean 'age'"),
    "an unknown group": ({"groups": "who"}, "no column in t.csv 'who'"),
    "the target as group": ({"groups": "target"}, "Column target is what to predict"),
    "an unknown task": ({"task": "ranking"}, "task 'ranking' is unknown: give classes or regression"),
    "a long separator": ({"sep": ";;"}, "is not one character"),
    "gaps in a group": ({"groups": "who2"}, "2 rows without a group"),
}


@pytest.mark.parametrize("case", WRONG)
def test_options_that_cannot_be_are_refused(tmp_path: Path, case: str) -> None:
    words, said = WRONG[case]
    path = saved(frame(who2=["a"] * 58 + [None] * 2), tmp_path / "t.csv")
    with pytest.raises(ThresherError, match=said):
        load(path, options=TableOptions.from_words(**words))
    with pytest.raises(ThresherError, match="drop is for tables, and digits is none"):
        load("digits", options=TableOptions(drop=("a",)))


def test_a_test_set_of_its_own_leaves_all_rows_to_train_on(tmp_path: Path) -> None:
    path, other = saved(frame(60), tmp_path / "t.csv"), saved(frame(40), tmp_path / "other.csv")
    train = load_whole(path)
    test = load_test(other, train, path)
    assert (len(train), len(test), test.class_names) == (60, 40, ["old", "young"])
    assert not is_held_out(Splits(train, test))
    assert is_held_out(load(path))
    digits = load_whole("digits")
    assert digits.ids.tolist() == list(range(1797))


def test_wrong_targets_hardly_move_the_trimmed_scores() -> None:
    x = torch.linspace(-1, 1, 200, dtype=torch.float64)[:, None]
    truth = Examples(torch.zeros(200, 1), 3 * x, target_scale=(torch.zeros(1), torch.full((1,), 10.0)))
    given = truth.with_targets(torch.where(torch.arange(200)[:, None] % 5 < 2, 30.0, truth.targets))
    good, bad = 3 * x + 0.1 * torch.sin(99 * x), 12 + 0 * x  # the bad model fits the mean of the wrong targets
    noisy = [measure(each.float(), given) for each in (good, bad)]
    clean = [measure(each.float(), truth) for each in (good, bad)]
    assert noisy[0]["r2"] < noisy[1]["r2"]  # backwards
    assert noisy[0]["trimmed_r2"] > 0.9 > 0 > noisy[1]["trimmed_r2"]
    assert clean[0]["trimmed_r2"] == pytest.approx(clean[0]["r2"], abs=0.02)
    assert noisy[0]["median_error"] < 1.5 < 50 < noisy[1]["median_error"]  # in the unit of the data


def test_trimmed_scores_equal_a_search_over_all_halves() -> None:
    targets, residuals = torch.randn(30, 2).double(), torch.randn(30, 2).double()
    wanted = []
    for column in range(2):
        ordered = targets[:, column].sort().values
        halves = [ordered[at : at + 16] for at in range(15)]
        spread = min(float((half - half.mean()).square().sum()) for half in halves)
        wanted.append(1 - float(residuals[:, column].square().sort().values[:16].sum()) / spread)
    assert trimmed_r_squared(residuals, targets) == pytest.approx(np.mean(wanted))


@pytest.mark.parametrize(
    ("rate", "said"),
    [
        ({"rate": 0.25}, "of which about 25% look wrong; --test"),
        ({"rate": 0.0}, "of which hardly any look wrong"),
        ({"rate": 0.004}, "of which hardly any look wrong"),
        ({"rate": None}, "of which an unknown share is wrong"),
        (0.4, "of which about 40% are taken to be wrong"),
        (None, "of which an unknown share is wrong"),
    ],
)
def test_the_sentence_beside_a_score_on_noisy_labels(rate: Any, said: str) -> None:
    assert said in against_labels(0.683, "accuracy", rate)


def test_a_score_on_noisy_labels_says_what_it_would_be_on_true_ones() -> None:
    corrected = CorrectedAccuracy(0.683, 0.92, 0.9, 0.94, 0.25)
    assert against_labels(0.683, "accuracy", {"rate": 0.25}, corrected) == (
        "68.3% is against your labels, of which about 25% look wrong; "
        "against the true ones it is about 92% (90 to 94%)."
    )
    unknown = replace(corrected, accuracy=None)
    assert "--test with checked examples" in against_labels(0.683, "accuracy", {"rate": 0.25}, unknown)


def test_the_estimate_on_true_labels_is_near_what_they_give() -> None:
    given, true = corrupt(digits().train, "symmetric:0.3"), digits().train
    parts = torch.randperm(len(true), generator=torch.Generator().manual_seed(0)).split(900)
    run = fit("prl-l", "mlp:64", given.subset(parts[0]), noise_rate=0.3, epochs=25)
    held = given.subset(parts[1])
    score = float((run.predict_proba(held).argmax(1) == held.labels.numpy()).mean())
    right = float((run.predict_proba(held).argmax(1) == true.labels[parts[1]].numpy()).mean())
    found = against_true_labels(run, held, score)
    assert score < 0.75
    assert found.accuracy == pytest.approx(right, abs=0.04)
    assert found.low <= right <= found.high


def trained(*words: str) -> Any:
    done = CliRunner().invoke(app, ["train", "--method", "prl-l", "--epochs", "4", "--model", "mlp:8", *words])
    assert done.exit_code == 0, done.output
    return done


def test_the_command_line_says_what_it_tested_on(tmp_path: Path) -> None:
    table = frame(200, person_id=range(200), age2=range(200))
    path, other = saved(table, tmp_path / "t.csv"), saved(frame(100, age2=range(100)), tmp_path / "o.csv")
    held = trained("--data", path, "--out", str(tmp_path / "a"))
    assert "is against your labels, of which" in held.stdout
    assert "Column person_id has another value in nearly every row" in held.stderr
    own = trained("--data", path, "--test", other, "--out", str(tmp_path / "b"), "--json")
    assert "200 examples to train on, 100 to test on" in own.stderr
    assert json.loads(own.stdout.splitlines()[-1])["against_given_labels"] is False
    assert is_against_given_labels(tmp_path / "a", {"data": path})
    assert not is_against_given_labels(tmp_path / "a", {"data": path, "corruption": "symmetric:0.2"})
    records = [replace(read_run(tmp_path / name), noise_rate={"rate": 0.3}) for name in ("a", "b")]
    assert "held-out labels of yours, of which about 30% look wrong" in _caution(records[:1])
    assert _caution(records[1:]) == ""


def test_the_command_line_shows_robust_scores_of_real_targets(tmp_path: Path) -> None:
    table = frame(200).assign(target=lambda rows: rows["age"] * 2.5)
    done = trained("--data", saved(table, tmp_path / "t.csv"), "--out", str(tmp_path / "a"))
    assert "trimmed R²" in done.stdout
    assert "compare the trimmed R²" in done.stdout


def test_rows_encoded_some_at_a_time_are_those_encoded_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    draws = np.random.default_rng(0)
    rows = pd.DataFrame({
        "n": np.where(draws.random(200) < 0.1, np.nan, draws.normal(size=200)),
        "t": draws.choice(["a", "b", None], 200),
        "d": pd.to_datetime(draws.integers(0, 10**9, 200), unit="s"),
        "y": draws.integers(0, 2, 200),
    })  # fmt: skip
    at_once = table(rows, "y")
    monkeypatch.setattr(column_encoders, "AT_ONCE", 7)
    some_at_a_time = table(rows, "y")
    for one, other in zip(at_once, some_at_a_time, strict=True):
        assert torch.equal(one.inputs, other.inputs)
        assert torch.equal(one.ids, other.ids)


def test_texts_that_would_not_fit_into_memory_are_refused_with_their_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors, "free_memory", lambda: 10_000)
    rows = pd.DataFrame({"n": np.arange(400.0), "town": [f"t{at % 50}" for at in range(400)], "y": np.arange(400) % 2})
    with pytest.raises(ThresherError, match=r"320 rows of 51 inputs would take .* GB.*--drop town, .* 50 inputs"):
        table(rows, "y")


@pytest.mark.parametrize("name", ["rows.csv", "rows.csv.gz", "rows.parquet"])
def test_a_file_whose_rows_fit_into_no_memory_is_refused_before_they_are_read(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Packed, all of these rows take a few hundred bytes."""
    rows, path = pa.table({"x": [1.0] * 20_000, "label": ["a", "b"] * 10_000}), tmp_path / name
    if name.endswith(".parquet"):
        pq.write_table(rows, path)
    else:
        with pa.output_stream(path, compression="gzip" if name.endswith(".gz") else None) as file:
            csv.write_csv(rows, file)
    for module in (errors, table_files):
        monkeypatch.setattr(module, "free_memory", lambda: 50_000)
    with pytest.raises(ThresherError, match="more than this machine's free"):
        read_table(path)
    for module in (errors, table_files):
        monkeypatch.setattr(module, "free_memory", lambda: 10**9)
    assert len(read_table(path)) == 20_000
