"""What the terminal shows: everything that runs, live, and the tables of what was stored."""

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from thresher.bench.compare.rows import compare, in_table_units, left_out
from thresher.bench.definition.grid import Job
from thresher.bench.definition.suite import Suite
from thresher.bench.pages.page import NOT_RUN, about, cell_table, nothing_of, tried_cells
from thresher.bench.run.jobs import Result
from thresher.bench.run.runner import Place, run_jobs

WORDS = {"method": 12, "paper": 7}  # columns that may break into lines of at least so many letters


def run_and_show(jobs: Sequence[Job], path: Path, place: Place, console: Console) -> list[dict[str, Any]]:
    """Run every job, show how far they are, and say where the results are when somebody interrupts."""
    try:
        with Display(len(jobs), console) as display:
            return run_jobs(jobs, path, place, display)
    except KeyboardInterrupt as stop:
        stop.add_note(f"Stopped; every finished result is in {path}, and the same command goes on from there.")
        raise


class Display:
    """A bar for the whole, a bar for each job that runs, and a line for each that has ended."""

    def __init__(self, total: int, console: Console):
        columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
        self.progress = Progress(*columns, console=console)
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
        self.progress.console.print(in_words(job.name, result), highlight=False)


def in_words(name: str, result: dict[str, Any]) -> str:
    """What came of a job, in one line."""
    if result["status"] != "ok":
        return f"[red]failed[/red] {escape(name)}: {escape(result['reason'])}"
    last, best = (in_table_units(result["metric"], result[score]) for score in ("last", "best"))
    return f"{escape(name)}: {result['metric']} {last:.4g}, best {best:.4g}, {result['seconds']:.0f} s"


def print_tables(suite: Suite, scale: str, results: Sequence[Result], console: Console) -> None:
    """The tables of the suite's page."""
    rows = compare(suite, scale, results)
    tried, empty = tried_cells(suite, scale, rows)
    for cell in tried:
        heads, body = cell_table(suite, rows, cell)
        shown = _table(heads, [line for line in body if NOT_RUN not in line])
        shown.title, shown.caption = f"{suite.name} · {cell.name}", about(suite, scale, cell)
        console.print(shown)
        if idle := [line[0] for line in body if NOT_RUN in line]:
            console.print(f"Not run here: {'; '.join(idle)}.", markup=False, highlight=False)
        for row in rows:
            if row.cell is cell and row.reasons:
                console.print(f"{row.entry.name} failed: {row.reasons[-1]}", markup=False)
    if empty:
        console.print(nothing_of(empty), highlight=False)
    if other := left_out(suite, scale, results):
        console.print(f"{other} stored results were made with other settings and are left out.")


def _table(heads: Sequence[str], body: Sequence[Sequence[str]]) -> Table:
    """Narrow enough for 80 columns: words break into lines, and numbers do not."""
    made = Table(box=SIMPLE_HEAD, collapse_padding=True, pad_edge=False)
    for head in heads:
        words, lines = WORDS.get(head), head.replace(" ", "\n")
        made.add_column(
            lines, justify="left" if words else "right", vertical="bottom", min_width=words, no_wrap=words is None
        )
    for line in body:
        made.add_row(*line)
    return made
