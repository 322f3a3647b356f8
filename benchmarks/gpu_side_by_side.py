"""Runs that share one GPU: an epoch of each while all are at it, with CUDA's multi-process service where it starts.

python benchmarks/gpu_side_by_side.py resnet32 128 50000        (one such run; its last line is its epochs)
"""

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch
from engine_gpu import images, make, sgd

from thresher import fit
from thresher.bench.run.sharing import shared_gpu
from thresher.methods import method

EPOCHS = 3  # of which the first is each run's own start and the last may be alone


def side_by_side(model: str, batch: int, runs: int, count: int) -> dict[str, Any]:
    """The median epoch of so many runs, and how much sooner they end than one after the other would."""
    started, told = time.perf_counter(), []
    command = [sys.executable, str(Path(__file__)), model, str(batch), str(count)]
    with shared_gpu("cuda" if torch.cuda.is_available() else "cpu", runs) as sharing:
        told += [] if sharing is None else [sharing]
        running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(runs)]
        try:
            said = [process.communicate()[0].strip().splitlines() for process in running]
        finally:
            for process in running:
                process.kill()
                process.wait()
    epochs = [json.loads(lines[-1]) for lines in said]
    middle = statistics.median(seconds for each in epochs for seconds in each[1:-1])
    wall, who = time.perf_counter() - started, f"standard, {runs} at once"
    return {"who": who, "epoch": middle, "runs": runs, "wall": wall, "epochs": epochs, "told": told}


def main() -> None:
    model, batch, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    recipe = method("standard").recipe(noise_rate=0.4, classes=10, epochs=4)
    how: dict[str, Any] = {"epochs": EPOCHS, "batch": batch, "optimizer": sgd, "compiled": False}
    run = fit(recipe, make(model), images(count), **how)
    print(json.dumps([record["seconds"] for record in run.history]), flush=True)


if __name__ == "__main__":
    main()
