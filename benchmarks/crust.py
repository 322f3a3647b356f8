"""What an epoch of CRUST costs on the CPU against one of Standard, selection included, in one run.

    python benchmarks/crust.py --out results/crust-cpu.jsonl
    python benchmarks/crust.py --show > docs/results/crust-cost.md     (with what benchmarks/engine_gpu.py measured)

Contestants take epochs in turn, past the warm-up, and the figures are medians of the wall time and of the CPU time,
which other work on the machine disturbs less. An epoch of CRUST looks at all examples once, selects half of each
predicted class, and trains on that half. Each ratio is of two epochs of the same round.
"""

import argparse
import json
import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from timing import medians, take_turns, write

from thresher import Examples, Recipe
from thresher.core.rule import in_epoch
from thresher.engine.loop.training import Training
from thresher.engine.plan import make_plan
from thresher.engine.settings import TrainSettings
from thresher.methods import method
from thresher.models import build
from thresher.rules import warmup

MODELS, BATCH = {"resnet32": 1.0, "cnn9": 0.2}, 25  # how many of the examples each has: cnn9 is the slower
CONTESTANTS = ("standard", "crust-central", "crust")
Result = dict[str, Any]


def pictures(count: int) -> Examples:
    """Images of ten classes that can be learnt, four in ten with a wrong label."""
    draws = torch.Generator().manual_seed(0)
    true = torch.arange(count) % 10
    inputs = torch.randn(count, 3, 32, 32, generator=draws) + torch.randn(10, 3, 1, 1, generator=draws)[true]
    other = torch.randint(0, 10, (count,), generator=draws)
    return Examples(inputs, torch.where(torch.rand(count, generator=draws) < 0.4, other, true), classes=10)


def optimizer(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.01, momentum=0.9, fused=True)


def at_once(recipe: Recipe) -> Recipe:
    """The recipe without its warm-up, which is plain training."""
    if not isinstance(recipe.each_epoch, warmup):
        return recipe
    return replace(recipe, each_epoch=recipe.each_epoch.then, mix=in_epoch(math.inf, recipe.mix))


def epochs(model: str, name: str, train: Examples) -> Iterator[None]:
    """Epochs of the engine, without end."""
    recipe = at_once(method(name).recipe(classes=10))
    plan = make_plan(TrainSettings(epochs=1000, batch=BATCH, optimizer=optimizer, device="cpu"), train, None)
    torch.manual_seed(0)
    network = build(model, input_shape=(3, 32, 32), outputs=10)
    training = Training(recipe, [network], {"train": train}, plan)
    while True:
        for _ in training.run_epoch():
            pass
        yield


ABOUT = """\
# What an epoch of CRUST costs

<!-- Made from results/crust-cpu.jsonl and results/engine-gpu.jsonl by `python benchmarks/crust.py --show`. -->

An epoch of CRUST looks at all examples once, selects half of each predicted class, and trains on that half. So it saves
half of the training and pays for one forward pass over the set, for the selection, and for partners to mix with. Epochs
are past the warm-up, and everything is in them, the ledger too. Ratios are those of the times printed.
"""


def page(cpu: list[Result], gpu: list[Result]) -> str:
    """The page of the documentation."""
    facts = cpu[0]
    threads = "one thread" if facts["threads"] == 1 else f"{facts['threads']} threads"
    here = f"CPU time on {facts['machine']['cpu']}, {threads}, medians of {facts['rounds']} epochs:"
    there = f"Wall time on {gpu[0]['gpu']}, 50,000 images of 32×32, mixed precision, the step captured as a CUDA graph:"
    heads = "| method | seconds an epoch | against Standard |\n|---|---|---|---|---|"
    lines = [ABOUT, here, "", f"| network | examples {heads}"]
    plain = {row["model"]: row["cpu_seconds"] for row in cpu if row["who"] == "standard"}
    for row in cpu:
        seconds, ratio = f"{row['cpu_seconds']:.2f}", f"{row['cpu_seconds'] / plain[row['model']]:.2f}×"
        cells = (row["model"], row["examples"], row["who"], seconds, ratio)
        lines.append(f"| {' | '.join(map(str, cells))} |")
    lines += ["", there, "", f"| network | batch {heads}"]
    plain = {(row["model"], row["batch"]): row["epoch"] for row in gpu if row["who"] == "standard"}
    for row in gpu:
        ratio = f"{row['epoch'] / plain[row['model'], row['batch']]:.2f}×"
        cells = (row["model"], row["batch"], row["who"], f"{row['epoch']:.2f}", ratio)
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def read(path: str) -> list[Result]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def show() -> None:
    gpu = [row for row in read("results/engine-gpu.jsonl") if row.get("who") in CONTESTANTS and "epoch" in row]
    both = {(row["model"], row["batch"]) for row in gpu if row["who"] == "crust-central"}
    print(page(read("results/crust-cpu.jsonl"), [row for row in gpu if (row["model"], row["batch"]) in both]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--examples", type=int, default=500)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--out", type=Path)
    parser.add_argument("--show", action="store_true", help="measure nothing, print the page")
    settings = parser.parse_args()
    if settings.show:
        show()
        return
    torch.set_num_threads(settings.threads)
    rows = []
    for model, share in MODELS.items():
        count = round(share * settings.examples)
        contestants = {name: partial(next, epochs(model, name, pictures(count))) for name in CONTESTANTS}
        print(f"{model}, {count} examples, batch {BATCH}: {settings.rounds} rounds, {settings.threads} threads")
        facts = {"model": model, "examples": count, "rounds": settings.rounds}
        rows += [{**facts, **row} for row in medians(take_turns(contestants, settings.rounds))]
    write(rows, settings.out, settings.threads)


if __name__ == "__main__":
    main()
