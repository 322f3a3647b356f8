"""Worker processes: start one, send it a job, receive its messages, stop it."""

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

GRACE_SECONDS = 5.0  # between SIGTERM and SIGKILL


@dataclass(eq=False)
class Worker:
    """A process, its current job, the latest it was sent, and the memory that the current job reported."""

    process: subprocess.Popen[bytes]
    errors: IO[bytes]
    job: Job | None = None
    latest: Job | None = None
    memory: int | None = None


# The messages of a process, and None when it has ended.
Events = queue.SimpleQueue[tuple[Worker, dict[str, Any] | None]]


def start_worker(events: Events, threads: int) -> Worker:
    """Start a process that waits for jobs; its messages arrive in `events`."""
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
        start_new_session=True,  # Ctrl-C reaches only this process, which stops the workers itself
    )
    worker = Worker(process, errors)
    threading.Thread(target=relay_messages, args=(worker, events), daemon=True).start()
    return worker


def relay_messages(worker: Worker, events: Events) -> None:
    """Put the messages of a process into `events` until it has ended."""
    assert worker.process.stdout is not None
    with worker.process.stdout as lines, contextlib.suppress(ValueError):  # a killed process leaves half a line
        for line in lines:
            events.put((worker, json.loads(line)))
    worker.process.wait()
    events.put((worker, None))


def send_job(worker: Worker, job: Job, options: dict[str, Any]) -> None:
    """Send a job to a process that has none."""
    try:
        message = pickle.dumps((job, options))
    except (pickle.PicklingError, AttributeError) as error:
        raise ThresherError(
            f"{job.name} cannot be sent to another process ({error}): use functions that can be imported in the suite."
        ) from error
    assert worker.process.stdin is not None
    worker.job = worker.latest = job
    worker.memory = None
    with contextlib.suppress(BrokenPipeError):  # if it has died, `relay_messages` reports it
        worker.process.stdin.write(message)
        worker.process.stdin.flush()


def exit_reason(worker: Worker) -> str:
    """Why a process has ended: its signal or exit status, and the last line of its error stream."""
    with worker.errors as errors:
        errors.seek(0)
        lines = errors.read().decode(errors="replace").strip().splitlines()
    _close_input(worker)
    status = worker.process.returncode
    how = f"was ended by {signal.Signals(-status).name}" if status < 0 else f"ended with exit status {status}"
    return f"The process {how}" + (f": {lines[-1][:300]}" if lines else ".")


def stop_worker(worker: Worker) -> None:
    """Stop a process and everything it has started."""
    for number, timeout in ((signal.SIGTERM, GRACE_SECONDS), (signal.SIGKILL, None)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(worker.process.pid, number)
        try:
            worker.process.wait(timeout)
            break
        except subprocess.TimeoutExpired:
            continue
    _close_input(worker)
    worker.errors.close()


def _close_input(worker: Worker) -> None:
    assert worker.process.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        worker.process.stdin.close()
