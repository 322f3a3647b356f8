"""Compare methods: run the table of a paper and see how close the results are."""

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from thresher.app.cli import PlainErrors
from thresher.core.errors import ThresherError

app = typer.Typer(
    cls=PlainErrors,
    no_args_is_help=True,
    help=__doc__,
    add_completion=False,
)


class ScaleName(StrEnum):
    small = "small"
    paper = "paper"


SuiteName = Annotated[str, typer.Argument(help="The suite, such as demo; `thresher bench list` names them all.")]
WhichScale = Annotated[
    ScaleName, typer.Option(help="small: within an hour on two cores. paper: the paper's own data and network.")
]
Results = Annotated[Path, typer.Option("--results", help="The folder of the stored results.")]


@app.command("list")
def list_suites(results: Results = Path("results")) -> None:
    """List every suite, its scales, and how many results of each are stored."""
    from rich.table import Table

    from thresher.app.terminal import plain_console
    from thresher.bench.run.jobs import jobs_of, missing_jobs
    from thresher.bench.run.results import read, results_file
    from thresher.bench.suites import SUITES

    shown = Table("suite", "what it compares", "scale", "cells", "methods", "stored")
    for suite in SUITES.values():
        for scale, grid in suite.scales.items():
            jobs = jobs_of(suite, scale)
            left = len(missing_jobs(jobs, read(results_file(results, suite.name, scale))[0]))
            cells, methods = str(len(grid.cells)), str(len(suite.methods))
            shown.add_row(suite.name, suite.title, scale, cells, methods, f"{len(jobs) - left} of {len(jobs)}")
    plain_console().print(shown)


@app.command()
def run(
    suite: SuiteName,
    scale: WhichScale = ScaleName.small,
    methods: Annotated[str | None, typer.Option(help="Only these methods, separated by commas.")] = None,
    cells: Annotated[str | None, typer.Option(help="Only these cells, separated by commas.")] = None,
    seeds: Annotated[int | None, typer.Option(help="How many seeds, instead of the suite's own number.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1; the best available if not given.")] = None,
    jobs: Annotated[int, typer.Option(help="How many run side by side; they share cores and GPU memory.")] = 1,
    data_dir: Annotated[Path | None, typer.Option(help="The folder of the data; THRESHER_DATA if not given.")] = None,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Run failed jobs again.")] = False,
    compiled: Annotated[
        bool | None,
        typer.Option(help="Whether training passes are compiled (as the suite says, or else the run)."),
    ] = None,
    runs: Annotated[Path | None, typer.Option(help="Keep each run's folder here, and resume from it.")] = None,
    results: Results = Path("results"),
) -> None:
    """Run the missing jobs of a suite; every result is stored at once, and a second call goes on from there."""
    from thresher.app.terminal import plain_console
    from thresher.bench.pages.terminal import run_and_show
    from thresher.bench.run.jobs import jobs_of, missing_jobs
    from thresher.bench.run.results import read, results_file
    from thresher.bench.run.runner import RunOptions
    from thresher.bench.suites import find_suite
    from thresher.engine.device.placement import find_device

    console = plain_console()
    device = None if device == "auto" else device
    if device is not None:
        find_device(device)  # refused before the first run
    options = RunOptions(device, jobs, data_dir, runs)
    only = {"cells": _names("--cells", cells), "methods": _names("--methods", methods)}
    wanted = jobs_of(find_suite(suite), scale.value, seeds=seeds, **only)
    if compiled is not None:
        wanted = [replace(job, setup=replace(job.setup, compiled=compiled)) for job in wanted]
    path = results_file(results, suite, scale.value)
    left = missing_jobs(wanted, read(path)[0], retry_failed=retry_failed)
    console.print(f"{len(left)} of {len(wanted)} results are missing in {path}.")
    done = run_and_show(left, path, options, console)
    failed = sum(result["status"] != "ok" for result in done)
    if failed:
        console.print(f"{failed} failed; the reasons are in {path}. Run them again with --retry-failed.")
        raise typer.Exit(1)


@app.command()
def show(
    suite: SuiteName,
    scale: WhichScale = ScaleName.small,
    docs: Annotated[Path, typer.Option(help="Where the page and its plots are written.")] = Path("docs/results"),
    pages: Annotated[Path, typer.Option(help="The folder of pages that may include some of its tables.")] = Path(
        "docs/methods"
    ),
    results: Results = Path("results"),
) -> None:
    """Print the paper's numbers beside ours, and write them as a page with plots."""
    from thresher.app.terminal import plain_console
    from thresher.bench.compare.rows import compare
    from thresher.bench.pages.page import write_page
    from thresher.bench.pages.side_by_side import insert_tables_in_pages, side_by_side
    from thresher.bench.pages.terminal import print_tables
    from thresher.bench.run.results import read, results_file
    from thresher.bench.suites import find_suite
    from thresher.core.files import refuse_as_folder

    console, known = plain_console(), find_suite(suite)
    refuse_as_folder(docs)
    path = results_file(results, suite, scale.value)
    stored, damaged = read(path)
    print_tables(known, scale.value, stored, console)
    if damaged:
        console.print(f"{damaged} lines of {path} cannot be read and are left out.")
    tables = side_by_side(known, compare(known, scale.value, stored))
    written = [write_page(known, scale.value, stored, docs, path)]
    written += insert_tables_in_pages(pages, f"{suite}-{scale.value}", tables)
    console.print(f"Written to {', '.join(map(str, written))}.")


def _names(option: str, text: str | None) -> list[str]:
    """The names that an option lists; none where it is not given."""
    names = [name.strip() for name in (text or "").split(",") if name.strip()]
    if text is not None and not names:
        raise ThresherError(f"{option} names none: write names with commas between them, or leave it out.")
    return names


if __name__ == "__main__":
    app(prog_name="thresher bench")
