"""Run jobs in worker processes, and store each result."""

import os
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch

from thresher.bench.definition.grid import Job
from thresher.bench.run.identity import head_of
from thresher.bench.run.processes import Events, Worker, exit_reason, send_job, start_worker, stop_worker
from thresher.bench.run.provenance import cores, provenance, uses_cuda
from thresher.bench.run.results import append
from thresher.core.errors import ThresherError
from thresher.core.files import refuse_as_folder
from thresher.data.loading import data_folder


class Watcher(Protocol):
    """Receives the progress of every job."""

    def started(self, job: Job) -> None: ...
    def moved(self, job: Job, epoch: int, epochs: float) -> None: ...
    def ended(self, job: Job, result: dict[str, Any]) -> None: ...


@dataclass(frozen=True)
class RunOptions:
    """Where and how jobs run: the device, how many at once, and the folders."""

    device: str | None = None
    at_once: int = 1
    data_dir: Path | None = None
    runs: Path | None = None  # keeps the run folder of each job, from which it is resumed

    def __post_init__(self) -> None:
        if self.at_once < 1:
            raise ThresherError(f"--jobs must be at least 1, not {self.at_once}.")
        if self.runs is not None:
            refuse_as_folder(self.runs)
        if self.data_dir is not None:
            data_folder(self.data_dir)

    @property
    def threads(self) -> int:
        """The cores of each process, at most OMP_NUM_THREADS."""
        allowed = os.environ.get("OMP_NUM_THREADS", "")
        share = max(1, cores() // self.at_once)
        return min(share, int(allowed)) if allowed.isdecimal() and int(allowed) > 0 else share

    def for_job(self, job: Job) -> dict[str, Any]:
        """What the worker process is sent beside the job."""
        out = None if self.runs is None else self.runs / job.suite / job.scale / job.name.replace(" ", "-")
        return {"threads": self.threads, "device": self.device, "data_dir": self.data_dir, "out": out}


def run_jobs(jobs: Sequence[Job], path: Path, options: RunOptions, watcher: Watcher) -> list[dict[str, Any]]:
    """Run every job and append each result as it arrives; after an interrupt the finished results are stored."""
    origin = provenance(options.device)
    origin["machine"] |= {"threads": options.threads, "jobs": options.at_once}
    waiting, workers, events = deque(jobs), list[Worker](), Events()
    done: list[dict[str, Any]] = []
    need = 0
    try:
        while waiting or any(worker.job is not None for worker in workers):
            _assign_jobs(waiting, workers, events, options, watcher, need)
            worker, message = events.get()
            job = worker.job
            if message is None:
                workers.remove(worker)
                message = {"failed": exit_reason(worker)}
            if job is None:  # it ended while it had no job
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
            stop_worker(worker)
    return done


def _assign_jobs(
    waiting: deque[Job], workers: list[Worker], events: Events, options: RunOptions, watcher: Watcher, need: int
) -> None:
    """Send a job to every idle process, and start as many more processes as are wanted and fit."""
    while waiting:
        idle = next((worker for worker in workers if worker.job is None), None)
        if idle is None:
            memories = [worker.memory for worker in workers]
            if len(workers) >= options.at_once or not has_room(memories, need, free_memory(options.device)):
                return
            idle = start_worker(events, options.threads)
            workers.append(idle)
        others = [worker.latest for worker in workers if worker is not idle]
        index = next_index(waiting, idle.latest, others)
        job = waiting[index]
        del waiting[index]
        send_job(idle, job, options.for_job(job))
        watcher.started(job)


def next_index(waiting: Sequence[Job], latest: Job | None, others: Sequence[Job | None]) -> int:
    """The job a process gets next: one of its latest cell and seed, else one of a cell and seed no other process has.

    What a cell and a seed share, such as a teacher, is thus made in one process and once.
    """
    own, taken = _cell_and_seed(latest), {_cell_and_seed(other) for other in others}
    found = [_cell_and_seed(job) for job in waiting]
    return min(range(len(waiting)), key=lambda index: (found[index] != own, found[index] in taken))


def _cell_and_seed(job: Job | None) -> tuple[str, int] | None:
    return None if job is None else (job.cell.name, job.seed)


def _outcome(message: dict[str, Any]) -> dict[str, Any]:
    if "failed" in message:
        return {"status": "failed", "reason": message["failed"]}
    return {"status": "ok", "reason": None, **message["result"]}


def has_room(memories: Sequence[int | None], need: int, free: int | None) -> bool:
    """Whether one more process fits beside those that run, of which some have not reported their memory yet.

    >>> has_room([], 0, 100), has_room([None], 0, 100), has_room([30], 30, 100), has_room([30, None, None], 30, 70)
    (True, False, True, False)
    """
    if free is None or not memories:  # no limit, or no other process
        return True
    unreported = memories.count(None)
    return need > 0 and free - unreported * need >= need


def free_memory(device: str | None) -> int | None:
    """The free bytes of the CUDA device; None on a CPU, whose memory is not rationed."""
    return torch.cuda.mem_get_info(device or "cuda")[0] if uses_cuda(device) else None
