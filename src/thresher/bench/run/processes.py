"""Processes for jobs: start one, hand it a job, hear from it, end it."""

import contextlib
import json
import os
import pickle
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from typing import IO, Any

from thresher.bench.definition.grid import Job
from thresher.core.errors import ThresherError

PATIENCE = 5.0  # seconds a process has to end by itself


@dataclass(eq=False)
class Worker:
    """A process, the job it is at and the latest it got, and the memory that job has told to take."""

    process: subprocess.Popen[bytes]
    errors: IO[bytes]
    job: Job | None = None
    latest: Job | None = None
    memory: int | None = None


# What a process tells, and None when it has ended.
Events = queue.SimpleQueue[tuple[Worker, dict[str, Any] | None]]


def start(events: Events, threads: int) -> Worker:
    """A process that waits for jobs; whatever it tells arrives in `events`."""
    errors = tempfile.TemporaryFile()  # noqa: SIM115  # it lives as long as the process
    process = subprocess.Popen(
        [sys.executable, "-m", "thresher.bench.run.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        env={
            **os.environ,
            "OMP_NUM_THREADS": str(threads),
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        },
        start_new_session=True,  # Ctrl-C reaches only us, and we end them in order
    )
    worker = Worker(process, errors)
    threading.Thread(target=listen, args=(worker, events), daemon=True).start()
    return worker


def listen(worker: Worker, events: Events) -> None:
    """Pass on what a process tells until it has ended."""
    assert worker.process.stdout is not None
    with worker.process.stdout as lines, contextlib.suppress(ValueError):  # one that is killed leaves half a line
        for line in lines:
            events.put((worker, json.loads(line)))
    worker.process.wait()
    events.put((worker, None))


def hand_over(worker: Worker, job: Job, options: dict[str, Any]) -> None:
    """Give a job to a process that has none."""
    try:
        asked = pickle.dumps((job, options))
    except (pickle.PicklingError, AttributeError) as error:
        raise ThresherError(
            f"{job.name} cannot be sent to another process ({error}): use functions that can be imported in the suite."
        ) from error
    assert worker.process.stdin is not None
    worker.job = worker.latest = job
    worker.memory = None
    with contextlib.suppress(BrokenPipeError):  # if it has died, the listener says so
        worker.process.stdin.write(asked)
        worker.process.stdin.flush()


def how_it_ended(worker: Worker) -> str:
    """Why a process is gone: its signal or exit status, and the last it had to say."""
    with worker.errors as errors:
        errors.seek(0)
        said = errors.read().decode(errors="replace").strip().splitlines()
    _close_input(worker)
    status = worker.process.returncode
    how = f"was ended by {signal.Signals(-status).name}" if status < 0 else f"ended with exit status {status}"
    return f"The process {how}" + (f": {said[-1][:300]}" if said else ".")


def stop(worker: Worker) -> None:
    """End a process and everything it has started."""
    for how, patience in ((signal.SIGTERM, PATIENCE), (signal.SIGKILL, None)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(worker.process.pid, how)
        try:
            worker.process.wait(patience)
            break
        except subprocess.TimeoutExpired:
            continue
    _close_input(worker)
    worker.errors.close()


def _close_input(worker: Worker) -> None:
    assert worker.process.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        worker.process.stdin.close()
