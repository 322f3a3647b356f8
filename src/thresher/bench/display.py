"""One live display for everything that runs."""

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from thresher.bench.compare import in_table_units
from thresher.bench.jobs import Job
from thresher.bench.runner import Place, run_jobs


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
