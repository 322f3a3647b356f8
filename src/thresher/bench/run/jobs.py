"""Which results a suite asks for, and which of them are stored."""

from collections.abc import Sequence

from thresher.bench.definition.grid import Job
from thresher.bench.definition.suite import Suite, setup_for
from thresher.bench.run.identity import Result, key_of, key_of_job, refuse_shared_names
from thresher.core.errors import ThresherError, unknown


def jobs_of(
    suite: Suite,
    scale: str,
    *,
    cells: Sequence[str] = (),
    methods: Sequence[str] = (),
    seeds: int | None = None,
) -> list[Job]:
    """Every job of the suite, or only those of these cells, methods and seeds; the first seed of all cells first."""
    grid = suite.scale(scale)
    _refuse_unknown("cell", cells, [cell.name for cell in grid.cells])
    _refuse_unknown("method", methods, [entry.name for entry in suite.methods])
    if seeds is not None and seeds < 1:
        raise ThresherError(f"--seeds must be at least 1, not {seeds}.")
    jobs = []
    for cell in grid.cells:
        for entry in suite.methods:
            if cell.includes(entry) and (not cells or cell.name in cells) and (not methods or entry.name in methods):
                setup = setup_for(grid, cell, entry)
                jobs += [
                    Job(suite.name, scale, cell, entry, setup, seed, (*suite.columns, *cell.columns))
                    for seed in range(seeds or setup.seeds)
                ]
    refuse_shared_names([job for job in jobs if job.seed == 0])
    return sorted(jobs, key=lambda job: job.seed)


def _refuse_unknown(kind: str, asked: Sequence[str], known: Sequence[str]) -> None:
    for name in asked:
        if name not in known:
            raise unknown(kind, name, known)


def latest_by_key(results: Sequence[Result]) -> dict[str, Result]:
    """The results by key: of several the latest good one, else the latest failure."""
    latest: dict[str, Result] = {}
    for result in results:
        key = key_of(result)
        if result["status"] == "ok" or latest.get(key, result)["status"] != "ok":
            latest[key] = result
    return latest


def missing_jobs(jobs: Sequence[Job], results: Sequence[Result], *, retry_failed: bool = False) -> list[Job]:
    """The jobs without a result; with `retry_failed` also those that failed."""
    known = latest_by_key(results)
    done = {key for key, result in known.items() if result["status"] == "ok" or not retry_failed}
    return [job for job in jobs if key_of_job(job) not in done]
