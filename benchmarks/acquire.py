"""BADGE's choice from gradient embeddings: ours against scikit-activeml's and against multiplied-out embeddings.

Every run is a process of its own, the contestants take turns, and times are medians. Embeddings are those of a network:
features behind a ReLU, and softmax minus one-hot. MiB is what a run needs beyond the factors themselves. The peer comes
from another environment where it is not in this one: --peers PYTHON.

    python benchmarks/acquire.py --rounds 3 --out results/acquire-cpu.jsonl
    python benchmarks/acquire.py --rounds 0 --growth 1000000x1000 --out results/acquire-cpu.jsonl
    python benchmarks/acquire.py --show results/acquire-cpu.jsonl > docs/results/acquire-cpu.md
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

WIDTH, COUNT, SEED = 512, 100, 0
DIFFERENCES, PRODUCTS = "multiplied out, by differences", "multiplied out, by matrix products"
CONTESTANTS = ("thresher", DIFFERENCES, PRODUCTS, "scikit-activeml")
GROWTH = ("20000x10", "100000x10", "1000000x10", "20000x1000", "100000x1000", "1000000x1000")


def factors(n: int, classes: int) -> tuple[Any, Any]:
    """(softmax - one-hot [n, classes], features [n, WIDTH]) as a network with one hidden layer would give them."""
    draws = np.random.default_rng(SEED)
    centres = draws.standard_normal((classes, WIDTH), dtype=np.float32)
    left, right = np.empty((n, classes), np.float32), np.empty((n, WIDTH), np.float32)
    for start in range(0, n, 1_000):
        some = slice(start, min(n, start + 1_000))
        rows = draws.standard_normal((some.stop - start, WIDTH), dtype=np.float32)
        right[some] = np.maximum(rows + centres[draws.integers(0, classes, len(rows))], 0)
        outputs = right[some] @ centres.T * (0.7 / WIDTH**0.5)
        chances = np.exp(outputs - outputs.max(1, keepdims=True))
        left[some] = chances / chances.sum(1, keepdims=True)
        left[np.arange(start, some.stop), left[some].argmax(1)] -= 1
    return left, right


def choose(name: str, left: Any, right: Any, count: int) -> list[int]:
    if name == "scikit-activeml":
        return by_scikit_activeml(left, right, count)
    import torch

    from thresher.rules import kmeans_plus_plus

    a, h, draws = torch.from_numpy(left), torch.from_numpy(right), torch.Generator().manual_seed(SEED)
    if name == "thresher":
        return kmeans_plus_plus(a, h, count, draws).tolist()
    return multiplied_out(a, h, torch.rand(count, dtype=torch.float64, generator=draws), name == PRODUCTS)


def multiplied_out(a: Any, h: Any, chances: Any, products: bool) -> list[int]:
    """k-means++ on embeddings that are made; matrix products are quicker, and lose digits where rows are near."""
    import torch

    rows = (a[:, :, None] * h[:, None]).flatten(1)
    lengths = (a * a).sum(1) * (h * h).sum(1)
    chosen = [int(lengths.argmax())]
    nearest = torch.full((len(rows),), torch.inf, dtype=torch.float64)
    for chance in chances[1:]:
        latest = chosen[-1]
        if products:
            found = (lengths + lengths[latest] - 2 * (rows @ rows[latest])).clamp_min_(0)
        else:
            found = torch.cat([(piece - rows[latest]).square_().sum(1) for piece in torch.split(rows, 256)])
        nearest = torch.minimum(nearest, found.double())
        running = nearest.cumsum(0)
        chosen.append(int(torch.searchsorted(running, chance * running[-1], right=True)))
    return chosen


def by_scikit_activeml(left: Any, right: Any, count: int) -> list[int]:
    from skactiveml.base import SkactivemlClassifier
    from skactiveml.pool import Badge

    chances = left.astype(np.float64)
    chances[np.arange(len(left)), left.argmin(1)] += 1

    class Known(SkactivemlClassifier):  # type: ignore[misc]
        """A classifier that has already predicted."""

        def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "Known":  # noqa: ARG002, N803
            return self

        def predict_proba(self, X: Any) -> Any:  # noqa: N803
            return chances[: len(X)]

    strategy = Badge(random_state=SEED)
    unlabelled = np.full(len(right), np.nan)
    return [int(i) for i in strategy.query(right, unlabelled, Known(), fit_clf=False, batch_size=count)]


def memory(kind: str) -> float:
    """MiB of this process, now (VmRSS) or at its peak (VmHWM)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(kind)) / 1024


def run_here(name: str, n: int, classes: int, threads: int, answer: Path) -> None:
    """Warm up on fewer examples, then choose, and write down what it took."""
    if name != "scikit-activeml":
        import torch

        torch.set_num_threads(threads)
    left, right = factors(n, classes)
    choose(name, left[:1000], right[:1000], 10)
    before = memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    wall, busy = time.perf_counter(), time.process_time()
    chosen = choose(name, left, right, COUNT)
    took = {"seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - busy}
    peak = memory("VmHWM")
    took |= {
        "MiB": peak - before,
        "peak_MiB": peak,
        "factors_MiB": (left.nbytes + right.nbytes) / 2**20,
    }
    answer.write_text(json.dumps({**took, "chosen": chosen}))


def run_apart(name: str, n: int, classes: int, options: argparse.Namespace) -> dict[str, Any]:
    """What run_here writes in a process of its own, or {"failed": why}."""
    python = options.peers if name == "scikit-activeml" else sys.executable
    threads = {f"{library}_NUM_THREADS": str(options.threads) for library in ("OMP", "MKL", "OPENBLAS")}
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer.json"
        command = [python, __file__, "--only", name, "--size", f"{n}x{classes}", "--answer", str(answer)]
        done = subprocess.run(
            [*command, "--threads", str(options.threads)],
            env=os.environ | threads, capture_output=True, text=True, errors="replace", check=False,
        )  # fmt: skip
        if done.returncode != 0:
            return {"failed": (done.stderr.strip().splitlines() or [f"signal {-done.returncode}"])[-1][:90]}
        result: dict[str, Any] = json.loads(answer.read_text())
        return result


def sizes(text: str) -> tuple[int, int]:
    n, classes = text.split("x")
    return int(n), int(classes)


def measure(options: argparse.Namespace) -> list[dict[str, Any]]:
    from thresher.bench.run.provenance import provenance

    facts = {"threads": options.threads, "features": WIDTH, "picks": COUNT, "seed": SEED, **provenance("cpu")}
    rows = []
    n, classes = sizes(options.size)
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in CONTESTANTS}
    for _ in range(options.rounds):
        for name in CONTESTANTS:
            runs[name].append(run_apart(name, n, classes, options))
    for name, taken in runs.items():
        if taken:
            rows.append({"kind": "against", "who": name, "n": n, "classes": classes, **middle(taken), **facts})
            ours = runs["thresher"][0].get("chosen")
            rows[-1]["same_picks"] = name != "scikit-activeml" and taken[0].get("chosen") == ours
            print(rows[-1], flush=True)
    for n, classes in map(sizes, options.growth):
        taken = [run_apart("thresher", n, classes, options) for _ in range(max(1, options.growth_rounds))]
        rows.append({"kind": "growth", "who": "thresher", "n": n, "classes": classes, **middle(taken), **facts})
        print(rows[-1], flush=True)
    return rows


def middle(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The medians of several runs, or why one of them failed."""
    failed = [run for run in runs if "failed" in run]
    if failed:
        return failed[0]
    return {key: statistics.median(run[key] for run in runs) for key in runs[0] if key != "chosen"} | {
        "rounds": len(runs)
    }


def show(rows: list[dict[str, Any]]) -> str:
    """The stored figures as a page."""
    against = [row for row in rows if row["kind"] == "against"]
    growth = sorted((row for row in rows if row["kind"] == "growth"), key=lambda row: (row["classes"], row["n"]))
    first = against[0]
    lines = [
        "# Choosing by BADGE: time and memory",
        "",
        f"{first['picks']} picks by k-means++ from the gradient embeddings of {first['n']:,} examples "
        f"({first['features']} features, {first['classes']} classes), "
        f"on a CPU with {first['threads']} threads; medians of {first['rounds']} runs, "
        "each in a process of its own. Memory is by how much that process had to grow, its factors being there.",
        "",
        "| who | seconds | times ours | CPU seconds | MiB | picks as ours for the same generator |",
        "|---|---|---|---|---|---|",
    ]
    for row in against:
        same = "-" if row["who"] in ("thresher", "scikit-activeml") else "yes" if row["same_picks"] else "no"
        wall, busy, times = row["seconds"], row["cpu_seconds"], row["seconds"] / first["seconds"]
        lines.append(f"| {row['who']} | {wall:.2f} | {times:.1f} | {busy:.2f} | {row['MiB']:.0f} | {same} |")
    lines += ["", f"How it grows, {first['picks']} picks, {first['features']} features:", ""]
    heads = "seconds | factors, MiB | beyond them, MiB | peak of the whole process, MiB"
    lines += [f"| examples | classes | {heads} | multiplied out it would be, GiB |"]
    lines += ["|---|---|---|---|---|---|---|"]
    for row in growth:
        made = 4 * row["n"] * row["classes"] * row["features"] / 2**30
        size, memory = f"{row['n']:,} | {row['classes']:,}", f"{row['factors_MiB']:,.0f} | {row['MiB']:,.0f}"
        memory += f" | {row['peak_MiB']:,.0f}"
        lines.append(f"| {size} | {row['seconds']:.1f} | {memory} | {made:,.1f} |")
    return "\n".join([*lines, "", "Made by `python benchmarks/acquire.py --show results/acquire-cpu.jsonl`."])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="20000x10", help="examples x classes against peers")
    parser.add_argument("--rounds", type=int, default=3, help="against peers; 0 to skip")
    parser.add_argument(
        "--growth", nargs="*", default=[], help=f"examples x classes of runs of ours: {' '.join(GROWTH)}"
    )
    parser.add_argument("--growth-rounds", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--peers", default=sys.executable, help="the Python that has scikit-activeml")
    parser.add_argument("--out", type=Path, help="where to add the rows; earlier ones of the same runs are replaced")
    parser.add_argument("--show", type=Path, help="print the page of these stored rows")
    parser.add_argument("--only", choices=CONTESTANTS, help="one run, written to --answer")
    parser.add_argument("--answer", type=Path)
    options = parser.parse_args()
    if options.show:
        print(show([json.loads(line) for line in options.show.read_text().splitlines()]))
    elif options.only:
        run_here(options.only, *sizes(options.size), options.threads, options.answer)
    else:
        rows = measure(options)
        if options.out:
            store(rows, options.out)


def store(rows: list[dict[str, Any]], out: Path) -> None:
    """Add the rows to the file, in the place of earlier ones about the same."""

    def about(row: dict[str, Any]) -> tuple[Any, ...]:
        return row["kind"], row["who"], row["n"], row["classes"]

    old = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    kept = {about(row): row for row in [*old, *rows]}
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text("".join(json.dumps(row) + "\n" for row in kept.values()))


if __name__ == "__main__":
    main()
