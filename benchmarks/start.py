"""What the start costs: commands that need no torch, and what `import thresher` adds to importing torch.

    python benchmarks/start.py [--rounds 5] [--out results/start-cpu.jsonl]

Every turn is a process of its own, in turns; figures are the least CPU seconds (user and system) of all rounds, which
other work on the machine disturbs least, with the peak of memory. What `thresher train` costs beyond training is what
a line through two lengths of training says of no epochs; it includes importing torch. Python keeps its bytecode, as it
does where packages are installed: the first round writes it, so give at least two.
"""

import argparse
import os
import resource
import sys
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

SHORT, LONG = 2, 22  # epochs
TRAIN = ["-m", "thresher", "train", "--data", "digits", "--method", "standard", "--out", "run", "--epochs"]
BESIDE = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
OPTIMIZER = "import torch; torch.optim.Adam(torch.nn.Linear(1, 1).parameters())"
CONTESTANTS = {
    "python": ["-c", "pass"],
    "import torch": ["-c", "import torch"],
    "import thresher": ["-c", "import thresher"],
    "import thresher, fit": ["-c", "import torch; from thresher import fit"],
    "thresher --version": ["-m", "thresher", "--version"],
    "thresher methods": ["-m", "thresher", "methods"],
    "torch and an optimizer": ["-c", OPTIMIZER],
    f"thresher train, {SHORT} epochs": [*TRAIN, str(SHORT)],
    f"thresher train, {LONG} epochs": [*TRAIN, str(LONG)],
}


def cost(words: list[str]) -> tuple[float, int]:
    """CPU seconds and KiB at the peak of a process, which may write into an empty folder."""
    quiet = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_WRONLY, 0) for number in (1, 2)]
    with TemporaryDirectory() as folder, chdir(folder):
        child = os.posix_spawn(sys.executable, [sys.executable, *words], BESIDE, file_actions=quiet)
        _, status, used = os.wait4(child, 0)
    assert status == 0, words
    found: resource.struct_rusage = used
    return found.ru_utime + found.ru_stime, found.ru_maxrss


def beyond_training(seconds: dict[str, float], rounds: int) -> dict[str, Any]:
    """What `thresher train` costs beyond its epochs, and that beside importing torch, bare and with an optimizer."""
    short, long = (seconds[f"thresher train, {epochs} epochs"] for epochs in (SHORT, LONG))
    beyond = short - SHORT * (long - short) / (LONG - SHORT)
    times = {name: beyond / seconds[name] for name in ("import torch", "torch and an optimizer")}
    print(f"thresher train beyond its epochs: {beyond:.2f} s of CPU, {times}")
    return {"who": "thresher train, beyond its epochs", "cpu_seconds": beyond, "times": times, "rounds": rounds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path)
    told = parser.parse_args()
    turns: dict[str, list[tuple[float, int]]] = {name: [] for name in CONTESTANTS}
    for _ in range(told.rounds):
        for name, words in CONTESTANTS.items():
            turns[name].append(cost(words))
    rows: list[dict[str, Any]] = []
    for name, found in turns.items():
        seconds, memory = min(seconds for seconds, _ in found), max(memory for _, memory in found) / 1024
        rows.append({"who": name, "cpu_seconds": seconds, "peak_mib": round(memory), "rounds": told.rounds})
        print(f"{name:26}{seconds:7.3f} s of CPU {memory:6.0f} MiB", flush=True)
    rows.append(beyond_training({row["who"]: row["cpu_seconds"] for row in rows}, told.rounds))
    from timing import write  # imports torch; a process begins with the peak of memory of the one that starts it

    write(rows, told.out, 1)


if __name__ == "__main__":
    main()
