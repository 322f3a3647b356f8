"""The bench's terminal output prints names, paths and reasons as they are, even if rich could read them as markup."""

import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from test_bench import TINY, made_up
from typer.testing import CliRunner

from thresher.__main__ import app
from thresher.app.terminal import plain_console
from thresher.bench.definition.grid import Entry, Job
from thresher.bench.definition.suite import Scale, Suite
from thresher.bench.pages import terminal
from thresher.bench.pages.terminal import Display, print_tables
from thresher.bench.run.jobs import jobs_of
from thresher.bench.run.results import append
from thresher.bench.run.runner import RunOptions
from thresher.bench.suites import SUITES

MARKUP = "[/b][red]:label:"
CELL, METHOD, LABEL, REASON = (f"{kind}{MARKUP}" for kind in ("cell", "method", "label", "reason"))


def marked() -> Suite:
    """The tiny suite with markup in every name."""
    scale = TINY.scale("small")
    cell = replace(scale.cells[0], name=CELL, corruption=None)
    entries = (Entry("standard", LABEL), Entry(METHOD, of="prl-l"), Entry(f"idle{MARKUP}", of="spl"))
    scales = {"small": Scale((cell, replace(cell, name=f"empty{MARKUP}")), replace(scale.setup, seeds=1))}
    return replace(TINY, name=f"tiny{MARKUP}", title=f"title{MARKUP}", methods=entries, scales=scales, published={})


def run_here(jobs: Sequence[Job], path: Path, options: RunOptions, watcher: Any) -> list[dict[str, Any]]:  # noqa: ARG001
    """The runner without processes: Standard has a result, and all others fail."""
    done = []
    for job in jobs:
        watcher.started(job)
        watcher.moved(job, 1, 2)
        failed = {} if job.entry.name == "standard" else {"status": "failed", "reason": REASON}
        done.append(made_up(job, **failed))
        append(path, done[-1])
        watcher.ended(job, done[-1])
    return done


def test_bench_prints_names_paths_and_reasons_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    suite, folder = marked(), tmp_path / "[b]:label:[" / "b]"
    monkeypatch.setitem(SUITES, suite.name, suite)
    monkeypatch.setattr(terminal, "run_jobs", run_here)
    monkeypatch.setenv("COLUMNS", "400")
    results = ["--results", str(folder)]

    ran = CliRunner().invoke(app, ["bench", "run", suite.name, "--cells", CELL, "--device", "cpu", *results])
    assert ran.exit_code == 1, ran.exception
    path = folder / f"{suite.name}-small.jsonl"
    assert f"3 of 3 results are missing in {path}." in ran.output
    assert f"{CELL} standard seed 0: accuracy 50, best 50, 2 s" in ran.output
    assert f"failed {CELL} {METHOD} seed 0: {REASON}" in ran.output
    assert f"2 failed; the reasons are in {path}." in ran.output

    listed = CliRunner().invoke(app, ["bench", "list", *results])
    assert suite.name in listed.output
    assert suite.title in listed.output

    path.write_text(path.read_text() + "half a line")
    shown = CliRunner().invoke(app, ["bench", "show", suite.name, "--docs", str(folder), *results])
    assert shown.exit_code == 0, shown.exception
    for text in (
        f"{suite.name} · {CELL}",
        LABEL,
        f"{METHOD} failed: {REASON}",
        f"of empty{MARKUP}.",
        f"lines of {path}",
    ):
        assert text in shown.output
    assert f"Written to {folder / suite.name}-small.md" in shown.output


def test_what_was_not_run_and_what_runs_is_printed_as_it_is() -> None:
    suite, console = marked(), plain_console(width=300, file=io.StringIO(), record=True, force_terminal=True)
    standard, method, _ = jobs_of(suite, "small", cells=[CELL])
    print_tables(suite, "small", [made_up(standard)], console)
    with Display(1, console) as display:
        display.started(method)
        display.moved(method, 1, 2)
        display.progress.refresh()
        assert method.name in console.export_text(clear=False)
    assert f"Not run here: {METHOD}; idle{MARKUP}." in console.export_text()


def test_sensitivity_prints_its_paths_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        terminal, "run_jobs", lambda jobs, path, *_: [append(path, made_up(job)) for job in jobs] and []
    )
    out = tmp_path / "[" / "b]:label:"
    words = ["--data", "blobs:80,3,4", "--corrupt", "symmetric:0.4", "--method", "prl-l", "--out", str(out)]
    found = CliRunner().invoke(app, ["sensitivity", *words, "--device", "cpu"])
    assert found.exit_code == 0, found.exception
    assert f"Page: {out / 'sensitivity.html'}" in found.output
