"""What the terminal shows: the progress of running jobs, and the tables of stored results."""

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from thresher.bench.compare.rows import compare, in_table_units, left_out
from thresher.bench.definition.grid import Job
from thresher.bench.definition.suite import Suite
from thresher.bench.pages.cell_tables import cell_table, describe_cell, none_run, set_apart, split_cells
from thresher.bench.run.identity import Result
from thresher.bench.run.results import refuse_unwritable
from thresher.bench.run.runner import RunOptions, run_jobs
from thresher.bench.run.sharing import shared_gpu
from thresher.core.files import refuse_as_folder

LEAST_WIDTHS = {"method": 12, "paper": 7}  # of the columns whose text may break into lines


def run_and_show(jobs: Sequence[Job], path: Path, options: RunOptions, console: Console) -> list[dict[str, Any]]:
    """Run every job and show its progress; after an interrupt say where the results are."""
    refuse_as_folder(path.parent)
    if jobs:
        refuse_unwritable(path)
    try:
        with shared_gpu(options.device, min(len(jobs), options.at_once)) as said:
            if said is not None:
                console.print(said)
            with Display(len(jobs), console) as display:
                return run_jobs(jobs, path, options, display)
    except KeyboardInterrupt as stop:
        stop.add_note(f"Stopped; every finished result is in {path}, and the same command goes on from there.")
        raise


class Display:
    """A bar for the whole, a bar for each running job, and a line for each that has ended."""

    def __init__(self, total: int, console: Console):
        text = TextColumn("{task.description}", markup=False)
        self.progress = Progress(text, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=console)
        self.whole = self.progress.add_task("results", total=total)
        self.bars: dict[str, TaskID] = {}

    def __enter__(self) -> "Display":
        self.progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.progress.stop()

    def started(self, job: Job) -> None:
        self.bars[job.name] = self.progress.add_task(f"  {job.name}", total=job.setup.epochs)

    def moved(self, job: Job, epoch: int, epochs: float) -> None:
        self.progress.update(self.bars[job.name], completed=epoch, total=epochs)

    def ended(self, job: Job, result: dict[str, Any]) -> None:
        self.progress.remove_task(self.bars.pop(job.name))
        self.progress.advance(self.whole)
        self.progress.console.print(outcome_line(job.name, result))


def outcome_line(name: str, result: dict[str, Any]) -> Text:
    """The outcome of a job in one line."""
    if result["status"] != "ok":
        return Text.assemble(("failed", "red"), f" {name}: {result['reason']}")
    last, best = (in_table_units(result["metric"], result[score]) for score in ("last", "best"))
    return Text(f"{name}: {result['metric']} {last:.4g}, best {best:.4g}, {result['seconds']:.0f} s")


def print_tables(suite: Suite, scale: str, results: Sequence[Result], console: Console) -> None:
    """The tables of the suite's page."""
    rows = compare(suite, scale, results)
    run, not_run = split_cells(suite, scale, rows)
    for cell in run:
        heads, body = cell_table(suite, rows, cell)
        lines, others = set_apart(heads, body, printed=False)
        shown = _table(heads, lines)
        shown.title, shown.caption = f"{suite.name} · {cell.name}", describe_cell(suite, scale, cell)
        console.print(shown)
        if others:
            console.print(others)
        for row in rows:
            if row.cell is cell and row.reasons:
                console.print(f"{row.entry.name} failed: {row.reasons[-1]}")
    if not_run:
        console.print(none_run(not_run))
    if other := left_out(suite, scale, results):
        console.print(f"{other} stored results were made with other settings and are left out.")


def _table(heads: Sequence[str], body: Sequence[Sequence[str]]) -> Table:
    """Narrow enough for 80 columns: text breaks into lines, and numbers do not."""
    made = Table(box=SIMPLE_HEAD, collapse_padding=True, pad_edge=False)
    for head in heads:
        width, lines = LEAST_WIDTHS.get(head), head.replace(" ", "\n")
        made.add_column(
            lines, justify="left" if width else "right", vertical="bottom", min_width=width, no_wrap=width is None
        )
    for line in body:
        made.add_row(*line)
    return made
