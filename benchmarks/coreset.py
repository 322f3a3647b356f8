"""Greedy facility location against apricot and submodlib, and how the time of each of our ways grows with n.

Every run is a process of its own, the contestants take turns, and times are medians. A peer needs a table of n × n
similarities; making it counts, and stands beside its time. Value is Σ_i max_j (largest distance - distance). The peers
come with the extra `peers`, or live in another environment: --peers PYTHON.

    python benchmarks/coreset.py --sizes 5000 20000 --rounds 3 --budget 120
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

WIDTH = 10
OURS = ("exact", "stochastic", "partitioned", "streamed")
PEERS = ("apricot lazy", "apricot two-stage", "submodlib lazy")
GROWTH = (2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000)


def embeddings(n: int) -> Any:
    return np.random.default_rng(0).standard_normal((n, WIDTH))


def similarities(rows: Any) -> Any:
    from sklearn.metrics import pairwise_distances

    table = pairwise_distances(rows)
    return table.max() - table


def choose(name: str, rows: Any, count: int) -> tuple[Any, float]:
    """The medoids, and the seconds spent on a table of similarities."""
    if name in OURS:
        import torch

        from thresher import rules

        matrix = torch.from_numpy(rows)
        way: Any = {
            "exact": rules.facility_location,
            "stochastic": rules.stochastic_facility_location,
            "partitioned": rules.partitioned_facility_location,
            "streamed": lambda matrix, count: rules.streamed_facility_location(list(matrix.split(10_000)), count),
        }[name]
        return way(matrix, count).indices.numpy(), 0.0
    start = time.perf_counter()
    table = similarities(rows)
    spent = time.perf_counter() - start
    if name == "submodlib lazy":
        from submodlib import FacilityLocationFunction

        function = FacilityLocationFunction(
            n=len(rows), mode="dense", sijs=table.astype(np.float32), separate_rep=False
        )
        chosen = function.maximize(budget=count, optimizer="LazyGreedy", stopIfZeroGain=False, stopIfNegativeGain=False)
        return np.array([place for place, _ in chosen]), spent
    from apricot import FacilityLocationSelection

    selection = FacilityLocationSelection(count, metric="precomputed", optimizer=name.removeprefix("apricot "))
    return np.asarray(selection.fit(table).ranking), spent


def run_here(name: str, n: int, count: int, threads: int, answer: Path) -> None:
    """Warm up on fewer examples, then choose, and write down what it took."""
    if name in OURS:
        import torch

        torch.set_num_threads(threads)
    choose(name, embeddings(1_000), 500)
    rows = embeddings(n)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    wall, busy = time.perf_counter(), time.process_time()
    chosen, table = choose(name, rows, count)
    took = {"seconds": time.perf_counter() - wall, "busy": time.process_time() - busy, "table": table}
    took["MiB"] = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    answer.write_text(json.dumps({**took, "chosen": np.asarray(chosen).tolist()}))


def run_apart(name: str, n: int, count: int, options: argparse.Namespace, limit: float | None = None) -> dict[str, Any]:
    """What run_here writes in a process of its own, or {"failed": why}."""
    python = options.peers if name in PEERS else sys.executable
    threads = {f"{library}_NUM_THREADS": str(options.threads) for library in ("OMP", "MKL", "OPENBLAS", "NUMBA")}
    threads["OMP_WAIT_POLICY"] = "PASSIVE"  # threads that spin take the core from whoever they wait for
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer.json"
        command = [python, __file__, "--only", name, "--sizes", str(n), "--count", str(count), "--answer", str(answer)]
        try:
            done = subprocess.run(
                [*command, "--threads", str(options.threads)],
                env=os.environ | threads, capture_output=True, text=True, errors="replace", timeout=limit, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return {"failed": f"not done after {limit:.0f} s"}
        if done.returncode != 0:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            return {"failed": f"killed by signal {-done.returncode}" if done.returncode < 0 else last[:90]}
        result: dict[str, Any] = json.loads(answer.read_text())
        return result


def value_of(rows: Any, chosen: list[int], largest: float) -> float:
    """Σ_i max_j (largest distance - distance)."""
    import torch

    matrix = torch.from_numpy(rows)
    medoids = matrix[chosen]
    return sum(float((largest - torch.cdist(block, medoids).amin(1)).sum()) for block in matrix.split(1000))


def largest_distance(rows: Any) -> float:
    import torch

    matrix = torch.from_numpy(rows)
    return max(float(torch.cdist(block, matrix).max()) for block in matrix.split(200))


def against_peers(n: int, options: argparse.Namespace) -> None:
    names = ("exact", *PEERS)
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for _ in range(options.rounds):
        for name in names:
            if not runs[name] or "failed" not in runs[name][-1]:
                runs[name].append(run_apart(name, n, n // 2, options, options.patience))
    rows = embeddings(n)
    largest = largest_distance(rows)
    print(f"\nn = {n}, k = {n // 2}, {WIDTH} dimensions, {options.threads} threads, {options.rounds} rounds")
    print(
        f"embeddings {rows.nbytes / 2**20:.1f} MiB, a table n × n {8 * n * n / 2**20:.0f} MiB, load {os.getloadavg()}"
    )
    print(f"{'':20}{'wall s':>9}{'CPU s':>9}{'of it table':>12}{'ratio':>8}{'MiB':>8}{'value':>20}")
    base = statistics.median(run["seconds"] for run in runs["exact"])
    for name in names:
        if "failed" in runs[name][-1]:
            print(f"{name:20} failed: {runs[name][-1]['failed']}")
            continue
        wall, busy, table, memory = (
            statistics.median(run[key] for run in runs[name]) for key in ("seconds", "busy", "table", "MiB")
        )
        value = value_of(rows, runs[name][-1]["chosen"], largest)
        print(f"{name:20}{wall:9.2f}{busy:9.2f}{table:12.2f}{wall / base:8.1f}{memory:8.0f}{value:20.6f}")


def growth(options: argparse.Namespace) -> None:
    print(f"\nseconds, MiB and share of the exact value, k = {options.count}, {options.budget:.0f} s each")
    print(f"{'n':>9}" + "".join(f"{name:>26}" for name in OURS))
    given_up: set[str] = set()
    for n in GROWTH:
        if n > options.largest:
            return
        rows, exact, cells = embeddings(n), None, []
        largest = largest_distance(rows) if n <= 100_000 and "exact" not in given_up else 0.0
        for name in OURS:
            run = {"failed": "-"} if name in given_up else run_apart(name, n, options.count, options, options.budget)
            if "failed" in run:
                given_up.add(name)
                cells.append(run["failed"])
                continue
            value = value_of(rows, run["chosen"], largest) if largest else 0.0
            exact = value if name == "exact" else exact
            share = f"{value / exact:.4f}" if exact else "-"
            cells.append(f"{run['seconds']:9.2f}{run['MiB']:8.0f}{share:>8}")
        print(f"{n:9}" + "".join(f"{cell:>26}" for cell in cells), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="*", default=[5_000, 20_000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--peers", default=sys.executable, help="the Python that has apricot and submodlib")
    parser.add_argument("--patience", type=float, default=900, help="seconds to wait for one run against peers")
    parser.add_argument("--budget", type=float, default=120, help="seconds for one run while n grows; 0 to skip")
    parser.add_argument("--count", type=int, default=1_000, help="medoids while n grows")
    parser.add_argument("--largest", type=int, default=1_000_000, help="the last n")
    parser.add_argument("--only", choices=OURS + PEERS, help="one run, written to --answer")
    parser.add_argument("--answer", type=Path)
    options = parser.parse_args()
    if options.only:
        run_here(options.only, options.sizes[0], options.count, options.threads, options.answer)
        return
    for n in options.sizes:
        against_peers(n, options)
    if options.budget:
        growth(options)


if __name__ == "__main__":
    main()
