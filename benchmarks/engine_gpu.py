"""The engine on CUDA, in one run: epochs of `fit` beside a hand-captured loop, and captured beside eager.

    python benchmarks/engine_gpu.py results/engine-gpu.jsonl [--only resnet32 512]
    python benchmarks/engine_gpu.py results/engine-gpu-table.jsonl --table     (the rows of docs/speed.md, in 175 s)

Data are 50,000 random images of 32×32×3, resident on the GPU; figures are seconds an epoch, medians after the first.
"""

import argparse
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from timing import write
from torch import Tensor, nn
from torch.nn import functional

from thresher import Examples, Moment, Recipe, fit
from thresher.core.rule import needs_of
from thresher.methods import method
from thresher.methods.crust import WARM_EPOCHS
from thresher.models import build
from thresher.slots.views import weak

IMAGES, SHAPE = 50_000, (3, 32, 32)


def sgd(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.01, momentum=0.9, weight_decay=5e-4)


def images(count: int) -> Examples:
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randint(0, 256, (count, *SHAPE), dtype=torch.uint8, generator=generator)
    return Examples(inputs, torch.randint(0, 10, (count,), generator=generator), classes=10)


def crop_and_flip(inputs: Tensor) -> Tensor:
    """The plain way to write pad-4 crop and flip for a loop of one's own: two index grids and one gather."""
    n, _, height, width = inputs.shape
    padded = functional.pad(inputs, (4, 4, 4, 4))
    down = torch.randint(0, 9, (n, 1), device=inputs.device) + torch.arange(height, device=inputs.device)
    right = torch.randint(0, 9, (n, 1), device=inputs.device) + torch.arange(width, device=inputs.device)
    right = torch.where(torch.rand(n, 1, device=inputs.device) < 0.5, right, right.flip(1))
    rows = torch.arange(n, device=inputs.device)[:, None, None]
    return padded[rows, :, down[:, :, None], right[:, None, :]].permute(0, 3, 1, 2)


def by_hand(
    model: nn.Module, examples: Examples, batch: int, epochs: int, augment: bool, compiled: bool = False
) -> list[float]:
    """Seconds of each epoch of a loop whose step somebody captured by hand: bf16, channels last, data on the GPU."""
    model = model.cuda().to(memory_format=torch.channels_last)
    forward = torch.compile(model, dynamic=False) if compiled else model
    inputs, targets = examples.inputs.cuda(), examples.targets.cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4, fused=True)
    index = torch.zeros(batch, dtype=torch.long, device="cuda")

    def step() -> None:
        seen = inputs[index].float() / 255
        if augment:
            seen = crop_and_flip(seen)
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16, cache_enabled=False):
            outputs = forward(seen.contiguous(memory_format=torch.channels_last))
        functional.cross_entropy(outputs.float(), targets[index]).backward()
        optimizer.step()

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        step()
    seconds = []
    for _ in range(epochs):
        torch.cuda.synchronize()
        started = time.perf_counter()
        order = torch.randperm(len(targets)).cuda()
        for place in range(len(targets) // batch):
            index.copy_(order[place * batch : (place + 1) * batch])
            graph.replay()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - started)
    return seconds


def by_fit(name: str, model: str, examples: Examples, batch: int, epochs: int, augment: bool) -> dict[str, Any]:
    """Seconds of each epoch of `fit`, ledger included, and the time to the first captured step."""
    started, first = time.perf_counter(), []

    def watch(moment: Moment) -> None:
        if moment.step == 4 and not first:
            torch.cuda.synchronize()
            first.append(time.perf_counter() - started)

    recipe = method(name).recipe(noise_rate=0.4, classes=10, epochs=epochs)
    if augment:
        recipe = Recipe(**{**vars(recipe), "views": (weak(),)})
    torch.cuda.reset_peak_memory_stats()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        how: dict[str, Any] = {"optimizer": sgd, "clean": clean_for(recipe), "watch": watch}
        run = fit(recipe, make(model), examples, epochs=epochs, batch=batch, **how)
    for warning in caught:
        print(f"{model} {name}: {warning.message}", flush=True)
    return {
        "seconds": [record["seconds"] for record in run.history],
        "first_captured": first[0],
        "memory_mib": round(torch.cuda.max_memory_allocated() / 2**20),
    }


def clean_for(recipe: Recipe) -> Examples | None:
    return images(1_000) if "clean" in needs_of(recipe) else None


def make(model: str) -> Callable[[], nn.Module]:
    return lambda: build(model, input_shape=SHAPE, outputs=10)


def speed(model: str, batch: int, names: tuple[str, ...], epochs: int, augment: bool) -> list[dict[str, Any]]:
    examples = images(IMAGES)
    torch.cuda.reset_peak_memory_stats()
    hand = by_hand(make(model)(), examples, batch, epochs, augment)
    memory = round(torch.cuda.max_memory_allocated() / 2**20)
    rows = [{"who": "by hand", "epoch": statistics.median(hand[1:]), "memory_mib": memory}]
    for name in names:
        torch.cuda.empty_cache()
        first = 1 + WARM_EPOCHS if name.startswith("crust") else 1  # before that CRUST selects nothing
        found = by_fit(name, model, examples, batch, epochs - 1 + first, augment)
        row = {"who": name, "epoch": statistics.median(found["seconds"][first:])}
        rows.append(row | {key: found[key] for key in ("first_captured", "memory_mib")})
    for row in rows:
        row |= {"kind": "speed", "model": model, "batch": batch, "augment": augment}
        row["against_hand"] = row["epoch"] / rows[0]["epoch"]
        row["against_standard"] = row["epoch"] / rows[1]["epoch"]
        how = f"{model} batch {batch} {'augmented' if augment else 'plain'}"
        ratios = f"{row['against_hand']:.2f}x by hand, {row['against_standard']:.2f}x standard"
        wait = f", first captured step after {row['first_captured']:.1f} s" if "first_captured" in row else ""
        print(
            f"{how:30} {row['who']:12} {row['epoch']:.3f} s an epoch, {ratios}, {row['memory_mib']} MiB{wait}",
            flush=True,
        )
    return rows


def agreement(name: str) -> dict[str, Any]:
    """Whether captured and eager parameters are the same bits after 50 steps in float32."""
    examples, found = images(2_000), {}
    model = "cnn9-gn" if name == "prl-g" else "resnet20"
    for captured in (False, True):
        how: dict[str, Any] = {
            "captured": captured,
            "deterministic": True,
            "precision": torch.float32,
            "channels_last": False,
        }
        recipe = method(name).recipe(noise_rate=0.4, classes=10, epochs=5)
        recipe = Recipe(**{**vars(recipe), "views": (weak(),)})
        how |= {"precision": torch.float32, "clean": clean_for(recipe)}
        run = fit(recipe, make(model), examples, steps=50, batch=64, optimizer=sgd, **how)
        found[captured] = torch.cat([p.detach().flatten() for network in run.models for p in network.parameters()])
    same = bool(torch.equal(found[True], found[False]))
    print(f"captured == eager after 50 steps in float32, bit for bit: {name:12} {same}", flush=True)
    return {"kind": "agreement", "who": name, "model": model, "same_bits": same}


def whole_runs() -> dict[str, Any]:
    """Scores of whole bf16 runs on digits, captured and eager, over three seeds: they differ by seed noise only."""
    from thresher.corruption import corrupt
    from thresher.data import load

    digits, scores = load("digits"), {}
    for captured in (False, True):
        scores[captured] = []
        for seed in range(3):
            train = corrupt(digits.train, "symmetric:0.4", seed=seed)
            recipe = method("prl-l").recipe(noise_rate=0.4, classes=10, epochs=30)
            factory = lambda: build("lenet", input_shape=(1, 8, 8), outputs=10)  # noqa: E731
            run = fit(recipe, factory, train, test=digits.test, epochs=30, batch=64, seed=seed, captured=captured)
            scores[captured].append(run.last())
    print(f"whole bf16 runs, last ten epochs: eager {scores[False]}, captured {scores[True]}", flush=True)
    return {"kind": "whole runs", "eager": scores[False], "captured": scores[True]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--table", action="store_true", help="the rows of the speed page, each written when it is had")
    parser.add_argument("--only", nargs=2, metavar=("MODEL", "BATCH"), help="the speed of one model at one batch size")
    parser.add_argument("--seconds", type=float, default=175, help="when the table ends, whatever is missing")
    parser.add_argument("--images", type=int, default=IMAGES, help="of an epoch of the table")
    parser.add_argument("--commit", help="what to store where there is no repository to ask")
    settings = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = True
    if settings.table:
        from gpu_table import measure_table

        measure_table(settings.out, settings.seconds, settings.images, settings.commit)
        return
    rows: list[dict[str, Any]] = []
    if settings.only:
        cells = [(settings.only[0], int(settings.only[1]))]
    else:
        cells = [(model, batch) for model in ("resnet32", "resnet18") for batch in (128, 512)]
        rows = [agreement(name) for name in ("standard", "prl-l", "prl-g", "co-teaching", "l2rw")]
        rows.append(whole_runs())
    for model, batch in cells:
        epochs, augment = 3 if batch == 128 else 5, model == "resnet32"  # short epochs are noisier
        more = ("l2rw", "crust-central") if model == "resnet32" else ()  # the network of their papers
        rows += speed(model, batch, ("standard", "prl-l", "co-teaching", *more), epochs, augment)
        if model == "resnet32":
            rows += speed(f"{model}-gn", batch, ("standard", "prl-g"), epochs, augment)
    gpu = torch.cuda.get_device_name()
    write([row | {"gpu": gpu} for row in rows], settings.out, torch.get_num_threads(), "cuda")


if __name__ == "__main__":
    main()
