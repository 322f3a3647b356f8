"""Several processes on one GPU: CUDA's multi-process service, which lets them compute at once instead of in turns."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from thresher.bench.run.provenance import uses_cuda

CONTROL = "nvidia-cuda-mps-control"
PLACE = "CUDA_MPS_PIPE_DIRECTORY"  # where processes look for the service
USUAL_PLACE = Path("/tmp/nvidia-mps")  # where NVIDIA puts it
PATIENCE = 20  # seconds for it to start or end


@contextmanager
def shared_gpu(device: str | None, at_once: int) -> Iterator[str | None]:
    """The service while several processes use the GPU, started and ended here; in words what was done, None if nothing.

    A service that runs already is used and left alone.
    """
    if at_once < 2 or not uses_cuda(device) or shutil.which(CONTROL) is None:
        yield None
        return
    if (Path(os.environ.get(PLACE, USUAL_PLACE)) / "control").exists():
        yield "The processes share the GPU by the CUDA multi-process service that runs already."
        return
    with tempfile.TemporaryDirectory(prefix="thresher-mps-") as folder:
        places = {PLACE: folder, "CUDA_MPS_LOG_DIRECTORY": folder}
        refused = _tell(["-d"], None, places)
        if refused is not None:
            yield f"The processes take turns on the GPU: CUDA's multi-process service did not start ({refused})."
            return
        before = {name: os.environ.get(name) for name in places}  # a place in which no service runs
        os.environ |= places
        try:
            yield "CUDA's multi-process service was started for these processes, and ends with them."
        finally:
            for name, value in before.items():
                os.environ.pop(name)
                if value is not None:
                    os.environ[name] = value
            _tell([], "quit\n", places)


def _tell(options: list[str], words: str | None, places: dict[str, str]) -> str | None:
    """Run the control command; why it failed, or None."""
    # Its daemon keeps the streams it gets open, so that a pipe would never end: it gets a file.
    with tempfile.TemporaryFile("w+") as said:
        try:
            done = subprocess.run(
                [CONTROL, *options], input=words or "", stdout=said, stderr=said, text=True,
                env=os.environ | places, timeout=PATIENCE, check=False,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            return type(error).__name__
        said.seek(0)
        lines = said.read().split("\n")
        return None if done.returncode == 0 else lines[0].strip() or f"exit status {done.returncode}"
