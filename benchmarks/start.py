"""What the start costs: commands that need no torch, what `import thresher` adds to importing torch, and a short run.

    python benchmarks/start.py [--rounds 5] [--out results/start-cpu.jsonl]

Every turn is a process of its own, in turns; figures are the least CPU seconds (user and system) of all rounds, which
other work on the machine disturbs least, with the peak of memory.
"""

import argparse
import os
import resource
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

FOLDER = "FOLDER"  # a new one every time
CONTESTANTS = {
    "python": ["-c", "pass"],
    "import torch": ["-c", "import torch"],
    "import thresher": ["-c", "import thresher"],
    "import thresher, fit": ["-c", "import torch; from thresher import fit"],
    "thresher --version": ["-m", "thresher", "--version"],
    "thresher methods": ["-m", "thresher", "methods"],
    "thresher train, one epoch": ["-m", "thresher", "train", "--data", "digits", "--epochs", "1", "--out", FOLDER],
}


def cost(words: list[str]) -> tuple[float, int]:
    """CPU seconds and KiB at the peak of a process."""
    with TemporaryDirectory() as folder:
        given = [str(Path(folder) / "run") if word == FOLDER else word for word in words]
        child = os.posix_spawn(
            sys.executable, [sys.executable, *given], os.environ,
            file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)],
        )  # fmt: skip
        _, status, used = os.wait4(child, 0)
    assert status == 0, words
    found: resource.struct_rusage = used
    return found.ru_utime + found.ru_stime, found.ru_maxrss


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
        torch = min(seconds for seconds, _ in turns["import torch"])
        row = {"who": name, "cpu_seconds": seconds, "against_torch": seconds / torch, "peak_mib": round(memory)}
        rows.append(row | {"rounds": told.rounds})
        print(f"{name:28}{seconds:7.3f} s of CPU {memory:6.0f} MiB", flush=True)
    from timing import write  # imports torch; a process begins with the peak of memory of the one that starts it

    write(rows, told.out, 1)


if __name__ == "__main__":
    main()
