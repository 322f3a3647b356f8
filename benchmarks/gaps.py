"""Where each method's time goes on a CPU, by parts of a step and of an epoch, and which of them Standard has not.

    python benchmarks/gaps.py results/gaps-cpu.jsonl

An MLP on a table of 20,000 rows, as in engine.py, on one thread. Methods take turns; a figure is the CPU time of a part
in microseconds a step, in the shortest epoch of each method, and the rest is what no part has.
"""

import argparse
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from engine import METHODS, by_hand, table, table_network
from gpu_parts import Wrapped
from timing import write

from thresher import Moment, fit
from thresher.data import take_clean
from thresher.engine.gradients.strategy import Factored
from thresher.engine.loop import training
from thresher.engine.loop.feed import Feed
from thresher.engine.step import forward, passes
from thresher.engine.step.learner import Learner
from thresher.engine.step.step import Step
from thresher.methods import method
from thresher.record.epoch_rows import EpochRows

BATCH = 64
PARTS: dict[str, tuple[Any, str]] = {
    "forward pass": (forward, "_forward"),
    "clean batch": (forward, "_see_clean"),
    "backward chain, norms or agreements": (Factored, "prepare"),
    "signals from the outputs": (passes, "read_all"),
    "rules": (Step, "_decide"),
    "backward pass": (torch.autograd, "backward"),
    "weighted gradient": (Step, "_differentiate_factored"),
    "optimizer": (Learner, "move"),
    "notes of the ledger": (EpochRows, "add"),
    "batch gathered": (Feed, "batches"),
    "random numbers seeded": (training, "seed_global"),
    "begin of an epoch": (Feed, "of_epoch"),
    "end of an epoch": (training.Training, "_end_epoch"),
}


class Clock:
    """The CPU time inside of each part, without that of other parts inside it."""

    def __init__(self) -> None:
        self.times: dict[str, float] = defaultdict(float)
        self.inside = [0.0]  # of the parts that are running, what others inside them have taken

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*given: Any, **named: Any) -> Any:
            self.inside.append(0.0)
            started = time.process_time()
            try:
                return function(*given, **named)
            finally:
                took = time.process_time() - started
                self.times[name] += took - self.inside.pop()
                self.inside[-1] += took

        return run


def epochs_of(name: str, epochs: int) -> list[dict[str, float]]:
    """Seconds of each part, and of all, in each epoch but the first."""
    data, known, found, clock = table(), None, list[dict[str, float]](), Clock()
    if name == "l2rw":
        known = take_clean(data.with_columns(true_target=data.targets), BATCH, 0)[1]
    last = 0.0

    def watch(moment: Moment) -> None:
        nonlocal last
        if moment.record is not None:
            now = time.process_time()
            found.append({**clock.times, "all": now - last})
            last = now
            clock.times.clear()

    recipe = method(name).recipe(noise_rate=0.4, classes=10, epochs=epochs + 1)
    with Wrapped(PARTS, clock.timed):
        fit(recipe, table_network, data, epochs=epochs + 1, batch=BATCH, clean=known, device="cpu", watch=watch)
    return found[1:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--rounds", type=int, default=4)
    told = parser.parse_args()
    torch.set_num_threads(1)
    steps, epochs = len(table()) // BATCH, 3
    hand, taken = list[float](), {name: list[dict[str, float]]() for name in METHODS}
    for _ in range(told.rounds):
        hand += by_hand(table_network, table(), BATCH, epochs)
        for name in METHODS:
            taken[name] += epochs_of(name, epochs)
    rows: list[dict[str, Any]] = [{"who": "by hand", "step_us": 1e6 * min(hand) / steps, "parts": {}}]
    for name, measured in taken.items():
        least = min(measured, key=lambda epoch: epoch["all"])
        parts = {part: 1e6 * seconds / steps for part, seconds in least.items() if part != "all"}
        whole = 1e6 * least["all"] / steps
        rows.append({"who": name, "step_us": whole, "parts": {**parts, "rest": whole - sum(parts.values())}})
    for row in rows:
        print(f"{row['who']:12} {row['step_us']:8.1f} us a step")
        print(*(f"    {part:38}{took:8.1f}" for part, took in row["parts"].items()), sep="\n")
    write(rows, told.out, 1)


if __name__ == "__main__":
    main()
