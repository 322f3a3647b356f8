"""What the benchmarks share: contestants that take turns, their medians, peak memory, and the file of figures."""

import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from thresher.bench.run.provenance import provenance

Times = Mapping[str, Sequence[tuple[float, float]]]  # (wall, CPU) seconds of every turn of each contestant


def take_turns(contestants: Mapping[str, Callable[[], object]], rounds: int, warm: int = 1) -> Times:
    """Time `rounds` rounds in which each contestant has one turn, after some that warm up."""
    times: dict[str, list[tuple[float, float]]] = {who: [] for who in contestants}
    for turn in range(warm + rounds):
        for who, work in contestants.items():
            wall, busy = time.perf_counter(), time.process_time()
            work()
            if turn >= warm:
                times[who].append((time.perf_counter() - wall, time.process_time() - busy))
    return times


def medians(times: Times, base: str = "standard") -> list[dict[str, Any]]:
    """For each contestant its median times, and the medians of its ratios to the base in the same round; printed too.

    CPU time is disturbed less by other work on the machine than wall time.
    """
    rows = []
    for who, taken in times.items():
        ratios = [(wall / w, busy / b) for (wall, busy), (w, b) in zip(taken, times[base], strict=True)]
        (wall, busy), (by_wall, by_busy) = (
            [statistics.median(column) for column in zip(*pairs, strict=True)] for pairs in (taken, ratios)
        )
        print(f"  {who:22}{wall:8.3f} s{by_wall:6.2f}x   CPU {busy:8.3f} s{by_busy:6.2f}x", flush=True)
        rows.append({"who": who, "seconds": wall, "cpu_seconds": busy})
        rows[-1] |= {f"against_{base}": by_wall, f"cpu_against_{base}": by_busy}
    return rows


def peak_memory() -> float:
    """MiB of this process at its peak, from Linux; getrusage would begin with what the process that started it held."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024


def write(rows: Sequence[Mapping[str, Any]], path: Path | None, threads: int, device: str = "cpu") -> None:
    """The rows as a results file, each with the code, the versions and the machine it comes from."""
    if path is not None:
        facts = {"threads": threads, **provenance(device)}
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps({**row, **facts}) + "\n" for row in rows))
