"""How far the noise rate that a run finds lies from the true one.

Every row is a set made wrong at a known rate; `auto` is what `prl-l` finds in its own warm-up, `folds` what networks
find that have not seen the examples. Each shows the mean over seeds (0 where the set passes for clean) and, of auto,
how often the true rate lay inside its interval. Results are added to the file; what it holds is not measured again.

    python benchmarks/noise_rate.py --sets digits generated one --seeds 3
    python benchmarks/noise_rate.py --show
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from thresher import Examples, fit
from thresher.bench.provenance import provenance
from thresher.bench.results import append, read
from thresher.corruption import corrupt
from thresher.data import load
from thresher.data.builtin import digits, regression
from thresher.folds import noise_rate_by_folds
from thresher.models import build
from thresher.noise_rate import estimated
from thresher.recipes import METHODS

RATES = (0.1, 0.2, 0.4)
CLASSES = [None, *(f"symmetric:{rate:g}" for rate in (*RATES, 0.6)), *(f"pairflip:{rate:g}" for rate in RATES)]
REAL = [None, *(f"{name}:{rate}" for name in ("uninoise", "signflip", "linadv") for rate in (0.1, 0.2, 0.3, 0.4))]


def some_of(name: str, count: int, data_dir: str | None) -> Examples:
    """The first training examples of a set that lies in a folder."""
    train = load(name, data_dir=data_dir).train
    return train.subset(torch.arange(min(count, len(train))))


def sets(data_dir: str | None) -> dict[str, tuple[Callable[[], Examples], str, int]]:
    """Name -> what makes the clean set, the model, and the batch."""
    return {
        "digits": (lambda: digits().train, "mlp:256x256", 64),
        "generated": (lambda: regression(2000).train, "mlp-leaky:256x256", 128),
        "one": (lambda: regression(2000, targets=1).train, "mlp-leaky:256x256", 128),
        "mnist": (partial(some_of, "mnist", 6000, data_dir), "mlp:256x256", 128),
        "cifar10": (partial(some_of, "cifar10", 50_000, data_dir), "cnn9", 128),
    }


def measured(
    clean: Examples, model: str, batch: int, corruption: str | None, seed: int, device: str, folds: bool
) -> dict[str, Any]:
    train = clean if corruption is None else corrupt(clean, corruption, seed=seed)
    make = partial(build, model, input_shape=train.input_shape, outputs=train.outputs)
    settings: dict[str, Any] = {"batch": batch, "seed": seed, "device": device}
    epochs = estimated().after + 1
    recipe = METHODS["prl-l"].recipe(noise_rate="auto", classes=train.classes, epochs=epochs)
    auto = fit(recipe, make, train, epochs=epochs, **settings).history[-1]["noise_rate"]
    by_folds = asdict(noise_rate_by_folds(train, make, epochs=10, **settings)) if folds else None
    true = 0.0 if corruption is None else float(train.columns["is_corrupt"].float().mean())
    return {"true": true, "auto": auto, "folds": by_folds}


def missing(names: list[str], seeds: int, data_dir: str | None, known: set[Any]) -> Iterator[tuple[str, Any, int, Any]]:
    for name in names:
        make, model, batch = sets(data_dir)[name]
        clean = make()
        for corruption in REAL if clean.is_regression else CLASSES:
            for seed in range(seeds):
                if (name, corruption, seed) not in known:
                    yield name, corruption, seed, partial(measured, clean, model, batch, corruption, seed)


def show(results: list[dict[str, Any]]) -> None:
    print(f"{'set':10} {'corruption':15} {'true':>5}  {'auto':>6}  error inside  {'folds':>6}  error")
    for name, corruption in dict.fromkeys((r["set"], r["corruption"]) for r in results):
        rows = [r for r in results if (r["set"], r["corruption"]) == (name, corruption)]
        true, inside = rows[0]["true"], fmean(r["auto"]["low"] <= r["true"] <= r["auto"]["high"] for r in rows)
        auto, folds = (mean_and_error([r[way] for r in rows if r[way]], true) for way in ("auto", "folds"))
        print(f"{name:10} {corruption or 'none':15} {true:5.0%}  {auto} {inside:6.0%}  {folds}")


def mean_and_error(found: list[dict[str, Any]], true: float) -> str:
    if not found:
        return f"{'-':>6} {'-':>6}"
    rate = fmean(each["rate"] for each in found)
    return f"{rate:6.1%} {rate - true:+6.1%}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=["digits", "generated", "one"], choices=sorted(sets(None)))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--data-dir", default=None)
    parser.add_argument("--results", type=Path, default=Path("results/noise-rate.jsonl"))
    parser.add_argument("--no-folds", action="store_true", help="Leave out the folds, which train four times more.")
    parser.add_argument("--show", action="store_true", help="Print what is stored and measure nothing.")
    given = parser.parse_args()
    known = {(r["set"], r["corruption"], r["seed"]) for r in read(given.results)[0]}
    names = [] if given.show else given.sets
    for name, corruption, seed, measure in missing(names, given.seeds, given.data_dir, known):
        started = time.perf_counter()
        found = measure(given.device, not given.no_folds)
        result = {"status": "done", "set": name, "corruption": corruption, "seed": seed, **found}
        append(given.results, {**result, "seconds": time.perf_counter() - started, **provenance(given.device)})
        print(json.dumps({key: result[key] for key in ("set", "corruption", "seed", "auto")}), flush=True)
    show(read(given.results)[0])


if __name__ == "__main__":
    main()
