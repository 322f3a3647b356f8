"""Which results a suite asks for, and what makes two of them the same."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import partial
from types import FunctionType
from typing import Any

from torch import nn

from thresher.bench.definition.grid import Job
from thresher.bench.definition.setup import Setup
from thresher.bench.definition.suite import Suite, setup_for
from thresher.core.errors import ThresherError
from thresher.core.evidence import Signal
from thresher.core.naming import unknown
from thresher.engine.store.identity import describe
from thresher.methods import Setting

Result = Mapping[str, Any]  # one line of a results file
ABOUT_DATA = ("data", "corruption", "options", "noise_rate", "clean", "validation", "prepare")  # fields of a cell


def jobs_of(
    suite: Suite,
    scale: str,
    *,
    cells: Sequence[str] = (),
    methods: Sequence[str] = (),
    seeds: int | None = None,
) -> list[Job]:
    """Every result the suite asks for, or only these cells, methods and seeds; all cells get their first seed first."""
    grid = suite.scale(scale)
    _refuse_unknown("cell", cells, [cell.name for cell in grid.cells])
    _refuse_unknown("method", methods, [entry.name for entry in suite.methods])
    if seeds is not None and seeds < 1:
        raise ThresherError(f"{seeds} seeds run nothing: give --seeds 1 or more.")
    jobs = []
    for cell in grid.cells:
        for entry in suite.methods:
            if cell.includes(entry) and (not cells or cell.name in cells) and (not methods or entry.name in methods):
                setup = setup_for(grid, cell, entry)
                jobs += [
                    Job(suite.name, scale, cell, entry, setup, seed, (*suite.columns, *cell.columns))
                    for seed in range(seeds or setup.seeds)
                ]
    return sorted(jobs, key=lambda job: job.seed)


def _refuse_unknown(kind: str, asked: Sequence[str], known: Sequence[str]) -> None:
    for name in asked:
        if name not in known:
            raise unknown(kind, name, known)


def settings_of(job: Job) -> dict[str, Any]:
    """Everything a result depends on but the seed, as plain values: another value is another result."""
    cell, setup = job.cell, job.setup
    # Recipes may read the number of classes; any fixed one tells two recipes apart without loading the data.
    setting = Setting(cell.noise_rate, 10 if cell.metric == "accuracy" else None, setup.epochs or 1)
    entry = job.entry
    tuning_steps = setup.tuning_steps if entry.fine_tune else Setup.tuning_steps
    told = {
        **{name: value for name, value in chosen(cell).items() if name in ABOUT_DATA},
        **chosen(replace(setup, seeds=Setup.seeds, tuning_steps=tuning_steps)),
        **{name: value for name, value in chosen(entry).items() if name in ("early_stop", "fine_tune")},
        "method": entry.how(setting),
    }
    settings: dict[str, Any] = json.loads(json.dumps(plain(told)))
    return settings


def plain(value: Any) -> Any:
    """A value as JSON can hold it, without whatever is left at its default.

    A slot that a recipe gains later, with a default that changes nothing, so leaves stored results as they are.

    >>> from thresher import Recipe
    >>> from thresher.rules import KeepSmallest
    >>> from thresher.core.signals import loss
    >>> plain(Recipe(clip=1.0, each_batch=KeepSmallest(by=loss, fraction=0.6)))
    {'Recipe': {'each_batch': {'KeepSmallest': {'by': 'loss', 'fraction': 0.6}}, 'clip': 1.0}}
    """
    if isinstance(value, Signal):
        return value.name
    if isinstance(value, FunctionType):
        return value.__qualname__  # and not where it stands, so that a file may be moved
    if isinstance(value, partial):
        return [plain(value.func), plain(value.args), plain(value.keywords)]
    if is_dataclass(value) and not isinstance(value, type | nn.Module):
        return {type(value).__qualname__: plain(chosen(value))}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return describe(value)


def chosen(value: Any) -> dict[str, Any]:
    """The fields of a dataclass that are not at their defaults."""
    found = {}
    for item in fields(value):
        now, default = getattr(value, item.name), item.default
        if type(now) is not type(default) or now != default:
            found[item.name] = now
    return found


def key_of(result: Result) -> str:
    """What two results share if and only if they answer the same question."""
    parts = [result[name] for name in ("suite", "scale", "cell", "method", "seed", "settings")]
    return json.dumps(parts, sort_keys=True)


def key_of_job(job: Job) -> str:
    return key_of(head_of(job))


def head_of(job: Job) -> dict[str, Any]:
    """How the line of a result begins."""
    return {
        "suite": job.suite,
        "scale": job.scale,
        "cell": job.cell.name,
        "method": job.entry.name,
        "seed": job.seed,
        "settings": settings_of(job),
    }


def answered(results: Sequence[Result]) -> dict[str, Result]:
    """The results by key: of several the latest good one, else the latest failure."""
    latest: dict[str, Result] = {}
    for result in results:
        key = key_of(result)
        if result["status"] == "ok" or latest.get(key, result)["status"] != "ok":
            latest[key] = result
    return latest


def missing(jobs: Sequence[Job], results: Sequence[Result], *, retry_failed: bool = False) -> list[Job]:
    """The jobs without a result; those that failed only if they are to be tried again."""
    known = answered(results)
    settled = {key for key, result in known.items() if result["status"] == "ok" or not retry_failed}
    return [job for job in jobs if key_of_job(job) not in settled]
