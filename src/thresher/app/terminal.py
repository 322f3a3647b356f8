"""What commands show in a terminal: consoles, progress, and tables of what runs came to."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from math import ceil
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from thresher.app.settings import Settings
from thresher.core.errors import printable
from thresher.core.examples import Examples
from thresher.engine.run import Run
from thresher.engine.store.checkpoint import Record
from thresher.engine.train import Moment
from thresher.noise import CorrectedAccuracy, audit_rate, corrected_accuracy, noise_matrix
from thresher.report.run_record import class_names_in, finite, noise_rate_found
from thresher.report.summary import (
    against_labels,
    examples_per_second,
    is_against_given_labels,
    percent,
    score_text,
    seconds_text,
)

Result = Mapping[str, Any]
Watch = Callable[[Moment], None]
LINE_EVERY = 10.0  # seconds between the lines of a log
REDRAW_EVERY = 0.1


class _Plain(Console):
    """A console whose texts, also those in tables, steer no terminal and can be encoded."""

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str("\n".join(map(printable, text.split("\n"))), **options)


def plain_console(**options: Any) -> Console:
    """A console that prints what it is given: square brackets and colons in names and paths are no markup."""
    return _Plain(highlight=False, markup=False, emoji=False, **options)


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
        tasks = [
            bars.add_task(printable(label).ljust(width), start=False, total=1, place="", found="") for label in labels
        ]
        yield [_bar(bars, task) for task in tasks]


def _bar(bars: Progress, task: TaskID) -> Watch:
    drawn, begun = 0.0, False

    def watch(moment: Moment) -> None:
        nonlocal drawn, begun
        if moment.note is not None:
            bars.console.print(moment.note, highlight=False)
            return
        if not begun:
            bars.start_task(task)
            begun = True
        now = time.monotonic()
        if moment.record is not None:
            bars.update(task, found=_epoch_found(moment.record))
        elif now - drawn < REDRAW_EVERY:  # a step may take less than a millisecond
            return
        drawn = now
        bars.update(task, total=moment.epochs, completed=_done(moment), place=_place(moment))

    return watch


def _lines(label: str, console: Console) -> Watch:
    written = begun = time.monotonic()
    before: float | None = None  # epochs that were done after the first step, whose time is not that of the others

    def watch(moment: Moment) -> None:
        nonlocal written, begun, before
        if moment.note is not None:
            console.print(moment.note, highlight=False, soft_wrap=True)
            return
        if before is None:
            before, begun = _done(moment), time.monotonic()
        ended = _done(moment) >= moment.epochs and moment.record is not None
        if time.monotonic() - written < LINE_EVERY and not ended:
            return
        written = time.monotonic()
        found = "" if moment.record is None else f"  {_epoch_found(moment.record)}"
        left = "" if ended else _left(written - begun, _done(moment) - before, moment.epochs - _done(moment))
        console.print(f"{label}  {_place(moment)}{found}{left}", highlight=False, soft_wrap=True)

    return watch


def _left(seconds: float, done: float, ahead: float) -> str:
    """How long the epochs ahead will take, where so many took so many seconds.

    >>> _left(60, 2, 8)
    '  about 4 min 0 s left'
    """
    return f"  about {seconds_text(seconds / done * ahead)} left" if done > 0 else ""


def _done(moment: Moment) -> float:
    share = 1.0 if moment.record is not None else moment.step / moment.steps
    return min(moment.epoch + share, moment.epochs)


def _place(moment: Moment) -> str:
    """Where training is: the epoch, of which the last may be a part, and the step of it.

    >>> _place(Moment(0, 0.4, 5, 12))
    'epoch 1/1 step 5/12'
    """
    return f"epoch {moment.epoch + 1}/{ceil(moment.epochs)} step {moment.step}/{moment.steps}"


def _epoch_found(record: Record) -> str:
    """What the last epoch showed."""
    return f"{record['metric']} {score_text(record['score'], record['metric'])}, kept {percent(record['kept'])}"


def result(run: Run, settings: Settings, out: Path, tuned: Run | None = None) -> Result:
    """The numbers of a run: scores are those of the test set, None where not finite; only epochs count as seconds."""
    seconds = sum(record["seconds"] for record in run.history)
    return {
        "method": settings.method,
        "data": settings.data,
        "corruption": settings.corruption,
        "seed": settings.seed,
        "noise_rate": noise_rate_found(out, run.history),
        "metric": run.history[-1]["metric"],
        "last": finite(run.last()),
        "best": finite(run.best()),
        "early_stopped": finite(run.chosen_score()),
        "fine_tuned": None if tuned is None else finite(tuned.scores[-1]),
        "balanced_accuracy": _mean_of_last(run, "balanced_accuracy"),
        "recalls": _recalls(run, class_names_in(out)),
        "trimmed_r2": _mean_of_last(run, "trimmed_r2"),
        "median_error": _mean_of_last(run, "median_error"),
        "against_given_labels": is_against_given_labels(out, asdict(settings)),
        "clean_share": run.clean_share(),
        "examples_per_second": examples_per_second(run.history),
        "seconds": seconds,
        "out": str(out),
    }


def _mean_of_last(run: Run, name: str, epochs: int = 10) -> float | None:
    values = [record["scores"][name] for record in run.history[-epochs:] if name in record["scores"]]
    return fmean(values) if values else None


def _recalls(run: Run, class_names: Sequence[str] | None) -> dict[str, float]:
    """The recall of each class by its name, or by its number where it has none, mean of the last ten epochs."""
    known = [name for name in run.history[-1]["scores"] if name.startswith("recall_")]
    labels = [name.removeprefix("recall_") for name in known]
    named = dict(enumerate(class_names or ()))
    said = [named.get(int(label), label) for label in labels]
    return {label: _mean_of_last(run, name) or 0.0 for label, name in zip(said, known, strict=True)}


def one_run(found: Result) -> Table:
    """A run in a few lines."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim")
    table.add_column(style="bold", justify="right")
    metric = found["metric"]
    table.add_row(f"{metric}, mean of the last ten epochs", score_text(found["last"], metric))
    table.add_row(f"{metric}, best epoch on the test set", score_text(found["best"], metric))
    if found["early_stopped"] is not None:
        table.add_row(f"{metric}, epoch chosen on the validation set", score_text(found["early_stopped"], metric))
    if found["fine_tuned"] is not None:
        table.add_row(f"{metric} after fine-tuning on clean examples", score_text(found["fine_tuned"], metric))
    if found["balanced_accuracy"] is not None:
        table.add_row("balanced accuracy, mean of the last ten epochs", percent(found["balanced_accuracy"]))
        worst = min(found["recalls"], key=found["recalls"].__getitem__)
        table.add_row(f"recall of the worst class ({printable(worst)})", percent(found["recalls"][worst]))
    if found["trimmed_r2"] is not None:
        table.add_row("trimmed R², which wrong targets hardly move", score_text(found["trimmed_r2"], metric))
        table.add_row("median error, in the unit of the target", f"{found['median_error']:.4g}")
    if found["clean_share"] is not None:
        table.add_row("clean targets among those kept", percent(found["clean_share"]))
    table.add_row("examples a second", f"{found['examples_per_second']:,.0f}")
    table.add_row("time", seconds_text(found["seconds"]))
    return table


def what_the_score_means(found: Result, settings: Settings, run: Run, test: Examples | None) -> str | None:
    """That the score is against labels which may be wrong, where it is, and what it would be against right ones."""
    if not found["against_given_labels"]:
        return None
    rate = settings.noise_rate if found["noise_rate"] is None else found["noise_rate"]
    corrected = None
    if test is not None and test.classes is not None and found["last"] is not None:
        corrected = against_true_labels(run, test, found["last"])
        rate = {"rate": corrected.rate}
    return against_labels(found["last"], found["metric"], rate, corrected)


def against_true_labels(run: Run, test: Examples, score: float) -> CorrectedAccuracy:
    """What an accuracy on held-out examples says about their true labels, by how predictions contradict the given."""
    chances, labels = run.predict_proba(test), test.labels.cpu().numpy()
    confusion = np.zeros((chances.shape[1], chances.shape[1]))
    np.add.at(confusion, (chances.argmax(1), labels), 1)
    rate = audit_rate(chances, labels)
    return corrected_accuracy(score, noise_matrix(chances, labels), confusion=confusion, rate=rate)


def side_by_side(results: Sequence[Result]) -> Table:
    """Several runs, a line each; the best mean of the last epochs stands out."""
    metric = results[0]["metric"]
    table = Table(box=None, padding=(0, 3, 0, 0), header_style="dim")
    table.add_column("method")
    for heading in (f"{metric}, last 10", "best epoch", "clean among kept", "time"):
        table.add_column(heading, justify="right")
    best = max((found["last"] for found in results if found["last"] is not None), default=None)
    for found in results:
        table.add_row(
            found["method"],
            score_text(found["last"], metric),
            score_text(found["best"], metric),
            percent(found["clean_share"]),
            seconds_text(found["seconds"]),
            style="bold green" if best is not None and found["last"] == best else None,
        )
    return table
