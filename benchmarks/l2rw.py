"""What a step of L2RW costs on the CPU against a plain step and against backward on backward, in one run.

    python benchmarks/l2rw.py [--rounds 9] [--out results/l2rw-cpu.jsonl]
    python benchmarks/l2rw.py --show results/l2rw-cpu.jsonl > docs/results/l2rw-cpu.md

Contestants take steps in turn, and the figures are medians: of the wall time, and of the CPU time, which other work on
the machine disturbs less. Standard and L2RW are the engine's own steps, ledger included; backward on backward is
Algorithm 1 as the paper prints it. Each ratio is of two steps of the same round.
"""

import argparse
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from timing import medians, take_turns, write
from torch import Tensor
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from thresher import Examples, Recipe
from thresher.engine.loop.training import Training
from thresher.engine.plan import make_plan
from thresher.engine.settings import TrainSettings
from thresher.models import build
from thresher.rules import MetaGradient

STEPS, BATCH = 1000, 100
MODELS, CLEAN_BATCHES = ("resnet32", "resnet32-gn"), (100, 20)
Turn = Callable[[], object]


def pictures(count: int, seed: int) -> Examples:
    draws = torch.Generator().manual_seed(seed)
    inputs = torch.rand(count, 3, 32, 32, generator=draws)
    return Examples(inputs, torch.randint(0, 10, (count,), generator=draws), classes=10)


def optimizer(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.01, momentum=0.9, fused=True)


def engine_steps(name: str, recipe: Recipe, clean_batch: int) -> Iterator[object]:
    """Steps of the engine, without end."""
    sets = {"train": pictures(400, 0), "clean": pictures(100, 1)}
    told = TrainSettings(epochs=STEPS, batch=BATCH, optimizer=optimizer, clean_batch=clean_batch, device="cpu")
    plan = make_plan(told, sets["train"], sets["clean"])
    torch.manual_seed(0)
    training = Training(recipe, [build(name, input_shape=(3, 32, 32), outputs=10)], sets, plan)
    while True:
        yield from training.run_epoch()


def backward_on_backward(name: str, clean_batch: int) -> Iterator[None]:
    """Algorithm 1 line by line."""
    torch.manual_seed(0)
    model = build(name, input_shape=(3, 32, 32), outputs=10)
    train, clean, moves = pictures(BATCH, 0), pictures(clean_batch, 1), optimizer(model.parameters())
    values = dict(model.named_parameters())

    def losses(outputs: Tensor, examples: Examples) -> Tensor:
        return cross_entropy(outputs, examples.targets, reduction="none")

    while True:
        found = losses(model(train.inputs), train)
        epsilon = torch.zeros(BATCH, requires_grad=True)
        gradients = torch.autograd.grad(epsilon.dot(found), list(values.values()), create_graph=True)
        ahead = {key: value - gradient for (key, value), gradient in zip(values.items(), gradients, strict=True)}
        buffers = {key: value.clone() for key, value in model.named_buffers()}
        clean_loss = losses(functional_call(model, {**ahead, **buffers}, (clean.inputs,)), clean).mean()
        weights = (-torch.autograd.grad(clean_loss, epsilon, retain_graph=True)[0]).clamp_min(0)
        moves.zero_grad()
        (weights / weights.sum().clamp_min(1e-12)).dot(found).backward()
        moves.step()
        yield


def contestants(name: str, clean_batch: int) -> dict[str, Turn]:
    runs = {
        "standard": engine_steps(name, Recipe(), clean_batch),
        "l2rw": engine_steps(name, Recipe(each_batch=MetaGradient()), clean_batch),
        "backward on backward": backward_on_backward(name, clean_batch),
    }
    return {who: partial(next, run) for who, run in runs.items()}


def show(rows: list[dict[str, Any]]) -> str:
    """The stored figures as a page."""
    first = rows[0]
    lines = [
        "# What a step of L2RW costs",
        "",
        f"Times the plain step of the same round, which both of the others need as well: medians of {first['rounds']} "
        f"rounds in which each takes one step, on {first['threads']} thread of a CPU, batches of {first['batch']} "
        "pictures of 32 × 32. Backward on backward is Algorithm 1 as the paper prints it, with the same weights. "
        f"torch {first['versions']['torch']}.",
        "",
        "| model | clean batch | plain step, CPU seconds | l2rw, CPU time | l2rw, wall time | "
        "backward on backward, CPU time | wall time |",
        "|---|---|---|---|---|---|---|",
    ]
    for at in range(0, len(rows), 3):
        plain, ours, twice = rows[at : at + 3]
        ratios = [f"{row[key]:.2f}×" for row in (ours, twice) for key in ("cpu_against_standard", "against_standard")]
        cells = [plain["model"], str(plain["clean_batch"]), f"{plain['cpu_seconds']:.2f}", *ratios]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", "Made by `python benchmarks/l2rw.py --show results/l2rw-cpu.jsonl`."])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--models", nargs="*", default=MODELS)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--show", type=Path, help="print the page of these stored rows")
    settings = parser.parse_args()
    if settings.show:
        print(show([json.loads(line) for line in settings.show.read_text().splitlines()]))
        return
    torch.set_num_threads(settings.threads)
    rows = []
    for name in settings.models:
        for clean_batch in CLEAN_BATCHES:
            print(f"{name}, batch {BATCH}, clean {clean_batch}: {settings.rounds} rounds, {settings.threads} threads")
            times = take_turns(contestants(name, clean_batch), settings.rounds, warm=2)
            setting = {"model": name, "batch": BATCH, "clean_batch": clean_batch, "rounds": settings.rounds}
            rows += [setting | row for row in medians(times)]
    write(rows, settings.out, settings.threads)


if __name__ == "__main__":
    main()
