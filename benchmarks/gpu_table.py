"""The rows of the speed page that need a GPU, each printed and written as soon as it is had.

    python benchmarks/engine_gpu.py results/engine-gpu-table.jsonl --table

Runs are told to last 200 epochs, so that `compiled=None` decides as it would in one, and are stopped after a few.
Those that are asked first are the ones whose ratios need most of the others; what would begin too late is left out.
"""

import json
import statistics
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from engine_gpu import by_hand, clean_for, images, make, sgd

from thresher import Examples, Recipe, fit
from thresher.bench.run.provenance import provenance
from thresher.methods import method
from thresher.methods.crust import WARM_EPOCHS
from thresher.slots import strong, weak

IMAGES, LONG, SECONDS = 50_000, 200, 170  # no row begins after so many seconds
Row = dict[str, Any]


def recipe_of(name: str, views: tuple[Any, ...]) -> Recipe:
    """The method as of a short run, so that its warm-up is over after the first epoch."""
    return replace(method(name).recipe(noise_rate=0.4, classes=10, epochs=4), views=views)


def fitted(name: str, model: str, batch: int, train: Examples, *, views: tuple[Any, ...] = (), **how: Any) -> Row:
    """The median epoch of a method after its warm-up, what it took until the first one ended, and memory."""
    recipe, first = recipe_of(name, views), 1 + (WARM_EPOCHS if name.startswith("crust") else 1)
    last, started, notes = first + 3, time.perf_counter(), []
    torch.cuda.reset_peak_memory_stats()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run = fit(
            recipe, make(model), train, epochs=LONG, batch=batch, optimizer=sgd, clean=clean_for(recipe), seed=0,
            until=lambda record: record["epoch"] >= last,
            watch=lambda moment: notes.append(moment.note) if moment.note else None, **how,
        )  # fmt: skip
    seconds = [record["seconds"] for record in run.history]
    told = [*notes, *(str(warning.message) for warning in caught)]
    wall = time.perf_counter() - started
    return {"who": name, "epoch": statistics.median(seconds[first:]), "wall": wall, "epochs": seconds, "told": told}


def hand(model: str, batch: int, train: Examples, compiled: bool) -> Row:
    started = time.perf_counter()
    seconds = by_hand(make(model)(), train, batch, 4, augment=False, compiled=compiled)
    who = "by hand, compiled and captured" if compiled else "by hand, captured"
    wall = time.perf_counter() - started
    return {"who": who, "epoch": statistics.median(seconds[1:]), "wall": wall, "epochs": seconds, "told": []}


def cells(train: Examples) -> Iterator[tuple[str, str, int, Any]]:
    """What to measure: the part of the table, the network, the batch, and a function that gives a row."""

    def method_row(name: str, **how: Any) -> Any:
        return lambda model, batch: fitted(name, model, batch, train, **how)

    yield "prl-g", "resnet32-gn", 512, method_row("standard", compiled=False)
    yield "prl-g", "resnet32-gn", 512, method_row("prl-g")
    yield "crust", "resnet32", 512, method_row("standard", compiled=False)
    yield "crust", "resnet32", 512, method_row("crust", compiled=False)
    yield "l2rw", "resnet18", 512, method_row("standard", compiled=False)
    yield "l2rw", "resnet18", 512, method_row("l2rw")
    yield "standard", "resnet18", 512, lambda model, batch: hand(model, batch, train, True)
    yield "standard", "resnet18", 512, method_row("standard")
    yield "reclaim", "resnet18", 256, method_row("reclaim", views=(weak(), strong()))
    yield "prl-g", "resnet32-gn", 128, method_row("standard", compiled=False)
    yield "prl-g", "resnet32-gn", 128, method_row("prl-g")


def measure_table(path: Path) -> None:
    """Write every row to the file when it is had; the first row of a part, network and batch is its base."""
    train, facts, started = images(IMAGES), provenance("cuda"), time.perf_counter()
    base: dict[tuple[str, str, int], float] = {}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("")
    for part, model, batch, measure in cells(train):
        if time.perf_counter() - started > SECONDS:
            print(f"{part} {model} {batch}: left out, {SECONDS} s are over", flush=True)
            continue
        torch.cuda.empty_cache()
        row = {"part": part, "model": model, "batch": batch, **measure(model, batch)}
        row["memory_mib"] = round(torch.cuda.max_memory_allocated() / 2**20)
        row["against_base"] = row["epoch"] / base.setdefault((part, model, batch), row["epoch"])
        with path.open("a") as file:
            file.write(json.dumps({**row, **facts}) + "\n")
        print(
            f"{part:9}{model:12} {batch:4} {row['who']:31}{row['epoch']:7.3f} s an epoch {row['against_base']:5.2f}x "
            f"{row['memory_mib']:6} MiB, {row['wall']:.1f} s in all; {'; '.join(row['told'])}",
            flush=True,
        )
