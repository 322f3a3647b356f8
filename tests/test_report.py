"""The report says what the run folder holds, and is written whole or not at all."""

import io
import json
import os
import re
import subprocess
import sys
from base64 import b64decode
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import altair
import numpy as np
import pyarrow.parquet as pq
import pytest
from fake_run import write_fake_issues, write_fake_run
from jsonschema import ValidationError
from PIL import Image

from thresher.core.errors import ThresherError
from thresher.report import charts, write_report
from thresher.report.figures import _scatter_figure, disagreements, run_figures, training_figures
from thresher.report.gallery import gallery, picture_address
from thresher.report.run_record import RunRecord, read_run
from thresher.report.summary import ranking_quality, run_names, summarise

KINDS: dict[str, dict[str, Any]] = {
    "classification": {},
    "truth unknown": {"truth": False},
    "table rows": {"pictures": False},
    "continuous weights": {"method": "l2rw"},
    "peers": {"method": "co-teaching", "peers": 2},
    "one target": {"regression": 1},
    "five targets": {"regression": 5, "pictures": False},
}


def assert_keeps_to_the_schema(specs: list[dict[str, Any]]) -> None:
    """Vega-Lite's own, which a page is not held to when it is written."""
    assert specs
    for spec in specs:
        (altair.LayerChart if "layer" in spec else altair.Chart).validate(spec)


def charts_of(page: Path) -> list[dict[str, Any]]:
    """The chart specifications in a page, read as strictly as a browser reads them."""
    text = re.search(r'<script type="application/json" id="charts">(.*?)</script>', page.read_text(), re.DOTALL)
    assert text is not None

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    return [chart["spec"] for chart in json.loads(text[1], parse_constant=refuse)]


def galleries_of(page: Path) -> list[dict[str, Any]]:
    """The blocks from which the page shows examples."""
    found = re.findall(
        r'data-gallery="\d+">\s*<script type="application/json">(.*?)</script>', page.read_text(), re.DOTALL
    )
    return [json.loads(text) for text in found]


def rows_of_chart(spec: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of a chart; levels and the like have rows of their own, in their layers."""
    rows: list[dict[str, Any]] = spec["data"]["values"]
    return rows


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_run_gets_all_its_charts(tmp_path: Path, kind: str) -> None:
    run = write_fake_run(tmp_path / "run", epochs=3, **KINDS[kind])
    page = write_report([run], tmp_path / "report.html")
    titles = [
        "Score", "Training loss", "Clean among those kept", "Examples kept", "Weights", "Weights within one class",
        "Trust", "Given against predicted", "Before: true against given", "After: true against predicted",
        "Recall of each class",
    ]  # fmt: skip
    lacking = {"truth unknown": (2, 5, 8, 9), "one target": (5, 8, 9, 10), "five targets": (5, 8, 9, 10)}
    expected = [title for place, title in enumerate(titles) if place not in lacking.get(kind, ())]
    html = page.read_text()
    assert re.findall(r"<figure>\s*<h3>(.*?)</h3>", html) == expected
    specs = charts_of(page)
    assert len(specs) == len(expected)
    assert_keeps_to_the_schema(specs)
    (block,) = galleries_of(page)
    assert len(block["pictures"]) == (0 if "pictures" in KINDS[kind] else 40)
    assert len(block["id"]) == 600
    assert ("corrupt" in block) == (kind != "truth unknown") == ("clean among kept" in html)


def test_the_charts_of_a_student_keep_to_the_schema(tmp_path: Path) -> None:
    run = read_run(write_fake_run(tmp_path / "run", epochs=2, teacher=True))
    figures = run_figures(run)
    assert {"Teacher against its confidence", "Weight against both confidences"} <= {each.title for each in figures}
    assert_keeps_to_the_schema([each.spec for each in figures])


@pytest.mark.parametrize(
    "spec", [{"mark": "no mark"}, {"mark": "bar", "encoding": {"x": {"type": "no type"}}}], ids=str
)
def test_the_schema_refuses_what_no_chart_may_have(spec: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        assert_keeps_to_the_schema([{"data": {"values": []}, **spec}])


def test_a_folder_with_only_a_history_is_enough(tmp_path: Path) -> None:
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "history.jsonl").write_text('{"epoch": 1, "score": 0.5, "loss": null}\n{"epoch": 2}\n')
    specs = charts_of(write_report([tmp_path / "bare"], tmp_path / "report.html"))
    assert [row["score"] for row in rows_of_chart(specs[0])] == [0.5, None]
    assert len(specs) == 1
    (tmp_path / "bare" / "history.jsonl").write_text('{"epoch": 1, "score": null, "loss": 0.5}\n')
    page = write_report([tmp_path / "bare"], tmp_path / "report.html")
    assert re.findall(r"<figure>\s*<h3>(.*?)</h3>", page.read_text()) == ["Training loss"], "no test set"


def test_what_was_reclaimed_is_shown_where_it_was(tmp_path: Path) -> None:
    told = [
        {"epoch": 1},
        {"epoch": 2, "trusted": 0.5, "reclaimed": 0.25, "trusted_clean": 0.9, "reclaimed_right": 0.8},
    ]
    for name, rows in (("a", told), ("b", [{"epoch": 1}])):
        (tmp_path / name).mkdir()
        (tmp_path / name / "history.jsonl").write_text("\n".join(map(json.dumps, rows)))
    both = write_report([tmp_path / "a", tmp_path / "b"], tmp_path / "report.html")
    titles = re.findall(r"<figure>\s*<h3>(.*?)</h3>", both.read_text())
    assert titles == ["Trusted and reclaimed", "Right labels among them"]
    shown = [{row["set"]: row["share"] for row in rows_of_chart(spec)} for spec in charts_of(both)]
    assert shown == [{"trusted": 0.5, "reclaimed": 0.25}, {"trusted": 0.9, "reclaimed": 0.8}]


def test_the_page_is_a_pure_function_of_the_folders(tmp_path: Path) -> None:
    runs = [write_fake_run(tmp_path / method, method=method, epochs=3) for method in ("standard", "prl-l")]
    first = write_report(runs, tmp_path / "a.html").read_bytes()
    assert write_report(runs, tmp_path / "b.html").read_bytes() == first
    assert write_report(runs[::-1], tmp_path / "c.html").read_bytes() != first


def test_several_runs_are_overlaid_and_listed(tmp_path: Path) -> None:
    runs = [write_fake_run(tmp_path / str(seed), seed=seed, epochs=3) for seed in range(2)]
    runs.append(write_fake_run(tmp_path / "other", method="standard", epochs=4))
    page = write_report(runs, tmp_path / "report.html")
    specs = charts_of(page)
    assert len(specs) == 4 + 3 * 7
    score = [row for row in rows_of_chart(specs[0]) if row["set"] == "evaluation"]
    assert len(score) == 3 + 3 + 4
    names = ["prl-l, seed 0", "prl-l, seed 1", "standard, seed 0"]
    assert {row["run"] for row in score} == set(names)
    colour = specs[0]["layer"][0]["encoding"]["color"]
    assert (colour["field"], colour["scale"]["domain"]) == ("run", names)
    assert len(set(colour["scale"]["range"])) == 3
    headline = page.read_text().split('id="headline"')[1].split("</table>")[0]
    assert headline.count("<tr>") == 1 + 3


def test_names_stay_apart_when_the_same_run_is_given_twice(tmp_path: Path) -> None:
    run = read_run(write_fake_run(tmp_path / "run", epochs=1))
    assert run_names([run]) == ["prl-l"]
    assert run_names([run, replace(run, folder=tmp_path / "again")]) == ["prl-l (run)", "prl-l (again)"]
    assert run_names([run, run]) == ["prl-l, run 1", "prl-l, run 2"]
    other = replace(run, settings={**run.settings, "data": "blobs"})
    assert run_names([run, other]) == ["prl-l on digits", "prl-l on blobs"]


def test_accuracy_and_r2_have_an_axis_each(tmp_path: Path) -> None:
    runs = [
        write_fake_run(tmp_path / "classes", epochs=2),
        write_fake_run(tmp_path / "real", regression=1, method="standard", epochs=2),
    ]
    page = write_report(runs, tmp_path / "report.html")
    assert re.findall(r"<figure>\s*<h3>(.*?)</h3>", page.read_text())[:3] == [
        "Score: accuracy",
        "Score: R²",
        "Training loss",
    ]
    for spec, run, number in zip(charts_of(page), ("prl-l", "standard"), ("~%", "~g"), strict=False):
        assert {row["run"] for row in rows_of_chart(spec)} == {run}
        assert spec["layer"][0]["encoding"]["y"]["axis"]["format"] == number


def test_the_headline_is_that_of_the_history(tmp_path: Path) -> None:
    run = read_run(write_fake_run(tmp_path / "run", epochs=14))
    lines = [json.loads(line) for line in (tmp_path / "run" / "history.jsonl").read_text().splitlines()]
    last = [line["score"] for line in lines[4:]]
    mean = sum(last) / 10
    summary = summarise(run)
    assert summary.last == pytest.approx(mean)
    assert summary.spread == pytest.approx((sum((score - mean) ** 2 for score in last) / 10) ** 0.5)
    assert summary.best == max(line["score"] for line in lines)
    assert lines[(summary.best_epoch or 0) - 1]["score"] == summary.best
    assert summary.clean_share == pytest.approx(sum(line["clean_share"] for line in lines[4:]) / 10)
    assert summary.seconds == pytest.approx(14 * 0.25)


def test_the_headline_has_what_early_stopping_kept_and_what_fine_tuning_reached(tmp_path: Path) -> None:
    folder, plain = write_fake_run(tmp_path / "run", epochs=3), write_fake_run(tmp_path / "plain", epochs=3)
    rows = [
        json.loads(line) | {"validation": value, "score": score}
        for line, value, score in zip(
            (folder / "history.jsonl").read_text().splitlines(), (0.2, 0.4, 0.4), (0.7, 0.6, 0.8), strict=True
        )
    ]
    (folder / "history.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    write_fake_run(folder / "fine-tuned", epochs=2)
    summary = summarise(read_run(folder))
    assert (summary.chosen, summary.chosen_epoch) == (0.6, 2), "the first of the best"
    assert summary.tuned == read_run(folder / "fine-tuned").series("score")[-1]
    both = write_report([folder, plain], tmp_path / "both.html").read_text().split('id="headline"')[1]
    assert "60.0% <small>epoch 2</small>" in both
    assert "stopped early" not in write_report([plain], tmp_path / "one.html").read_text().split("</table>")[0]


def test_numbers_that_are_not_finite_are_left_out(tmp_path: Path) -> None:
    folder = write_fake_run(tmp_path / "run", epochs=2)
    (folder / "history.jsonl").write_text(
        '{"epoch": 1, "loss": NaN, "score": 0.25, "metric": "accuracy"}\n'
        '{"epoch": 2, "loss": Infinity, "score": NaN, "metric": "accuracy"}\n'
        '{"epoch": 3, "loss": 1.5, "score": 0.75, "metric": "accuracy"}\n'
    )
    specs = charts_of(write_report([folder], tmp_path / "report.html"))
    assert [row["loss"] for row in rows_of_chart(specs[1])] == [None, None, 1.5]
    assert summarise(read_run(folder)).last == 0.5


def test_only_the_last_epoch_of_the_ledger_is_read(tmp_path: Path) -> None:
    folder = write_fake_run(tmp_path / "run", epochs=3, peers=2)
    run = read_run(folder)
    table = pq.read_table(folder / "ledger" / "part-00003.parquet")
    assert run.last_epoch["weight"].tolist() == table["weight"].to_pylist()
    assert run.last_epoch["prediction"].tolist() == table["prediction"].to_pylist()
    corrupt = {row["id"]: row["is_corrupt"] for row in pq.read_table(folder / "examples.parquet").to_pylist()}
    expected = ["corrupted" if corrupt[id_] else "clean" for id_ in table["id"].to_pylist()]
    assert run.last_epoch["origin"].tolist() == expected


def test_the_confusion_counts_every_pair(tmp_path: Path) -> None:
    folder = write_fake_run(tmp_path / "run", epochs=2, class_names=[f"digit {digit}" for digit in range(10)])
    rows = pq.read_table(folder / "ledger" / "part-00002.parquet").to_pylist()
    expected: dict[tuple[str, str], int] = {}
    for row in rows:
        pair = f"digit {row['target']}", f"digit {row['prediction']}"
        expected[pair] = expected.get(pair, 0) + 1
    run = read_run(folder)
    cells = rows_of_chart(next(figure.spec for figure in run_figures(run) if figure.square))
    assert {(cell["given"], cell["predicted"]): cell["count"] for cell in cells if cell["count"]} == expected
    given_3 = [cell for cell in cells if cell["given"] == "digit 3"]
    assert sum(cell["share"] for cell in given_3) == pytest.approx(1)
    differing = sorted((count for (given, predicted), count in expected.items() if given != predicted), reverse=True)
    listed = disagreements(run)
    assert [pair["count"] for pair in listed] == differing[: len(listed)]
    corrupt = set(pq.read_table(folder / "examples.parquet", filters=[("is_corrupt", "=", True)])["id"].to_pylist())
    for pair in listed:
        same = [row for row in rows if f"digit {row['target']}" == pair["given"] and row["id"] in corrupt]
        assert pair["count"] == expected[pair["given"], pair["predicted"]]
        assert pair["corrupted"] == sum(f"digit {row['prediction']}" == pair["predicted"] for row in same)


def test_before_and_after_are_held_against_the_truth(tmp_path: Path) -> None:
    folder = write_fake_run(tmp_path / "run", epochs=2)
    true = {row["id"]: row["true_target"] for row in pq.read_table(folder / "examples.parquet").to_pylist()}
    rows = pq.read_table(folder / "ledger" / "part-00002.parquet").to_pylist()
    figures = {figure.title.partition(":")[0]: figure for figure in run_figures(read_run(folder))}
    for title, label, column in (("Before", "given", "target"), ("After", "predicted", "prediction")):
        cells = {(cell["true"], cell[label]): cell["count"] for cell in rows_of_chart(figures[title].spec)}
        pairs = [(str(true[row["id"]]), str(row[column])) for row in rows]
        assert {pair: count for pair, count in cells.items() if count} == {pair: pairs.count(pair) for pair in pairs}
        right = sum(one == other for one, other in pairs) / len(pairs)
        assert f"{100 * right:.1f}%" in figures[title].words
    y = figures["Before"].spec["layer"][0]["encoding"]["y"]
    assert (y["field"], y["title"]) == ("row", "true label")


def test_weights_are_compared_within_the_class_that_lost_most(tmp_path: Path) -> None:
    folder = write_fake_run(tmp_path / "run", method="l2rw", epochs=1)
    examples = {row["id"]: row for row in pq.read_table(folder / "examples.parquet").to_pylist()}
    weights = {row["id"]: row["weight"] for row in pq.read_table(folder / "ledger" / "part-00001.parquet").to_pylist()}
    lost = [sum(row["is_corrupt"] and row["true_target"] == digit for row in examples.values()) for digit in range(10)]
    most = lost.index(max(lost))
    kinds = {False: "clean", True: "corrupted"}
    mine = {
        kinds[wrong]: [
            weights[i] for i, row in examples.items() if row["true_target"] == most and row["is_corrupt"] is wrong
        ]
        for wrong in kinds
    }
    figure = next(figure for figure in run_figures(read_run(folder)) if figure.title == "Weights within one class")
    counted = rows_of_chart(figure.spec)
    for kind, values in mine.items():
        assert sum(row["count"] for row in counted if row["origin"] == kind) == len(values)
    pairs = [(high, low) for high in mine["clean"] for low in mine["corrupted"]]
    quality = sum(1.0 if high > low else 0.5 if high == low else 0.0 for high, low in pairs) / len(pairs)
    assert f"truly are {most}: {len(mine['clean'])} are given" in figure.words
    assert f"{100 * quality:.1f}% of the time" in figure.words


def test_training_curves_show_the_fit_to_given_labels_beside_the_score(tmp_path: Path) -> None:
    page = write_report([write_fake_run(tmp_path / "run", epochs=4)], tmp_path / "report.html")
    spec = charts_of(page)[0]
    fit = [row["score"] for row in rows_of_chart(spec) if row["set"] == "given labels"]
    assert fit == pytest.approx([0.6, 0.7, 0.8, 0.9])
    dashes = spec["layer"][0]["encoding"]["strokeDash"]["scale"]
    assert dashes["domain"] == ["evaluation", "given labels"]
    assert dashes["range"][0] == [1, 0] != dashes["range"][1]


def test_without_an_evaluation_set_only_the_fit_to_given_labels_is_shown(tmp_path: Path) -> None:
    folder = write_fake_run(tmp_path / "run", epochs=4)
    history = [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]
    lines = [json.dumps({**row, "score": None}) for row in history]
    (folder / "history.jsonl").write_text("\n".join(lines) + "\n")
    first = training_figures([read_run(folder)])[0]
    assert "evaluation" not in first.title + first.words + json.dumps(first.spec)
    assert first.words.startswith("How many given labels of the examples trained on")
    assert first.spec["layer"][0]["encoding"]["strokeDash"]["scale"]["range"] == [[1, 0]]


def test_recalls_are_means_of_the_last_ten_epochs(tmp_path: Path) -> None:
    run = read_run(write_fake_run(tmp_path / "run", epochs=12))
    figure = run_figures(run)[-1]
    expected = {str(digit): sum((digit + epoch) / 21 for epoch in range(3, 13)) / 10 for digit in range(10)}
    assert {row["class"]: row["recall"] for row in rows_of_chart(figure.spec)} == pytest.approx(expected)
    assert f"least of 0, {100 * expected['0']:.1f}%" in figure.words
    assert f"{100 * sum(expected.values()) / 10:.1f}% over the classes" in figure.words


def test_of_very_many_classes_those_that_disagree_most_are_shown(tmp_path: Path) -> None:
    run = read_run(write_fake_run(tmp_path / "run", epochs=1))
    given = np.repeat(np.arange(100), 4)
    predicted = given.copy()
    predicted[given >= 70] = (given[given >= 70] - 1) % 100
    figure = next(
        figure
        for figure in run_figures(replace(run, last_epoch={"id": given, "target": given, "prediction": predicted}))
        if figure.square
    )
    shown = {cell["given"] for cell in rows_of_chart(figure.spec)}
    assert len(shown) == 40
    assert shown >= {str(label) for label in range(69, 100)}
    assert "40 of 100 classes" in figure.words


@pytest.mark.parametrize("distinct", [3, 200])
def test_histograms_count_each_example_once(distinct: int) -> None:
    random = np.random.default_rng(0)
    values = random.integers(0, distinct, 500) / distinct
    origins = np.where(random.random(500) < 0.3, "corrupted", "clean")
    rows = rows_of_chart(charts.histogram(np.append(values, np.nan), np.append(origins, "clean"), title="weight"))
    for origin in ("clean", "corrupted"):
        mine = [row for row in rows if row["origin"] == origin]
        for row in mine:
            if distinct == 3:
                inside = [abs(value - float(row["value"])) < 1e-3 for value in values]
            else:
                last = row["end"] == max(other["end"] for other in mine)
                inside = [row["start"] <= value < row["end"] or (last and value == row["end"]) for value in values]
            assert row["count"] == sum(hit and kind == origin for hit, kind in zip(inside, origins, strict=True))
    assert sum(row["count"] for row in rows) == 500


def test_ranking_quality_is_the_share_of_pairs_in_order() -> None:
    random = np.random.default_rng(1)
    scores, positive = random.integers(0, 12, 80) / 12, random.random(80) < 0.4
    pairs = [(high, low) for high in scores[positive] for low in scores[~positive]]
    expected = sum(1.0 if high > low else 0.5 if high == low else 0.0 for high, low in pairs) / len(pairs)
    assert ranking_quality(scores, positive) == pytest.approx(expected)
    assert ranking_quality(scores, np.ones(80, bool)) is None


def test_trust_is_said_to_be_without_preference_for_classes(tmp_path: Path) -> None:
    figures = run_figures(read_run(write_fake_run(tmp_path / "run", epochs=1)))
    words = next(figure.words for figure in figures if figure.title == "Trust")
    assert "preference for some classes is taken out" in words


def test_the_gallery_starts_with_the_least_trusted(tmp_path: Path) -> None:
    folder = write_fake_run(tmp_path / "run", epochs=2, peers=2)
    examples = {row["id"]: row for row in pq.read_table(folder / "examples.parquet").to_pylist()}
    ledger = pq.read_table(folder / "ledger" / "part-00002.parquet", filters=[("peer", "=", 0)])
    predicted = dict(zip(ledger["id"].to_pylist(), ledger["prediction"].to_pylist(), strict=True))
    block = gallery(read_run(folder))
    assert block is not None
    assert block["id"] == sorted(examples, key=lambda id_: examples[id_]["trust"])
    for at, id_ in enumerate(block["id"]):
        example = examples[id_]
        assert [block[name][at] for name in ("label", "truth")] == [example["target"], example["true_target"]]
        assert block["suggested"][at] == predicted[id_]
        assert block["corrupt"][at] == example["is_corrupt"]
        assert block["trust"][at] == pytest.approx(example["trust"], rel=1e-3)
    assert block["classes"] == [str(label) for label in range(10)]


def test_trust_over_epochs_is_the_mean_of_the_peers_beliefs(tmp_path: Path) -> None:
    folder = write_fake_run(tmp_path / "run", epochs=90, peers=2, count=50)
    block = gallery(read_run(folder))
    assert block is not None
    assert len(block["traces"]) == len(block["shown"]) == 40
    rows = pq.read_table(folder / "ledger").to_pandas()
    for at, trace in zip(block["shown"], block["traces"], strict=True):
        beliefs = rows[rows["id"] == block["id"][at]].groupby("epoch")["belief"].mean().tolist()
        assert len(trace) == 40
        assert (trace[0], trace[-1]) == (round(100 * beliefs[0]), round(100 * beliefs[-1]))


def test_an_audit_alone_is_enough(tmp_path: Path) -> None:
    folder = write_fake_run(tmp_path / "run", epochs=3, files=True)
    issues = write_fake_issues(folder)
    (folder / "audit").mkdir()
    (folder / "ledger").rename(folder / "audit" / "ledger")  # of the trainings that judged the examples
    for name in ("history.jsonl", "run.toml", "examples.parquet"):
        (folder / name).unlink()
    page = write_report([folder], tmp_path / "report.html")
    html = page.read_text()
    sentence = "About 150 of 600 labels look wrong (23% to 27%); here are the worst."
    assert f"<h1>{sentence}</h1>" in html
    assert issues.headline() == sentence.replace("; here are the worst", "")
    (block,) = galleries_of(page)
    assert block["id"] == issues.column("id").tolist()
    assert block["issue"] == issues.column("is_issue").astype(int).tolist()
    for column in ("label", "suggested"):
        assert [block["classes"][at] for at in block[column]] == issues.column(column).tolist()
    paths = [block["folders"][folder] + file for folder, file in zip(block["folder"], block["file"], strict=True)]
    assert paths == issues.column("file").tolist()
    assert {len(trace) for trace in block["traces"]} == {3}
    assert "<figure>" not in html
    assert 'id="headline"' not in html


def test_what_cannot_be_told_is_said(tmp_path: Path) -> None:
    folder = write_fake_run(tmp_path / "run", epochs=1)
    write_fake_issues(folder, rate=None)
    html = write_report([folder], tmp_path / "report.html").read_text()
    assert "<h1>How many of the 600 labels are wrong cannot be told; here are the worst.</h1>" in html
    assert '<p class="big">cannot tell</p><p class="words">the network is too weak</p>' in html
    shares = ("<h3>Noise between classes</h3>", "<h3>Labels that look wrong, by class</h3>")
    assert not any(title in html for title in shares)  # they would say what cannot be told
    write_fake_issues(folder)
    told = write_report([folder], tmp_path / "report.html").read_text()
    assert all(title in told for title in shares)


def test_settings_that_do_not_apply_are_not_shown(tmp_path: Path) -> None:
    folder = write_fake_run(tmp_path / "run", epochs=1, truth=False)
    for tuned in (False, True):
        (folder / "run.toml").write_text(f"fine_tune = {str(tuned).lower()}\nfine_tune_steps = 5000\nepochs = 3\n")
        html = write_report([folder], tmp_path / "report.html").read_text()
        assert ("<dt>fine_tune_steps</dt>" in html) == ("<dt>fine_tune</dt>" in html) == tuned
        assert "<dt>epochs</dt>" in html
        assert "clean among kept" not in html


def test_a_score_against_noisy_labels_says_so(tmp_path: Path) -> None:
    for held_out in (True, False):
        folder = write_fake_run(tmp_path / f"held out {held_out}", epochs=1, truth=False)
        (folder / "run.toml").write_text('data = "photos"\n')
        (folder / "model.json").write_text(json.dumps({"test_is_held_out": held_out}))
        lines = (folder / "history.jsonl").read_text().splitlines()
        row = json.loads(lines[0]) | {"noise_rate": {"rate": 0.24, "low": 0.2, "high": 0.3, "why": "losses"}}
        (folder / "history.jsonl").write_text(json.dumps(row))
        html = write_report([folder], tmp_path / "report.html").read_text()
        assert ("of which about 24% look wrong" in html) == held_out


def test_small_pictures_grow_by_whole_pixels_and_large_ones_shrink() -> None:
    def decoded(address: str) -> Image.Image:
        return Image.open(io.BytesIO(b64decode(address.removeprefix("data:image/png;base64,"))))

    grey = np.arange(48, dtype=np.uint8).reshape(6, 8)
    picture = np.asarray(decoded(picture_address(Image.fromarray(grey), 192, "png")))
    assert (picture == grey.repeat(12, 0).repeat(12, 1)).all()
    assert decoded(picture_address(Image.new("RGB", (600, 300)), 192, "png")).size == (192, 96)


def test_nothing_is_loaded_from_elsewhere(tmp_path: Path) -> None:
    html = write_report([write_fake_run(tmp_path / "run", epochs=1)], tmp_path / "report.html").read_text()
    markup = re.sub(r"<script.*?</script>", "", html, flags=re.DOTALL)
    assert set(re.findall(r'\s(?:src|href)="([^"]{1,5})', markup)) == {"data:"}
    assert "url(" not in markup
    assert "@import" not in markup
    assert "default-src 'none'" in html


def test_a_failed_write_leaves_the_old_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_fake_run(tmp_path / "run", epochs=1)
    page = tmp_path / "pages" / "report.html"
    write_report([folder], page)
    before = page.read_bytes()
    (folder / "run.toml").write_text('method = "other"\n')

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", full)
        with pytest.raises(ThresherError, match="free some space"):
            write_report([folder], page)
    assert page.read_bytes() == before
    assert list(page.parent.iterdir()) == [page]
    with pytest.raises(ThresherError, match="choose another path"):
        write_report([folder], page.parent)


def test_wrong_folders_are_refused_with_the_fix(tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    with pytest.raises(ThresherError, match="give at least one run folder"):
        write_report([], out)
    with pytest.raises(ThresherError, match="is not a run folder"):
        write_report([tmp_path / "nowhere"], out)
    folder = write_fake_run(tmp_path / "run", epochs=1)
    part = folder / "ledger" / "part-00001.parquet"
    part.write_bytes(part.read_bytes()[:100])
    with pytest.raises(ThresherError, match="is damaged"):
        write_report([folder], out)
    (folder / "history.jsonl").write_text('{"epoch": 1')
    with pytest.raises(ThresherError, match="is damaged"):
        write_report([folder], out)
    (folder / "history.jsonl").write_text("")
    with pytest.raises(ThresherError, match="no finished epoch yet"):
        write_report([folder], out)
    assert not out.exists()


def test_importing_the_report_loads_no_chart_library() -> None:
    heavy = "{'altair', 'jinja2', 'PIL', 'vl_convert', 'sklearn'}"
    code = f"import sys, thresher.report; print(sorted({heavy} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_targets_of_different_units_share_a_chart_in_their_own_deviations() -> None:
    draws = np.random.default_rng(0)
    price, rooms = draws.normal(5e6, 1e5, 50), draws.normal(3, 1, 50)
    columns = {"id": np.arange(50), "target_0": price, "prediction_0": price, "target_1": rooms, "prediction_1": rooms}
    for names, largest in (("01", 4.0), ("0", 6e6)):
        last = {name: values for name, values in columns.items() if name == "id" or name[-1] in names}
        figure = _scatter_figure(cast(RunRecord, SimpleNamespace(last_epoch=last)))
        points = rows_of_chart(figure.spec)
        assert len(points) == 50 * len(names)
        assert largest / 4 < max(point["given"] for point in points) < largest
        assert all(point["given"] == point["predicted"] for point in points)
        assert ("in its own deviations" in figure.words) == (names == "01")
