"""The paper's numbers beside ours: mean and spread over seeds, and the gap."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from thresher.bench.definition.grid import LAST_EPOCHS, Cell, Entry, Job
from thresher.bench.definition.published import Published
from thresher.bench.definition.suite import Suite
from thresher.bench.run.identity import Result, key_of, key_of_job
from thresher.bench.run.jobs import jobs_of, latest_by_key

ALL_DATA = "all of the data"  # the name of the line that shows the clean share before any selection
PERCENT_METRICS = ("accuracy",)  # scores from 0 to 1 that papers print from 0 to 100


@dataclass(frozen=True)
class Mean:
    """The mean over seeds and their sample deviation, which is None for a single seed."""

    value: float
    spread: float | None


@dataclass(frozen=True)
class Row:
    """One method in one cell: what the paper says, what we measured, and from how many seeds."""

    cell: Cell
    entry: Entry
    paper: Published | None
    last: Mean | None
    best: Mean | None
    gap: float | None
    clean_share: float | None
    seconds: float | None
    seeds: int
    wanted: int
    reasons: tuple[str, ...]  # why the other seeds failed
    results: tuple[Result, ...]


def compare(suite: Suite, scale: str, results: Sequence[Result]) -> list[Row]:
    """A row for every cell × method; results with other settings than the suite's are left out."""
    by_question: dict[str, list[Result]] = {}
    for result in latest_by_key(results).values():
        by_question.setdefault(key_of({**result, "seed": 0}), []).append(result)
    return [_row(suite, job, by_question.get(key_of_job(job), [])) for job in jobs_of(suite, scale, seeds=1)]


def left_out(suite: Suite, scale: str, results: Sequence[Result]) -> int:
    """How many stored results have settings that the suite does not have."""
    used = sum(len(row.results) + len(row.reasons) for row in compare(suite, scale, results))
    return len(latest_by_key(results)) - used


def in_table_units(metric: str, value: float) -> float:
    """A score as papers print it.

    >>> in_table_units("accuracy", 0.925), in_table_units("r2", 0.857)
    (92.5, 0.857)
    """
    return 100 * value if metric in PERCENT_METRICS else value


def mean_of(values: Sequence[float]) -> Mean | None:
    """Mean and sample deviation; None without values.

    >>> mean_of([1.0, 3.0])
    Mean(value=2.0, spread=1.4142135623730951)
    """
    if not values:
        return None
    return Mean(fmean(values), stdev(values) if len(values) > 1 else None)


def column_mean(row: Row, name: str, last: int = LAST_EPOCHS) -> Mean | None:
    """A column's mean over the last epochs, averaged over seeds."""
    tails = [[v for v in result["columns"].get(name, [])[-last:] if v is not None] for result in row.results]
    return mean_of([fmean(tail) for tail in tails if tail])


def _row(suite: Suite, job: Job, results: Sequence[Result]) -> Row:
    cell, entry = job.cell, job.entry
    good = tuple(result for result in results if result["status"] == "ok")
    paper = suite.published.get((cell.numbers_of, entry.name))
    scores = {
        name: mean_of([in_table_units(result["metric"], result[name]) for result in good]) for name in ("last", "best")
    }
    ours = scores[paper.score] if paper is not None else None
    shares = [result["clean_share"] for result in good if result["clean_share"] is not None]
    return Row(
        cell,
        entry,
        paper,
        scores["last"],
        scores["best"],
        gap=ours.value - paper.value if ours is not None and paper is not None else None,
        clean_share=fmean(shares) if shares else None,
        seconds=fmean([result["seconds"] for result in good]) if good else None,
        seeds=len(good),
        wanted=job.setup.seeds,
        reasons=tuple(result["reason"] for result in results if result["status"] != "ok"),
        results=good,
    )
