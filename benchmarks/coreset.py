"""Greedy facility location against apricot and submodlib, and how the time of each way grows with n, on the CPU.

Every run is a process of its own, the contestants take turns, and times are medians over rounds. A peer needs a table
of n × n similarities; making it counts, and stands beside its time. Value is Σ_i max_j (largest distance - distance).

    uv pip install --group peers          (a dependency group, so that neither users nor `make test` install it)
    python benchmarks/coreset.py          (what the results file holds is not measured again)
    python benchmarks/coreset.py --show > docs/results/coreset.md
"""

import argparse
import importlib.metadata
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

WIDTH = 10
OURS = ("exact", "stochastic", "partitioned", "streamed")
PEERS = ("apricot lazy", "apricot two-stage", "submodlib lazy")
ROUNDS = {5_000: 5, 20_000: 2}  # for each n
SHARES = {"peers": 2, "peers 10%": 10, "peers 1%": 100}  # n over the number of medoids, in each part against peers
GROWTH, MEDOIDS, BUDGET = (2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000), 1_000, 120
MEMORY = 12 * 2**30  # bytes that a run may have
PATIENCE = 600  # seconds to wait for one run against peers
Result = dict[str, Any]


class Run(NamedTuple):
    """One measurement: of these, each is made once."""

    part: str  # one of SHARES, or "growth" with MEDOIDS
    who: str
    n: int
    round: int

    @property
    def count(self) -> int:
        return self.n // SHARES[self.part] if self.part in SHARES else MEDOIDS


def all_runs() -> Iterator[Run]:
    for part in SHARES:
        for n, rounds in ROUNDS.items():
            for turn in range(rounds):
                yield from (Run(part, who, n, turn) for who in ("exact", *PEERS))
    for n in GROWTH:
        yield from (Run("growth", who, n, 0) for who in (*OURS, *PEERS))


def embeddings(n: int) -> Any:
    return np.random.default_rng(0).standard_normal((n, WIDTH))


def similarities(rows: Any) -> Any:
    from sklearn.metrics import pairwise_distances

    table = pairwise_distances(rows)
    return np.subtract(table.max(), table, out=table)


def choose_ours(who: str, rows: Any, count: int) -> Any:
    import torch

    from thresher import rules

    ways: dict[str, Callable[[Any, int], Any]] = {
        "exact": rules.facility_location,
        "stochastic": rules.stochastic_facility_location,
        "partitioned": rules.partitioned_facility_location,
        "streamed": lambda matrix, count: rules.streamed_facility_location(list(matrix.split(10_000)), count),
    }
    return ways[who](torch.from_numpy(rows), count).indices.numpy()


def choose_theirs(who: str, table: Any, count: int) -> Any:
    if who == "submodlib lazy":
        from submodlib import FacilityLocationFunction

        function = FacilityLocationFunction(
            n=len(table), mode="dense", sijs=table.astype(np.float32), separate_rep=False
        )
        chosen = function.maximize(budget=count, optimizer="LazyGreedy", stopIfZeroGain=False, stopIfNegativeGain=False)
        return np.array([place for place, _ in chosen])
    from apricot import FacilityLocationSelection

    selection = FacilityLocationSelection(count, metric="precomputed", optimizer=who.removeprefix("apricot "))
    return np.asarray(selection.fit(table).ranking)


def choose(who: str, rows: Any, count: int) -> tuple[Any, float]:
    """The medoids, and the seconds spent on a table of similarities."""
    if who in OURS:
        return choose_ours(who, rows, count), 0.0
    start = time.perf_counter()
    table = similarities(rows)
    spent = time.perf_counter() - start
    return choose_theirs(who, table, count), spent


def peak_memory() -> int:
    """KiB of this process alone; what getrusage tells begins with the peak of the process that started it."""
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])


def run_here(who: str, n: int, count: int, answer: Path) -> None:
    """Warm up on fewer examples, then choose, and write down what it took."""
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    choose(who, embeddings(500), 250)
    rows = embeddings(n)
    before = peak_memory()
    wall, busy = time.perf_counter(), time.process_time()
    chosen, table = choose(who, rows, count)
    took = {"seconds": time.perf_counter() - wall, "busy": time.process_time() - busy, "table": table}
    took["MiB"] = (peak_memory() - before) / 1024
    answer.write_text(json.dumps({**took, "chosen": chosen.tolist()}))


def run_apart(run: Run, python: str, threads: int) -> Result:
    """What run_here writes in a process of its own, or {"failed": why}."""
    limit = PATIENCE if run.part in SHARES else BUDGET
    environment = {f"{library}_NUM_THREADS": str(threads) for library in ("OMP", "MKL", "OPENBLAS", "NUMBA")}
    environment["OMP_WAIT_POLICY"] = "PASSIVE"  # threads that spin take the core from whoever they wait for
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer.json"
        who = python if run.who in PEERS else sys.executable
        command = [who, __file__, "--one", run.who, str(run.n), str(run.count), str(answer)]
        try:
            done = subprocess.run(
                command, env=os.environ | environment, capture_output=True, text=True, errors="replace",
                timeout=limit, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return {"failed": f"not done after {limit} s"}
        if done.returncode == 0:
            found: Result = json.loads(answer.read_text())
            return found
        if "MemoryError" in done.stderr or "bad_alloc" in done.stderr:
            return {"failed": f"needs more than {MEMORY // 2**30} GiB"}
        return {"failed": (done.stderr.strip().splitlines() or [f"ended with {done.returncode}"])[-1][:90]}


def value_of(rows: Any, chosen: list[int]) -> float:
    """Σ_i max_j (largest distance - distance)."""
    import torch

    matrix = torch.from_numpy(rows)
    medoids, norms = matrix[chosen], (matrix - matrix.mean(0)).norm(dim=1)
    least = float(torch.cdist(matrix[norms.argmax(), None], matrix).max())
    far = matrix[norms >= least - norms.max()]  # whoever is not among these is nearer than `least` to all
    largest = max(float(torch.cdist(block, far).max()) for block in far.split(1000))
    return sum(float((largest - torch.cdist(block, medoids).amin(1)).sum()) for block in matrix.split(1000))


def measured(run: Run, python: str, threads: int) -> Result:
    found = run_apart(run, python, threads)
    if "failed" in found:
        return found
    return {**found, "value": value_of(embeddings(run.n), found.pop("chosen"))}


def measure_missing(
    path: Path, python: str, threads: int, minutes: float, parts: list[str], contestants: list[str]
) -> None:
    """Make the runs that the file does not hold, until the minutes are over; who failed is not asked for more."""
    from thresher.bench.run.provenance import provenance
    from thresher.bench.run.results import append, read_lines

    stored, _ = read_lines(path)
    known = {Run(*(each[key] for key in Run._fields)) for each in stored}
    failed = {(each["part"], each["who"], each["n"]) for each in stored if "failed" in each}
    facts = provenance("cpu")
    facts["versions"] |= versions_of_peers(python)
    end = time.monotonic() + 60 * minutes
    for run in all_runs():
        hopeless = any((run.part, run.who) == (part, who) and n <= run.n for part, who, n in failed)
        if run in known or run.part not in parts or run.who not in contestants or hopeless or time.monotonic() > end:
            continue
        found = measured(run, python, threads)
        status = "failed" if "failed" in found else "done"
        if status == "failed":
            failed.add((run.part, run.who, run.n))
        append(path, {"status": status, **run._asdict(), "count": run.count, **found, "threads": threads, **facts})
        print(*run, {key: found[key] for key in ("seconds", "MiB", "value", "failed") if key in found}, flush=True)


def versions_of_peers(python: str) -> dict[str, str]:
    names = ("apricot-select", "submodlib-py", "numba", "scikit-learn")
    ask = f"import importlib.metadata as m; print(*map(m.version, {names}))"
    found = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True).stdout.split()
    return dict(zip(names, found, strict=True)) | {"numpy": importlib.metadata.version("numpy")}


def page(results: list[Result]) -> str:
    """The page of the documentation."""
    machine, versions = results[0]["machine"], results[0]["versions"]
    lines = [
        "# Facility location: time, memory and value",
        "",
        "<!-- Made from results/coreset-cpu.jsonl by `python benchmarks/coreset.py --show`: do not edit. -->",
        "",
        f"{WIDTH} dimensions, normally distributed; {machine['cores']} cores ({machine['cpu']}), "
        f"{', '.join(' '.join(pair) for pair in versions.items())}.",
        "Every run is a process of its own, and contestants take turns. Memory is what a run needs beyond its input.",
        "A peer works on a table of all similarities, whose making is part of its time. The value is "
        "Σ_i max_j (largest distance - distance).",
    ]
    for part in SHARES:
        for n in sorted({each["n"] for each in results if each["part"] == part}):
            lines += against_peers([each for each in results if (each["part"], each["n"]) == (part, n)], n)
    return "\n".join([*lines, *growing([each for each in results if each["part"] == "growth"])]) + "\n"


def against_peers(results: list[Result], n: int) -> list[str]:
    lines = [
        f"\n## n = {n:,}, {results[0]['count']:,} medoids\n",
        f"On {threads_of(results)}. The embeddings take {8 * n * WIDTH / 2**20:.1f} MiB, a table of all pairs "
        f"{8 * n * n / 2**20:,.0f} MiB.\n",
        "| | seconds | of them for the table | against ours | CPU seconds | against ours | MiB | value | rounds |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    times = {who: [r for r in results if r["who"] == who] for who in dict.fromkeys(r["who"] for r in results)}
    base, busy_base = (median(times["exact"], key) for key in ("seconds", "busy"))
    for who, runs in times.items():
        name = "Thresher, exact" if who == "exact" else who
        if "failed" in runs[-1]:
            lines.append(f"| {name} | {runs[-1]['failed']} | | | | | | | |")
            continue
        seconds, busy, table, memory = (median(runs, key) for key in ("seconds", "busy", "table", "MiB"))
        lines.append(
            f"| {name} | {seconds:.2f} | {table:.2f} | {seconds / base:.1f}× | {busy:.2f} | "
            f"{busy / busy_base:.1f}× | {memory:,.0f} | "
            f"{runs[0]['value']:,.3f} | {len(runs)} |"
        )
    return lines


def threads_of(results: list[Result]) -> str:
    number = results[0]["threads"]
    return "1 thread" if number == 1 else f"{number} threads"


def median(runs: list[Result], key: str) -> float:
    return statistics.median(run[key] for run in runs)


def growing(results: list[Result]) -> list[str]:
    who = [name for name in (*OURS, *PEERS) if any(each["who"] == name for each in results)]
    cells = {(each["n"], each["who"]): each for each in results}
    lines = [
        f"\n## Growth with n, {MEDOIDS:,} medoids\n",
        f"On {threads_of(results)}: seconds, MiB, and the share of the value of exact greedy; each may take "
        f"{BUDGET} s and {MEMORY // 2**30} GiB, and is not asked for more examples once it could not.\n",
        "| n | " + " | ".join(who) + " |",
        "|---" * (len(who) + 1) + "|",
    ]
    for n in sorted({each["n"] for each in results}):
        exact = cells.get((n, "exact"), {}).get("value")
        lines.append(f"| {n:,} | " + " | ".join(growth_cell(cells.get((n, name)), exact) for name in who) + " |")
    return lines


def growth_cell(result: Result | None, exact: float | None) -> str:
    if result is None:
        return ""
    if "failed" in result:
        return result["failed"]
    share = f", {result['value'] / exact:.4f}" if exact else ""
    return f"{result['seconds']:.2f} s, {result['MiB']:,.0f} MiB{share}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", default=sys.executable, help="the Python that has apricot and submodlib")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--parts", nargs="*", default=[*SHARES, "growth"], help="which parts to measure")
    parser.add_argument("--who", nargs="*", default=[*OURS, *PEERS], help="which contestants to measure")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no run after so many minutes")
    parser.add_argument("--results", type=Path, default=Path("results/coreset-cpu.jsonl"))
    parser.add_argument("--show", action="store_true", help="measure nothing, print the page")
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        who, n, count, answer = given.one
        run_here(who, int(n), int(count), Path(answer))
    elif given.show:
        from thresher.bench.run.results import read_lines

        print(page(read_lines(given.results)[0]), end="")
    else:
        measure_missing(given.results, given.peers, given.threads, given.minutes, given.parts, given.who)


if __name__ == "__main__":
    main()
