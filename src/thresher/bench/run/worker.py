"""A process that runs one job after another: it reads jobs and reports its progress, one JSON object a line."""

import json
import os
import pickle
import queue
import threading
import time
from collections.abc import Callable
from typing import Any

import torch

from thresher.bench.definition.grid import Job
from thresher.bench.run.provenance import uses_cuda
from thresher.bench.run.task import load_task, run_task, summary
from thresher.core.errors import ThresherError
from thresher.core.files import InUseError
from thresher.engine.train import Moment

LOOK_AGAIN = 2.0  # seconds after which a folder in use is tried again
CONTEXT_BYTES = 600 * 2**20  # what a CUDA context takes beside the tensors


def main() -> None:
    # Only messages may reach the pipe: what libraries print goes to the error stream.
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    jobs: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=read_jobs, args=(jobs,), daemon=True).start()
    while True:
        received = jobs.get()
        if isinstance(received, Exception):
            raise received
        job, options = received
        channel.write(json.dumps(run_job(job, options, channel), allow_nan=False) + "\n")
        channel.flush()


def read_jobs(jobs: "queue.SimpleQueue[Any]") -> None:
    """Read jobs from the input until it is closed: the process that started this one has then ended, so this one exits.

    A thread of its own notices that in the middle of a job as well.
    """
    pipe = os.fdopen(os.dup(0), "rb")  # not sys.stdin, which Python may close while this thread reads
    try:
        while True:
            jobs.put(pickle.load(pipe))
    except EOFError:
        os._exit(0)  # skips interpreter teardown
    except Exception as error:
        jobs.put(error)  # of a job that cannot be read


def run_job(job: Job, options: dict[str, Any], channel: Any) -> dict[str, Any]:
    """The numbers of a job, or the reason why there are none; every epoch is reported to the channel."""
    threads, on_cuda = options.pop("threads"), uses_cuda(options["device"])
    torch.set_num_threads(threads)
    if on_cuda:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(options["device"])

    def watch(moment: Moment) -> None:
        if moment.record is not None:
            memory = torch.cuda.max_memory_reserved(options["device"]) + CONTEXT_BYTES if on_cuda else 0
            message = {"epoch": moment.epoch + 1, "epochs": moment.epochs, "memory": memory}
            channel.write(json.dumps(message) + "\n")
            channel.flush()

    try:
        return {"result": summary(_when_free(lambda: run_task(load_task(job, watch=watch, **options))))}
    except ThresherError as error:
        return {"failed": str(error)}
    except Exception as error:
        return {"failed": f"{type(error).__name__}: {str(error).strip()}"[:500]}


def _when_free(act: Callable[[], Any]) -> Any:
    """Wait while another bench is at work in the folder of the same run, which is no failure."""
    while True:
        try:
            return act()
        except InUseError:
            time.sleep(LOOK_AGAIN)


if __name__ == "__main__":
    main()
