"""The goals of speed beside what is stored, by the command that measures them."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import Any

from thresher.bench.pages.markdown import table
from website.made import Made

Stored = dict[str, Any]
ENGINE = "python benchmarks/engine.py --contest MLP --rounds 6"
GPU = "python benchmarks/engine_gpu.py results/engine-gpu-table.jsonl --table"
CORESET, SETS = "python benchmarks/coreset.py", "python benchmarks/coreset_sets.py DATA"
L2RW, START = "python benchmarks/l2rw.py --rounds 9", "python benchmarks/start.py"


@dataclass(frozen=True)
class Goal:
    """A figure and the bound it should not pass (or should reach, where more is better); None if it is not stored."""

    work: str
    bound: float
    unit: str  # "s", or "×"
    of: str  # what the figure is a multiple of, or of which work it is the time
    figure: float | None
    command: str
    memory: float | None = None  # MiB at the peak
    more_is_better: bool = False

    @property
    def reached(self) -> str:
        if self.figure is None:
            return "not measured"
        good = self.figure >= self.bound if self.more_is_better else self.figure <= self.bound
        return "reached" if good else "not reached"


def goals_part(root: Path) -> Made:
    """A table of goals for each command that measures them."""
    parts, heads = [], ["work", "goal", "measured", ""]
    for command, goals in groupby(all_goals(root / "results"), key=lambda goal: goal.command):
        parts += [f"    {command}", table(heads, [_line(goal) for goal in goals])]
    return Made("\n\n".join(parts))


def _line(goal: Goal) -> list[str]:
    sign = "≥" if goal.more_is_better else "≤"
    bound = f"{sign} {goal.bound:g} {goal.unit}".replace(" ×", "×")
    figure = "" if goal.figure is None else f"{goal.figure:.2f} {goal.unit}".replace(" ×", "×")
    memory = "" if goal.memory is None else f", {goal.memory:,.0f} MiB"
    return [goal.work, f"{bound} {goal.of}".strip(), figure + memory, goal.reached]


def all_goals(folder: Path) -> list[Goal]:
    """Every goal, from the stored files of this folder."""
    return [*_on_gpu(folder), *_small_networks(folder), *_l2rw(folder), *_facility(folder), *_start(folder)]


def read(folder: Path, name: str) -> list[Stored]:
    lines = (folder / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if line]


def one(rows: Iterable[Stored], **facts: Any) -> Stored:
    """The last row with these facts; an empty one where there is none."""
    return next((row for row in reversed(list(rows)) if all(row.get(key) == facts[key] for key in facts)), {})


def _on_gpu(folder: Path) -> list[Goal]:
    rows = read(folder, "engine-gpu-table")

    def goal(work: str, bound: float, unit: str, of: str, value: str, more: bool = False, **facts: Any) -> Goal:
        row = one(rows, **facts)
        return Goal(work, bound, unit, of, row.get(value), GPU, row.get("memory_mib"), more)

    standard: dict[str, Any] = {"part": "standard", "model": "resnet18", "batch": 512, "who": "standard"}
    hand = one(rows, part="standard", who="by hand, compiled and captured").get("epoch")
    many = one(rows, part="side by side", who="standard, 6 at once")
    sooner = many["runs"] / many["against_base"] if many else None
    return [
        goal("H200, ResNet-18 batch 512, Standard", 0.60, "s", "an epoch", "epoch", **standard),
        Goal("the same loop, compiled and captured by hand", 0.60, "s", "an epoch", hand, GPU),
        goal("H200, `reclaim`, two views, batch 256", 1.35, "s", "an epoch", "epoch", part="reclaim", who="reclaim"),
        goal("H200, L2RW ResNet-18 batch 512, compiled", 2.2, "×", "captured Standard", "against_base", part="l2rw",
             who="l2rw, compiled"),
        *(
            goal(f"H200, PRL(G) GroupNorm ResNet-32 batch {batch}", 1.2, "×", "Standard", "against_base",
                 part="prl-g", who="prl-g", batch=batch)
            for batch in (128, 512)
        ),
        *(
            goal(f"H200, `{who}` ResNet-32 batch 512", 0.75, "×", "Standard", "against_base", part="crust", who=who)
            for who in ("crust-central", "crust")
        ),
        Goal("H200, six small runs side by side", 1.9, "×", "one after the other", sooner, GPU, None, True),
    ]  # fmt: skip


def _small_networks(folder: Path) -> list[Goal]:
    rows, found = read(folder, "engine-cpu"), []
    bounds = {"standard": 1.15, "prl-l": 1.2, "prl-g": 1.6, "co-teaching": 2.2, "l2rw": 2.8}
    for data in ("digits", "table"):
        for who, bound in bounds.items():
            row = next((row for row in rows if row["contest"].startswith(data) and row["who"] == who), {})
            work = f"CPU, MLP on {'digits' if data == 'digits' else 'a table'}, {who}"
            found.append(Goal(work, bound, "×", "by hand", row.get("against_hand"), ENGINE, row.get("peak_mib")))
    return found


def _l2rw(folder: Path) -> list[Goal]:
    rows = read(folder, "l2rw-cpu")
    found = []
    for clean, bound in ((100, 2.6), (20, 1.85)):
        row = one(rows, model="resnet32", clean_batch=clean, who="l2rw")
        work = f"CPU, L2RW ResNet-32, clean batch {clean}"
        found.append(Goal(work, bound, "×", "Standard", row.get("cpu_against_standard"), L2RW, row.get("peak_mib")))
    return found


def _facility(folder: Path) -> list[Goal]:
    rows = [row for row in read(folder, "coreset-cpu") if row["status"] == "done"]

    def middle(part: str, who: str, n: int, value: str = "seconds") -> float | None:
        found = [row[value] for row in rows if (row["part"], row["who"], row["n"]) == (part, who, n)]
        return median(found) if found else None

    goals = []
    for part, share in (("peers", "half"), ("peers 10%", "10%"), ("peers 1%", "1%")):
        for n in (5_000, 20_000):
            clock = "seconds" if part == "peers" else "busy"  # the others were measured beside other work
            ours, theirs = middle(part, "exact", n, clock), middle(part, "apricot lazy", n, clock)
            times, work = theirs / ours if ours and theirs else None, f"exact facility location, {share} of {n:,}"
            work += "" if part == "peers" else ", CPU time"
            held = middle(part, "exact", n, "MiB")
            goals.append(Goal(work, 10, "×", "as fast as apricot", times, CORESET, held, True))
    streamed = one(rows, part="growth", who="streamed", n=1_000_000)
    long = "streamed facility location, 1,000,000 rows"
    goals.append(Goal(long, 40, "s", "", streamed.get("seconds"), CORESET, streamed.get("MiB")))
    for data in ("clusters of unequal sizes", "texts", "pictures", "output gradients"):
        ways = {row["who"]: row for row in read(folder, "coreset-sets") if row["data"] == data}
        far = ways["streamed"]["distance"] / ways["exact"]["distance"] if ways else None
        work = f"distance to the nearest streamed medoid, {data}"
        goals.append(Goal(work, 1.1, "×", "exact greedy's", far, SETS, ways.get("streamed", {}).get("mib")))
    return goals


def _start(folder: Path) -> list[Goal]:
    rows = {row["who"]: row for row in read(folder, "start-cpu")}
    beyond = rows["import thresher, fit"]["cpu_seconds"] - rows["import torch"]["cpu_seconds"]
    named: list[tuple[str, float, Callable[[], float], str]] = [
        ("`thresher --version`", 0.3, lambda: rows["thresher --version"]["cpu_seconds"], "thresher --version"),
        ("`thresher methods`", 0.3, lambda: rows["thresher methods"]["cpu_seconds"], "thresher methods"),
        ("`from thresher import fit`, beyond torch", 0.5, lambda: beyond, "import thresher, fit"),
    ]
    goals = [Goal(work, bound, "s", "of CPU", of(), START, rows[who]["peak_mib"]) for work, bound, of, who in named]
    times, memory = rows["thresher train, beyond its epochs"]["times"], rows["thresher train, 2 epochs"]["peak_mib"]
    work = "`thresher train` on digits, beyond its epochs"
    of_torch = Goal(work, 1.5, "×", "import torch", times["import torch"], START, memory)
    made = times["torch and an optimizer"]
    of_optimizer = Goal(f"{work}; making an optimizer counted as import", 1.5, "×", "both", made, START, memory)
    return [*goals, of_torch, of_optimizer]
