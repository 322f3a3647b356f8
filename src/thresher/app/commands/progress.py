"""Progress that people can watch, or read in a log."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import ceil

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from thresher.engine.store.checkpoint import Record
from thresher.engine.train import Moment
from thresher.report.summary import percent, score_text

Watch = Callable[[Moment], None]
LINE_EVERY = 10.0  # seconds between the lines of a log
REDRAW_EVERY = 0.1


@contextmanager
def progress(labels: Sequence[str], console: Console) -> Iterator[list[Watch]]:
    """One watcher a label: live bars in a terminal, and a line now and then elsewhere."""
    if not console.is_terminal:
        yield [_lines(label, console) for label in labels]
        return
    with Progress(
        TextColumn("{task.description}", style="bold", markup=False),
        BarColumn(bar_width=None, complete_style="cyan", finished_style="green"),
        TextColumn("{task.fields[place]}", style="dim", markup=False),
        TextColumn("{task.fields[found]}", markup=False),
        TimeRemainingColumn(compact=True, elapsed_when_finished=True),
        console=console,
        expand=True,
        refresh_per_second=8,
    ) as bars:
        width = max(len(label) for label in labels)
        tasks = [bars.add_task(label.ljust(width), start=False, total=1, place="", found="") for label in labels]
        yield [_bar(bars, task) for task in tasks]


def _bar(bars: Progress, task: TaskID) -> Watch:
    drawn, begun = 0.0, False

    def watch(moment: Moment) -> None:
        nonlocal drawn, begun
        if not begun:
            bars.start_task(task)
            begun = True
        now = time.monotonic()
        if moment.record is not None:
            bars.update(task, found=_found(moment.record))
        elif now - drawn < REDRAW_EVERY:  # a step may take less than a millisecond
            return
        drawn = now
        bars.update(task, total=moment.epochs, completed=_done(moment), place=_place(moment))

    return watch


def _lines(label: str, console: Console) -> Watch:
    written = time.monotonic()

    def watch(moment: Moment) -> None:
        nonlocal written
        ended = _done(moment) >= moment.epochs and moment.record is not None
        if time.monotonic() - written < LINE_EVERY and not ended:
            return
        written = time.monotonic()
        found = "" if moment.record is None else f"  {_found(moment.record)}"
        console.print(f"{label}  {_place(moment)}{found}", highlight=False, soft_wrap=True)

    return watch


def _done(moment: Moment) -> float:
    share = 1.0 if moment.record is not None else moment.step / moment.steps
    return min(moment.epoch + share, moment.epochs)


def _place(moment: Moment) -> str:
    """Where training is: the epoch, of which the last may be a part, and the step of it.

    >>> _place(Moment(0, 0.4, 5, 12))
    'epoch 1/1 step 5/12'
    """
    return f"epoch {moment.epoch + 1}/{ceil(moment.epochs)} step {moment.step}/{moment.steps}"


def _found(record: Record) -> str:
    """What the last epoch showed."""
    return f"{record['metric']} {score_text(record['score'], record['metric'])}, kept {percent(record['kept'])}"
