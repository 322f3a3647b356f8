"""A process that runs one job after another: it reads jobs and tells how far it is, one JSON object a line."""

import json
import os
import pickle
import queue
import threading
from typing import Any

import torch

from thresher.bench.definition.grid import Job
from thresher.bench.run.provenance import uses_cuda
from thresher.bench.run.task import measure, prepare, summary
from thresher.core.errors import ThresherError
from thresher.engine.train import Moment

CONTEXT_BYTES = 600 * 2**20  # what a CUDA context takes beside the tensors


def main() -> None:
    # Only messages may reach the pipe: whatever a library prints goes to the error stream.
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    asked: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=take_in, args=(asked,), daemon=True).start()
    while True:
        told = asked.get()
        if isinstance(told, Exception):
            raise told
        job, options = told
        channel.write(json.dumps(run_job(job, options, channel), allow_nan=False) + "\n")
        channel.flush()


def take_in(asked: "queue.SimpleQueue[Any]") -> None:
    """Take in jobs as they come; once nobody can send any, whoever started this process is gone, and so it ends too."""
    jobs = os.fdopen(os.dup(0), "rb")  # not sys.stdin, which Python may close while this thread reads
    try:
        while True:
            asked.put(pickle.load(jobs))
    except EOFError:
        os._exit(0)  # in the middle of a job as well, and without torch's long goodbye
    except Exception as error:
        asked.put(error)  # of a job that cannot be read


def run_job(job: Job, options: dict[str, Any], channel: Any) -> dict[str, Any]:
    """The numbers of a job, or the reason why there are none; every epoch is told to the channel."""
    threads, on_cuda = options.pop("threads"), uses_cuda(options["device"])
    torch.set_num_threads(threads)
    if on_cuda:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(options["device"])

    def watch(moment: Moment) -> None:
        if moment.record is not None:
            memory = torch.cuda.max_memory_reserved(options["device"]) + CONTEXT_BYTES if on_cuda else 0
            told = {"epoch": moment.epoch + 1, "epochs": moment.epochs, "memory": memory}
            channel.write(json.dumps(told) + "\n")
            channel.flush()

    try:
        return {"result": summary(measure(prepare(job, watch=watch, **options)))}
    except ThresherError as error:
        return {"failed": str(error)}
    except Exception as error:
        return {"failed": f"{type(error).__name__}: {str(error).strip()}"[:500]}


if __name__ == "__main__":
    main()
