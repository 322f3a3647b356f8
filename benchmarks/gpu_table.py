"""The rows of the speed page that need a GPU, each printed and written as soon as it is had.

    python benchmarks/engine_gpu.py results/engine-gpu-table.jsonl --table

Runs are told to last 200 epochs, so that `compiled=None` decides as it would in one, and are stopped after a few.
The most important rows come first; one that fails is said and left out, and all ends after `--seconds`. A command
that crashed goes on behind the row that crashed when it is given again. Rows are added to those that the file holds.
"""

import json
import signal
import statistics
import time
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from engine_gpu import by_hand, clean_for, images, make, sgd
from gpu_parts import EpochParts, Kernels, parts_of_step
from gpu_side_by_side import side_by_side

from thresher import Examples, Moment, Recipe, fit
from thresher.bench.run.provenance import provenance
from thresher.methods import method
from thresher.methods.crust import WARM_EPOCHS
from thresher.slots import strong, weak

LONG, MEASURED = 200, 2  # epochs that a run is told to last, and those whose median counts
Row = dict[str, Any]


def recipe_of(name: str, views: tuple[Any, ...]) -> Recipe:
    """The method as of a short run, so that its warm-up is over after the first epoch."""
    return replace(method(name).recipe(noise_rate=0.4, classes=10, epochs=4), views=views)


def warm_epochs(name: str) -> int:
    """Epochs that do not count: the first, and those before the method does what it is measured for, and one more."""
    return 1 + (WARM_EPOCHS if name.startswith("crust") else int(name == "reclaim"))


def fitted(
    name: str,
    model: str,
    batch: int,
    train: Examples,
    *,
    views: tuple[Any, ...] = (),
    parts: EpochParts | None = None,
    kernels: Kernels | None = None,
    **how: Any,
) -> Row:
    """The median epoch of a method after its warm-up; then of more epochs the parts, and of one more the kernels."""
    recipe, first = recipe_of(name, views), warm_epochs(name)
    last = first + MEASURED
    in_parts = last + (0 if parts is None else MEASURED)
    started, notes = time.perf_counter(), []

    def watch(moment: Moment) -> None:
        if moment.note:
            notes.append(moment.note)
        if parts is not None and moment.record is not None:
            parts.on = last <= moment.record["epoch"] < in_parts
        if kernels is not None and moment.record is None and moment.note is None and moment.epoch == in_parts:
            kernels.look(moment)

    with parts or nullcontext(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run = fit(
            recipe, make(model), train, epochs=LONG, batch=batch, optimizer=sgd, clean=clean_for(recipe), seed=0,
            until=lambda record: record["epoch"] >= in_parts + (kernels is not None), watch=watch, **how,
        )  # fmt: skip
    seconds = [record["seconds"] for record in run.history]
    row = {"who": name, "epoch": statistics.median(seconds[first:last]), "epochs": seconds}
    row["told"] = list(dict.fromkeys([*notes, *(str(warning.message) for warning in caught)]))
    row["wall"] = time.perf_counter() - started
    row["parts"] = ({} if parts is None else parts.medians()) | ({} if kernels is None else kernels.found())
    return row


def hand(model: str, batch: int, train: Examples) -> Row:
    started = time.perf_counter()
    seconds = by_hand(make(model)(), train, batch, 1 + 2 * MEASURED, augment=False, compiled=True)
    wall, who = time.perf_counter() - started, "by hand, compiled and captured"
    return {"who": who, "epoch": statistics.median(seconds[1:]), "wall": wall, "epochs": seconds, "told": []}


def step_in_parts(model: str, batch: int, train: Examples) -> Row:
    """Where the device time of a step of reclaim goes, not captured, so that kernels are known by what started them."""
    started = time.perf_counter()
    few = train.subset(torch.arange(min(20 * batch, len(train))))
    parts = parts_of_step(recipe_of("reclaim", (weak(), strong())), make(model), few, batch, sgd)
    wall = time.perf_counter() - started
    return {"who": "reclaim, a step in parts", "epoch": 0.0, "wall": wall, "told": [], "parts": parts}


def cells(train: Examples) -> Iterator[tuple[str, str, int, Any]]:
    """What to measure: the part of the table, the network, the batch, and a function that gives a row."""

    def method_row(name: str, **how: Any) -> Any:
        return lambda model, batch: fitted(name, model, batch, train, **how)

    def of_train(measure: Any) -> Any:
        return lambda model, batch: measure(model, batch, train)

    def kernels_of(name: str, **how: Any) -> Any:
        return method_row(name, kernels=Kernels(), **how)

    two = (weak(), strong())
    yield "prl-g", "resnet32-gn", 512, method_row("standard", compiled=False)
    yield "prl-g", "resnet32-gn", 512, method_row("prl-g")
    yield "l2rw", "resnet18", 512, method_row("standard", compiled=False)
    yield "l2rw", "resnet18", 512, method_row("l2rw")
    yield "l2rw", "resnet18", 512, told("compiled", method_row("l2rw", compiled=True))
    yield "crust", "resnet32", 512, method_row("standard", compiled=False)
    yield "crust", "resnet32", 512, method_row("crust-central", parts=EpochParts(), compiled=False)
    yield "standard", "resnet18", 512, method_row("standard")
    yield "reclaim", "resnet18", 256, method_row("reclaim", views=two, parts=EpochParts())
    yield "standard", "resnet18", 512, of_train(hand)
    yield "standard", "resnet18", 512, tried(of_train(hand))
    yield "reclaim", "resnet18", 256, tried(method_row("reclaim", views=two))
    yield "prl-g", "resnet32-gn", 128, method_row("standard", compiled=False)
    yield "prl-g", "resnet32-gn", 128, method_row("prl-g")
    # Profiles come after what they might slow down; runs side by side are processes of their own.
    yield "kernels", "resnet32-gn", 512, kernels_of("prl-g")
    yield "kernels", "resnet18", 512, kernels_of("l2rw")
    yield "kernels", "resnet18", 512, told("compiled", kernels_of("l2rw", compiled=True))
    yield "kernels", "resnet18", 256, kernels_of("reclaim", views=two)
    yield "crust", "resnet32", 512, method_row("crust", parts=EpochParts(), compiled=False)
    yield "reclaim", "resnet18", 256, of_train(step_in_parts)
    yield "side by side", "resnet32", 128, lambda model, batch: side_by_side(model, batch, 1, len(train))
    yield "side by side", "resnet32", 128, lambda model, batch: side_by_side(model, batch, 6, len(train))


def told(what: str, measure: Any) -> Any:
    """The same, with what makes the row another behind its name."""

    def measured(model: str, batch: int) -> Row:
        row: Row = measure(model, batch)
        return {**row, "who": f"{row['who']}, {what}"}

    return measured


def tried(measure: Any) -> Any:
    """The same where cuDNN tries its algorithms for each convolution first, instead of choosing by rules."""

    def measured(model: str, batch: int) -> Row:
        torch.backends.cudnn.benchmark = True
        try:
            row: Row = told("algorithms tried", measure)(model, batch)
        finally:
            torch.backends.cudnn.benchmark = False
        return row

    return measured


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """What is inside is ended by an exception after so many seconds."""

    def end(*_: object) -> None:
        raise TimeoutError(f"ended after {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.01))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def measure_table(path: Path, seconds: float, count: int, commit: str | None, parts: list[str]) -> None:
    """Add every row to the file when it is had, with its ratio to the first of its part, network and batch.

    Called again after a crash, it goes on behind the row that crashed: a file beside the rows counts those begun.
    """
    train, facts = images(count), provenance("cuda" if torch.cuda.is_available() else "cpu")
    facts = {**facts, "commit": facts["commit"] or commit, "images": count}
    path.parent.mkdir(parents=True, exist_ok=True)
    begun = path.with_suffix(".begun")
    started, done, base = json.loads(begun.read_text()) if begun.exists() else (time.time(), 0, {})
    for place, (part, model, batch, measure) in enumerate(cells(train)):
        left = seconds - (time.time() - started)
        if place < done or (parts and part not in parts):
            continue
        if left < 1:
            print(f"{part} {model} {batch}: left out, {seconds:.0f} s are over", flush=True)
            continue
        begun.write_text(json.dumps([started, place + 1, base]))
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        try:
            with at_most(left):
                row = {"part": part, "model": model, "batch": batch, **measure(model, batch)}
        except Exception as error:  # the other rows are still wanted
            print(f"{part} {model} {batch}: {type(error).__name__}: {error}", flush=True)
            traceback.print_exc()
            if torch.cuda.is_available():
                torch.cuda.synchronize()  # after an error of the device nothing can go on in this process
            continue
        if torch.cuda.is_available():
            row.setdefault("memory_mib", round(torch.cuda.max_memory_allocated() / 2**20))
        row["against_base"] = row["epoch"] / (base.setdefault(f"{part} {model} {batch}", row["epoch"]) or 1.0)
        with path.open("a") as file:
            file.write(json.dumps({**row, **facts}) + "\n")
        print(
            f"{part:13}{model:12} {batch:4} {row['who']:31}{row['epoch']:7.3f} s an epoch {row['against_base']:5.2f}x "
            f"{row.get('memory_mib')} MiB, {row['wall']:.1f} s in all; {'; '.join(row['told'])}",
            *(f"    {name:34}{value:10.4f}" for name, value in row.get("parts", {}).items()),
            sep="\n",
            flush=True,
        )
    begun.unlink(missing_ok=True)
