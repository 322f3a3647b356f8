"""One of several processes is killed at a random moment: how soon the others end, and whether the run goes on.

    python benchmarks/several_killed.py [--tries 12] [--seed 0] [--out results/several-killed.jsonl]

A group of 2 or 4 processes (gloo) trains PRL(L) in a folder and saves every epoch. A process drawn at random is killed
(SIGKILL) at a moment drawn from the whole length of such a run, any time after the group has formed. Then a group of
another size goes on from the folder to the end, and its ledger and parameters are compared with those of a run in one
process that nothing disturbed. Networks compute in double precision.
"""

import argparse
import json
import multiprocessing
import os
import random
import tempfile
import time
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch
from several_decided import alike, columns, small, small_network
from timing import write
from torch import distributed

from thresher import fit, open_run

EPOCHS, LIMIT = 20, 120.0  # seconds after which processes count as hanging
FORKED = multiprocessing.get_context("fork")  # which has imported everything


def train(rank: int, count: int, folder: Path, store: Path) -> None:
    """One process of a group; what it says is of no interest."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    torch.set_num_threads(1)
    if count > 1:
        distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=count)
        distributed.barrier()
    store.with_suffix(f".{rank}").touch()
    data = small()
    settings: dict[str, Any] = {"epochs": EPOCHS, "batch": 50, "commit_every": 0.0, "device": "cpu"}
    fit("prl-l", lambda: small_network(data), data, noise_rate=0.4, out=folder, **settings)
    os._exit(0)


def group(count: int, folder: Path) -> list[BaseProcess]:
    """So many processes, once all of them have met."""
    with tempfile.TemporaryDirectory() as meeting:
        store = Path(meeting) / "store"
        started: list[BaseProcess] = [
            FORKED.Process(target=train, args=(rank, count, folder, store)) for rank in range(count)
        ]
        for process in started:
            process.start()
        while len(list(Path(meeting).glob("store.*"))) < count:
            time.sleep(0.01)
        return started


def ended(processes: list[BaseProcess]) -> float:
    """Seconds until all of them have ended; those that do not are killed."""
    begun = time.monotonic()
    for process in processes:
        process.join(max(0.0, begun + LIMIT - time.monotonic()))
    taken = time.monotonic() - begun
    for process in processes:
        process.kill()
    return taken


def is_same(folder: Path, other: Path) -> bool:
    """The same ledger to the last bit, and parameters up to rounding in double precision."""
    mine, theirs = (open_run(each, model=lambda: small_network(small())) for each in (folder, other))
    its = columns(theirs)
    equal = all(bool(alike(own, its[name]).all()) for name, own in columns(mine).items())
    pairs = zip(mine.model.state_dict().values(), theirs.model.state_dict().values(), strict=True)
    return equal and all(torch.allclose(one, two, rtol=0, atol=1e-12) for one, two in pairs)


def one_try(draws: random.Random, folder: Path, whole: Path, length: dict[int, float]) -> dict[str, Any]:
    """One group, of which one process is killed, and another group that goes on."""
    count = draws.choice((2, 4))
    victim, moment = draws.randrange(count), draws.uniform(0, length[count])
    processes = group(count, folder)
    time.sleep(moment)
    killed = processes[victim]
    in_time = killed.is_alive()
    killed.kill()
    seconds = ended(processes)
    history = folder / "history.jsonl"
    saved = len(history.read_text().splitlines()) if history.is_file() else 0
    then = draws.choice([each for each in (1, 2, 4) if each != count])
    ended(group(then, folder))
    row = {"killed": victim, "of": count, "in_time": in_time, "after": moment, "saved": saved, "others_end": seconds}
    return row | {"then": then, "same": is_same(folder, whole)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tries", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    told = parser.parse_args()
    draws, rows, length = random.Random(told.seed), list[dict[str, Any]](), dict[int, float]()
    with tempfile.TemporaryDirectory() as folder:
        places = {count: Path(folder) / f"whole-{count}" for count in (1, 2, 4)}
        for count, place in places.items():
            length[count] = ended(group(count, place))
            assert is_same(place, places[1])
        while len(rows) < told.tries:
            row = one_try(draws, Path(folder) / f"try-{len(list(Path(folder).iterdir()))}", places[1], length)
            print(json.dumps(row), flush=True)
            if row.pop("in_time"):  # else the group had ended before
                rows.append(row)
                write(rows, told.out, threads=1)


if __name__ == "__main__":
    main()
