"""What the engine costs on the CPU, in one run: `fit` beside hand-written loops, and PRL(G) beside its peers.

    python benchmarks/engine.py [--rounds 3] [--out results/engine-cpu.jsonl]

Contestants take many short turns. A figure is the CPU time of the shortest epoch of all, on one thread, which other
work on the machine disturbs least; beside it is the epoch that a tenth of all are shorter than. With `fit` an epoch
includes the ledger; its first, with what is done once, does not count. Peak memory is that of a process of its own.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path

import torch
from gradient_norm import by_vmap, network, opacus
from timing import peak_memory, write
from torch import nn
from torch.nn.functional import cross_entropy

from thresher import Examples, Moment, fit
from thresher.data import load, take_clean
from thresher.methods import method
from thresher.models import build

Contestant = Callable[[], list[float]]  # runs some epochs and gives the CPU seconds of each
METHODS = ("standard", "prl-l", "prl-g", "co-teaching", "l2rw")


def digits() -> Examples:
    return load("digits").train


def pictures() -> Examples:
    generator = torch.Generator().manual_seed(0)
    inputs = torch.rand(256, 3, 32, 32, generator=generator)
    return Examples(inputs, torch.randint(0, 10, (256,), generator=generator), classes=10)


def table() -> Examples:
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(20_000, 50, generator=generator)
    return Examples(inputs, torch.randint(0, 10, (20_000,), generator=generator), classes=10)


def small_network() -> nn.Module:
    return build("mlp", input_shape=(1, 8, 8), outputs=10)


def table_network() -> nn.Module:
    return build("mlp", input_shape=(50,), outputs=10)


def by_hand(make: Callable[[], nn.Module], examples: Examples, batch: int, epochs: int) -> list[float]:
    """The loop everybody writes, with the same fused optimizer that `fit` uses."""
    model = make()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    inputs, targets = examples.inputs, examples.targets
    seconds = []
    for _ in range(epochs):
        started = time.process_time()
        order = torch.randperm(len(targets))
        for place in range(len(targets) // batch):
            index = order[place * batch : (place + 1) * batch]
            optimizer.zero_grad()
            cross_entropy(model(inputs[index]), targets[index]).backward()
            optimizer.step()
        seconds.append(time.process_time() - started)
    return seconds


def by_peer(peer: Callable[..., Callable[..., None]], examples: Examples, batch: int, epochs: int) -> list[float]:
    """PRL(G) with another way to take gradient norms of single examples."""
    model = network()
    step = peer(model, torch.optim.Adam(model.parameters(), lr=1e-3, fused=True))
    seconds = []
    for _ in range(epochs):
        started = time.process_time()
        for index in torch.randperm(len(examples)).view(-1, batch):
            step(examples.inputs[index], examples.targets[index])
        seconds.append(time.process_time() - started)
    return seconds


def by_fit(name: str, make: Callable[[], nn.Module], examples: Examples, batch: int, epochs: int) -> list[float]:
    recipe, known, ends = method(name).recipe(noise_rate=0.4, classes=10, epochs=epochs), None, []
    if name == "l2rw":
        known = take_clean(examples.with_columns(true_target=examples.targets), batch, 0)[1]

    def watch(moment: Moment) -> None:
        if moment.record is not None:
            ends.append(time.process_time())

    fit(recipe, make, examples, epochs=epochs + 1, batch=batch, clean=known, device="cpu", watch=watch)
    return [end - start for start, end in pairwise(ends)]


def contests() -> dict[str, dict[str, Contestant]]:
    small, rows, large = digits(), table(), pictures()
    return {
        "digits MLP, batch 64": {
            "by hand": partial(by_hand, small_network, small, 64, 12),
            **{name: partial(by_fit, name, small_network, small, 64, 12) for name in METHODS},
        },
        "table of 20,000 rows, MLP, batch 64": {
            "by hand": partial(by_hand, table_network, rows, 64, 2),
            **{name: partial(by_fit, name, table_network, rows, 64, 2) for name in METHODS},
        },
        "GroupNorm cnn9, 32x32, batch 128": {
            "by hand": partial(by_hand, network, large, 128, 1),
            **{name: partial(by_fit, name, network, large, 128, 1) for name in ("standard", "prl-l", "prl-g")},
            "prl-g by opacus": partial(by_peer, opacus, large, 128, 1),
            "prl-g by vmap": partial(by_peer, by_vmap, large, 128, 1),
        },
    }


def at(share: float, values: list[float]) -> float:
    """The value that this share of all are smaller than."""
    return sorted(values)[int(share * len(values))]


def peak_of(contest: str, name: str) -> int:
    """MiB of resident memory at the peak of one turn in a fresh process."""
    command = [sys.executable, __file__, "--only", contest, name]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--contest", help="only the contests whose name contains this")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", nargs=2, help="one turn of one contestant; prints its peak memory")
    settings = parser.parse_args()
    if settings.only:
        contests()[settings.only[0]][settings.only[1]]()
        print(round(peak_memory()))
        return
    rows = []
    torch.set_num_threads(settings.threads)
    for contest, contestants in contests().items():
        if settings.contest is not None and settings.contest not in contest:
            continue
        times: dict[str, list[float]] = {name: [] for name in contestants}
        for turn in range(settings.rounds + 1):
            for name, run in contestants.items():
                seconds = run()
                if turn > 0:  # the first round warms up
                    times[name] += seconds
        least, tenth = ({name: at(place, own) for name, own in times.items()} for place in (0.0, 0.1))
        print(f"{contest}: CPU time of epochs, {settings.rounds} rounds, {torch.get_num_threads()} threads")
        for name, seconds in least.items():
            row = {"contest": contest, "who": name, "epoch_seconds": seconds, "peak_mib": peak_of(contest, name)}
            row |= {"against_hand": seconds / least["by hand"], "against_standard": seconds / least["standard"]}
            row |= {"tenth_against_hand": tenth[name] / tenth["by hand"], "rounds": settings.rounds}
            ratios = f"{row['against_hand']:5.2f}x by hand ({row['tenth_against_hand']:.2f}x at a tenth)"
            print(f"  {name:16}{seconds:9.4f} s an epoch {ratios} {row['peak_mib']:6} MiB", flush=True)
            rows.append(row)
    others = []  # stored rows of contests that were not asked for
    if settings.out is not None and settings.out.exists():
        measured = {row["contest"] for row in rows}
        others = [line for line in settings.out.read_text().splitlines() if json.loads(line)["contest"] not in measured]
    write(rows, settings.out, torch.get_num_threads())
    if others:
        settings.out.write_text(settings.out.read_text() + "".join(f"{line}\n" for line in others))


if __name__ == "__main__":
    main()
