"""The report of active-learning loops: what it says, and that a real browser draws it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_report import assert_keeps_to_the_schema, charts_of
from test_report_browser import opened
from typer.testing import CliRunner

from thresher import ThresherError
from thresher.__main__ import app
from thresher.core.examples import Examples
from thresher.record.previews import save_previews
from thresher.report import write_loop_report
from thresher.report.loops import band_points, clean_share, lines_of, read_loop_record


def write_fake_loop(
    folder: Path, by: str, seed: int, *, rounds: int = 4, pictures: bool = True, truth: bool = True
) -> Path:
    """A folder as active_loop leaves it."""
    draws = np.random.default_rng(seed)
    records = [
        {
            "round": place,
            "labelled": 100 + 40 * place,
            "metric": "accuracy",
            "score": 0.5 + 0.1 * place + 0.01 * seed,
            "picked": list(range(40)) if place < rounds - 1 else [],
            "clean_picks": 10 * place if truth and place < rounds - 1 else None,
            "seconds": 1.5,
        }
        for place in range(rounds)
    ]
    (folder / "picks").mkdir(parents=True)
    for place in range(rounds - 1):
        inputs = torch.from_numpy(draws.random((20, 1, 8, 8) if pictures else (20, 9)))
        facts: dict[str, Any] = {"is_corrupt": draws.random(20) < 0.5} if truth else {}
        targets = torch.arange(20) % 10
        save_previews(folder / "picks" / f"{place}.npz", Examples(inputs, targets), targets=targets, **facts)
    (folder / "loop.json").write_text(json.dumps({"identity": {"by": by, "seed": seed}, "rounds": records}))
    return folder


@pytest.fixture
def loops(tmp_path: Path) -> list[Path]:
    return [write_fake_loop(tmp_path / f"{by}-{seed}", by, seed) for by in ("margin", "s-badge") for seed in range(3)]


def test_seeds_of_a_rule_are_one_line_with_a_band(loops: list[Path]) -> None:
    group = [read_loop_record(folder) for folder in loops[:3]]
    points = band_points(group, "score", "margin")
    assert [point["place"] for point in points] == [100, 140, 180, 220]
    assert (points[1]["low"], points[1]["mean"], points[1]["high"]) == pytest.approx((0.6, 0.61, 0.62))
    assert [point["mean"] for point in band_points(group, "clean", "margin")] == [0.0, 0.25, 0.5]
    assert clean_share(group[0].rounds[-1]) is None


def test_the_page_says_what_came_of_each_rule(loops: list[Path], tmp_path: Path) -> None:
    page = write_loop_report(loops, tmp_path / "report.html")
    assert_keeps_to_the_schema(charts_of(page))
    html = page.read_text()
    table = html.split('id="headline"')[1].split("</table>")[0]
    assert table.count("<strong>81.0%</strong>") == 2
    assert table.count("80.0% to 82.0%") == 2
    assert table.count("25.0%") == 2  # clean among all chosen
    assert html.count("What margin chose") == html.count("What s-badge chose") == 1
    assert html.count("data:image/png") == 2 * 3 * 18
    assert "✗ noise" in html


def test_loops_that_differ_in_more_than_the_seed_are_lines_of_their_own(tmp_path: Path) -> None:
    first, other = (write_fake_loop(tmp_path / str(seed), "margin", seed) for seed in range(2))
    loop = json.loads((other / "loop.json").read_text())

    def lines(**identity: Any) -> list[str]:
        (other / "loop.json").write_text(json.dumps({**loop, "identity": {**loop["identity"], **identity}}))
        return list(lines_of([read_loop_record(first), read_loop_record(other)]))

    assert lines() == ["margin"]
    assert lines(avoid="thresher.engine.run.Run.trust") == ["margin", "margin-avoid-trust"]
    for change in ({"seed": 0}, {"recipe": "another"}, {"start": 7}):
        assert lines(**change) == [f"margin ({first})", f"margin ({other})"], change


def test_labels_are_shown_by_their_names(tmp_path: Path) -> None:
    folder = write_fake_loop(tmp_path / "a", "badge", 0)
    loop = json.loads((folder / "loop.json").read_text())
    (folder / "loop.json").write_text(json.dumps({**loop, "class_names": [f"kind {place}" for place in range(10)]}))
    assert write_loop_report([folder], tmp_path / "a.html").read_text().count("<dd>kind 7</dd>") == 6


def test_the_command_tells_loops_from_runs(loops: list[Path]) -> None:
    result = CliRunner().invoke(app, ["report", *map(str, loops)])
    assert result.exit_code == 0, result.output
    assert "What to label next" in (loops[0].parent / "report.html").read_text()


def test_rows_of_a_table_and_unknown_truth_are_shown_too(tmp_path: Path) -> None:
    folder = write_fake_loop(tmp_path / "a", "badge", 0, pictures=False, truth=False)
    html = write_loop_report([folder], tmp_path / "a.html").read_text()
    assert "one loop" in html
    assert "Clean examples among those chosen" not in html
    assert "<dt>x5</dt>" in html
    assert "✓" not in html


def test_there_must_be_something_to_report(tmp_path: Path) -> None:
    with pytest.raises(ThresherError, match="at least one folder"):
        write_loop_report([], tmp_path / "a.html")
    with pytest.raises(ThresherError, match="no finished round"):
        write_loop_report([tmp_path], tmp_path / "a.html")


@pytest.mark.parametrize("width", [1280, 400])
def test_a_browser_draws_the_page_and_it_fits(browser: Any, loops: list[Path], tmp_path: Path, width: int) -> None:
    path = write_loop_report(loops, tmp_path / "report.html")
    page, said, asked = opened(browser, path, width)
    assert said == []
    assert [address for address in asked if not address.startswith("data:")] == [path.as_uri()]
    assert page.evaluate("document.querySelectorAll('.chart svg').length") == 2
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.close()
