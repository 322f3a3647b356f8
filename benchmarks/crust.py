"""What an epoch of CRUST costs on the CPU against one of Standard, selection included, in one run.

    python benchmarks/crust.py [--rounds 4] [--examples 500] [--out results/crust-cpu.jsonl]

Contestants take epochs in turn, past the warm-up, and the figures are medians of the wall time and of the CPU time,
which other work on the machine disturbs less. An epoch of CRUST looks at everybody once, selects half of each predicted
class, and trains on that half. Each ratio is of two epochs of the same round.
"""

import argparse
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from timing import medians, take_turns, write

from thresher import Examples, Recipe
from thresher.engine.training import Plan, Training
from thresher.models import build
from thresher.recipes import method
from thresher.rules import warmup

MODELS, BATCH = {"resnet32": 1.0, "cnn9": 0.2}, 25  # how many of the examples each has: cnn9 is the slower
CONTESTANTS = ("standard", "crust", "crust-facility")


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
    mix = replace(recipe.mix, after=0) if "after" in vars(recipe.mix) else recipe.mix  # type: ignore[type-var]
    return replace(recipe, each_epoch=recipe.each_epoch.rule, mix=mix)


def epochs(model: str, name: str, train: Examples) -> Iterator[None]:
    """Epochs of the engine, without end."""
    recipe = at_once(method(name).recipe(classes=10))
    plan = Plan(
        epochs=1000, steps=None, batch=BATCH, seed=0, precision=None, workers=0, schedule=None, make_optimizer=optimizer
    )
    torch.manual_seed(0)
    network = build(model, input_shape=(3, 32, 32), outputs=10)
    training = Training(recipe, [network], {"train": train}, plan)
    while True:
        for _ in training.run_epoch():
            pass
        yield


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--examples", type=int, default=500)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--out", type=Path)
    settings = parser.parse_args()
    torch.set_num_threads(settings.threads)
    rows = []
    for model, share in MODELS.items():
        count = round(share * settings.examples)
        contestants = {name: partial(next, epochs(model, name, pictures(count))) for name in CONTESTANTS}
        print(f"{model}, {count} examples, batch {BATCH}: {settings.rounds} rounds, {settings.threads} threads")
        rows += [
            {"model": model, "examples": count, **row} for row in medians(take_turns(contestants, settings.rounds))
        ]
    write(rows, settings.out, settings.threads)


if __name__ == "__main__":
    main()
