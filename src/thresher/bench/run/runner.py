"""Run jobs in processes beside this one, and store what each gives."""

import os
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch

from thresher.bench.definition.grid import Job
from thresher.bench.run.jobs import head_of
from thresher.bench.run.processes import Events, Worker, hand_over, how_it_ended, start, stop
from thresher.bench.run.provenance import cores, provenance, uses_cuda
from thresher.bench.run.results import append
from thresher.core.errors import ThresherError


class Watcher(Protocol):
    """Whoever shows what is going on."""

    def started(self, job: Job) -> None: ...
    def moved(self, job: Job, epoch: int, epochs: float) -> None: ...
    def ended(self, job: Job, result: dict[str, Any]) -> None: ...


@dataclass(frozen=True)
class Place:
    """Where and how jobs run: the device, how many at once, and the folders."""

    device: str | None = None
    at_once: int = 1
    data_dir: Path | None = None
    runs: Path | None = None  # keeps the run folder of each job, from which it is resumed

    def __post_init__(self) -> None:
        if self.at_once < 1:
            raise ThresherError(f"--jobs {self.at_once} runs nothing: give 1 or more.")

    @property
    def threads(self) -> int:
        """A process's share of the cores, and no more than OMP_NUM_THREADS allows."""
        allowed = os.environ.get("OMP_NUM_THREADS", "")
        share = max(1, cores() // self.at_once)
        return min(share, int(allowed)) if allowed.isdigit() and int(allowed) > 0 else share

    def options(self, job: Job) -> dict[str, Any]:
        """What the process of a job is told beside the job."""
        out = None if self.runs is None else self.runs / job.suite / job.scale / job.name.replace(" ", "-")
        return {"threads": self.threads, "device": self.device, "data_dir": self.data_dir, "out": out}


def run_jobs(jobs: Sequence[Job], path: Path, place: Place, watcher: Watcher) -> list[dict[str, Any]]:
    """Run every job and append each result as it comes; when interrupted, what is finished is already stored."""
    origin = provenance(place.device)
    origin["machine"] |= {"threads": place.threads, "jobs": place.at_once}
    waiting, workers, events = deque(jobs), list[Worker](), Events()
    done: list[dict[str, Any]] = []
    need = 0
    try:
        while waiting or any(worker.job is not None for worker in workers):
            _hand_out(waiting, workers, events, place, watcher, need)
            worker, message = events.get()
            job = worker.job
            if message is None:
                workers.remove(worker)
                message = {"failed": how_it_ended(worker)}
            if job is None:  # it ended when it had nothing to do
                continue
            if "epoch" in message:
                worker.memory = message["memory"]
                need = max(need, message["memory"])
                watcher.moved(job, message["epoch"], message["epochs"])
                continue
            worker.job = None
            done.append({**head_of(job), **_outcome(message), **origin})
            append(path, done[-1])
            watcher.ended(job, done[-1])
    finally:
        for worker in workers:
            stop(worker)
    return done


def _hand_out(
    waiting: deque[Job], workers: list[Worker], events: Events, place: Place, watcher: Watcher, need: int
) -> None:
    """Give a job to every process that has none, and start as many more as are wanted and fit."""
    while waiting:
        idle = next((worker for worker in workers if worker.job is None), None)
        if idle is None:
            memories = [worker.memory for worker in workers]
            if len(workers) >= place.at_once or not has_room(memories, need, free_memory(place.device)):
                return
            idle = start(events, place.threads)
            workers.append(idle)
        others = [worker.latest for worker in workers if worker is not idle]
        place_of_next = next_place(waiting, idle.latest, others)
        job = waiting[place_of_next]
        del waiting[place_of_next]
        hand_over(idle, job, place.options(job))
        watcher.started(job)


def next_place(waiting: Sequence[Job], latest: Job | None, others: Sequence[Job | None]) -> int:
    """Which job a process does next: one of the cell and the seed that it is at, then of those that no other is at.

    What a cell and a seed share, such as a teacher, is so made in one process and once.
    """
    kin, taken = _kin(latest), {_kin(other) for other in others}
    kins = [_kin(job) for job in waiting]
    return min(range(len(waiting)), key=lambda place: (kins[place] != kin, kins[place] in taken))


def _kin(job: Job | None) -> tuple[str, int] | None:
    return None if job is None else (job.cell.name, job.seed)


def _outcome(message: dict[str, Any]) -> dict[str, Any]:
    if "failed" in message:
        return {"status": "failed", "reason": message["failed"]}
    return {"status": "ok", "reason": None, **message["result"]}


def has_room(memories: Sequence[int | None], need: int, free: int | None) -> bool:
    """Whether one more process fits beside those that run, of which some have not told their memory yet.

    >>> has_room([], 0, 100), has_room([None], 0, 100), has_room([30], 30, 100), has_room([30, None, None], 30, 70)
    (True, False, True, False)
    """
    if free is None or not memories:  # nothing to share, or nobody to share it with
        return True
    silent = memories.count(None)
    return need > 0 and free - silent * need >= need


def free_memory(device: str | None) -> int | None:
    """The bytes free on the CUDA device; None on a CPU, whose memory is not rationed."""
    return torch.cuda.mem_get_info(device or "cuda")[0] if uses_cuda(device) else None
