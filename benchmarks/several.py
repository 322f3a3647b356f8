"""What several processes cost and gain on this machine's cores: our gathers beside plain DDP, weak and strong scaling.

    python benchmarks/several.py [--batch 4096] [--steps 12] [--rounds 3] [--out results/several-cpu.jsonl]
    python benchmarks/several.py --device cuda --processes 1 2 --rounds 2 --out results/several-gpu.jsonl
    python benchmarks/several.py --decisions --processes 1 2 4 --out results/several-decided.jsonl
    python benchmarks/several.py --show results/several-cpu.jsonl > docs/results/several-cpu.md

Every process computes in one thread. In a group the contestants take turns, and figures are medians over rounds: a loop
by hand with DDP, and the steps of `fit` by plain training and by PRL(L). The gathers of PRL(L) are also
timed by themselves, with the tensors of such a step. Two processes on two cores that others use as well scale badly:
the ratios within one group are what to read. On CUDA all processes share the first GPU and talk by gloo, since NCCL
wants a GPU for each; there only groups of the one batch are timed.

With --decisions every group trains some methods on a small set in double precision and chooses examples of it to label;
ledgers, parameters and choices are compared with those of one process.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from several_data import SOURCES, make_sources, read, source
from several_decided import CHOOSE, CLASSES, DECIDE, WIDTH, Found, chosen, compared, decided, examples
from several_page import show
from timing import write
from torch import Tensor, distributed, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from thresher import Examples, fit
from thresher.engine.several.gather import NotesOfAll
from thresher.engine.several.ranks import Ranks
from thresher.record.epoch_rows import Note


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(WIDTH, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, CLASSES))


def now(device: str) -> float:
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def by_hand(data: Examples, batch: int, steps: int, device: str) -> float:
    """Seconds a step of the loop everybody writes: DDP, and this process's part of each batch."""
    count, rank = (distributed.get_world_size(), distributed.get_rank()) if distributed.is_initialized() else (1, 0)
    model: nn.Module = network().to(device)
    model = DistributedDataParallel(model) if count > 1 else model
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    assert isinstance(data.inputs, Tensor)
    inputs, targets = data.inputs.to(device), data.targets.to(device)
    seconds = []
    for step in range(steps):
        begun = now(device)
        index = torch.arange(step * batch, (step + 1) * batch, device=device).tensor_split(count)[rank] % len(targets)
        optimizer.zero_grad()
        cross_entropy(model(inputs[index]), targets[index]).backward()
        optimizer.step()
        seconds.append(now(device) - begun)
    return statistics.median(seconds[2:])


def by_fit(method: str, data: Examples, batch: int, steps: int, device: str) -> float:
    """Seconds between the steps of `fit`, in the first process; the others only train."""
    times: list[float] = []
    fit(
        method, network, data, noise_rate=0.4, steps=steps, batch=batch, device=device, precision="float32",
        watch=lambda moment: times.append(now(device)) if moment.record is None else None,
    )  # fmt: skip
    gaps = [after - before for before, after in pairwise(times[2:])]
    return statistics.median(gaps) if gaps else 0.0


def gathers(batch: int, steps: int, device: str) -> float:
    """Seconds of what PRL(L) gathers in a step: one signal before the rule, and the notes of the ledger after it."""
    if not distributed.is_initialized():
        return 0.0
    ranks = Ranks(torch.device(device))
    rows = len(ranks.own(torch.empty(batch)))
    signal, *facts = torch.randn(4, rows, device=device)
    note = Note(torch.arange(rows, device=device), torch.randn(rows, CLASSES, device=device), *facts)
    together = NotesOfAll(ranks, batch)
    seconds = []
    for _ in range(steps):
        distributed.barrier()
        begun = now(device)
        ranks.whole(signal[:, None], batch)
        together([note])
        seconds.append(now(device) - begun)
    return statistics.median(seconds)


def attempted(what: str, work: Callable[[], Any]) -> Any:
    """What comes of it, or None, with the reason said: what one contestant cannot do does not end the others."""
    try:
        return work()
    except RuntimeError as error:
        print(f"{what} failed: {error}", flush=True)
        return None


def one_process(rank: int, count: int, folder: Path, batch: int, steps: int, rounds: int, device: str) -> None:
    """One of a group: it takes part in the timing, or where there are no rounds, in decisions."""
    torch.set_num_threads(1)
    if count > 1:
        distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=count)
    work = timings(rank, count, folder, batch, steps, rounds, device) if rounds else decisions(count, folder, device)
    if rank == 0:
        torch.save(work, folder / "found.pt")
    if count > 1:
        distributed.barrier()
        distributed.destroy_process_group()


def timings(rank: int, count: int, folder: Path, batch: int, steps: int, rounds: int, device: str) -> Found:
    """Seconds of a step of each contestant in every round, and examples a second of what is read."""
    data = examples(batch * steps)
    contestants: dict[str, Callable[[], float]] = {
        "DDP by hand": lambda: by_hand(data, batch, steps, device),
        "standard": lambda: by_fit("standard", data, batch, steps, device),
        "prl-l": lambda: by_fit("prl-l", data, batch, steps, device),
        "gathers of prl-l": lambda: gathers(batch, steps, device),
    }
    taken: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, run in contestants.items():
            seconds = attempted(name, run)
            if seconds is not None:
                taken[name].append(seconds)
    reads = {
        f"{name}, {workers} workers": read(source(name, folder), batch, workers, count, rank)
        for name in (SOURCES if device == "cpu" else ())
        for workers in (0, 1)
    }
    return {"taken": taken, "reads": reads}


def decisions(count: int, folder: Path, device: str) -> Found:
    """What methods decide, on a set in memory and on streams, and which examples are chosen to label."""
    tried = {method: attempted(method, partial(decided, method, device)) for method in DECIDE}
    for name in SOURCES if device == "cpu" else ():
        tried[f"prl-l on {name}"] = attempted(name, partial(decided, "prl-l", device, source(name, folder)))
    tried["prl-l, FSDP2"] = attempted("FSDP2", partial(decided, "prl-l", device, sharded=count > 1))
    runs = {method: found for method, found in tried.items() if found is not None}
    return {"runs": runs, "ids": {name: chosen(name, device) for name in CHOOSE} if device == "cpu" else {}}


def group(count: int, batch: int, steps: int, rounds: int, device: str) -> dict[str, Any]:
    """What a group of so many processes found: seconds of every round of each contestant, and what was decided."""
    with tempfile.TemporaryDirectory() as folder:
        if device == "cpu":
            make_sources(Path(folder))
        told = [str(each) for each in (count, folder, batch, steps, rounds, device)]
        surroundings = {**os.environ, "OMP_NUM_THREADS": "1"}
        started = [
            subprocess.Popen([sys.executable, __file__, "--process", str(rank), *told], env=surroundings)
            for rank in range(count)
        ]
        for process in started:
            if process.wait() != 0:
                raise SystemExit("a process of the benchmark failed")
        found: dict[str, Any] = torch.load(Path(folder) / "found.pt")
        return found


def timed(scaling: str, count: int, batch: int, taken: dict[str, list[float]]) -> list[Found]:
    rows: list[Found] = []
    for name, seconds in taken.items():
        if len(seconds) < len(taken["DDP by hand"]):
            continue
        ratios = [mine / base for mine, base in zip(seconds, taken["DDP by hand"], strict=True)]
        row = {"scaling": scaling, "processes": count, "batch": batch, "who": name}
        rows.append(row | {"seconds": statistics.median(seconds), "against_ddp": statistics.median(ratios)})
        print(json.dumps(rows[-1]), flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=4096)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2], help="sizes of groups; 1 comes first")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--decisions", action="store_true", help="compare what is decided, and time nothing")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--show", type=Path, help="print the page of these rows, and of those beside them")
    told = parser.parse_args()
    if told.show is not None:
        files = [told.show, *(told.show.with_name(f"several-{part}.jsonl") for part in ("decided", "killed"))]
        print(show([json.loads(line) for file in files if file.exists() for line in file.read_text().splitlines()]))
        return
    rows: list[Found] = []
    counts = sorted({1, *told.processes})
    if told.decisions:
        alone, *others = (group(count, told.batch, told.steps, 0, told.device) for count in counts)
        for count, found in zip(counts[1:], others, strict=True):
            rows += compared(count, found, alone)
    for scaling in () if told.decisions else ("strong", "weak") if told.device == "cpu" else ("strong",):
        for count in counts[scaling == "weak" :]:  # one process is the same in both
            batch = told.batch if scaling == "strong" else told.batch * count
            found = group(count, batch, told.steps, told.rounds, told.device)
            rows += timed(scaling, count, batch, found["taken"])
            if scaling == "strong":
                rows += [{"reads": name, "processes": count, "a_second": fast} for name, fast in found["reads"].items()]
    write(rows, told.out, threads=1, device=told.device)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--process"]:
        rank, count, folder, batch, steps, rounds, device = sys.argv[2:]
        one_process(int(rank), int(count), Path(folder), int(batch), int(steps), int(rounds), device)
    else:
        main()
