"""How far the noise rate that a run finds lies from the true one.

Results are added to the file; what it holds is not measured again. The page of the docs is made from it.

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
from thresher.bench.run.provenance import provenance
from thresher.bench.run.results import append, read
from thresher.corruption import corrupt
from thresher.data import digits, load, regression
from thresher.methods import METHODS
from thresher.models import build
from thresher.noise.folds import noise_rate_by_folds
from thresher.noise.noise_rate import estimated

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


def table(results: list[dict[str, Any]]) -> str:
    """A line a set and corruption, as Markdown: the true rate, what was found, and the error."""
    lines = ["| set | corruption | true | auto | error | inside | folds | error | seeds |", "|---" * 9 + "|"]
    for name, corruption in dict.fromkeys((r["set"], r["corruption"]) for r in results):
        rows = [r for r in results if (r["set"], r["corruption"]) == (name, corruption)]
        true, inside = rows[0]["true"], fmean(r["auto"]["low"] <= r["true"] <= r["auto"]["high"] for r in rows)
        auto, folds = (mean_and_error([r[way] for r in rows if r[way]], true) for way in ("auto", "folds"))
        found = [corruption or "none", f"{true:.0%}", *auto, f"{inside:.0%}", *folds, str(len(rows))]
        lines.append(f"| {' | '.join([name, *found])} |")
    return "\n".join(lines)


def mean_and_error(found: list[dict[str, Any]], true: float) -> tuple[str, str]:
    if not found:
        return "", ""
    rate = fmean(each["rate"] for each in found)
    return f"{rate:.1%}", f"{rate - true:+.1%}"


PAGE = """# How far off is the noise rate that a run finds?

<!-- Made from results/noise-rate.jsonl by `python benchmarks/noise_rate.py --show`: run that again, do not edit. -->

`auto` is what `prl-l` finds in its own warm-up, `folds` what networks find that have not seen the examples; means over
the seeds, 0 where the set passes for clean, and then nothing is dropped. `inside` is how often the true rate lay in
auto's interval. Its cut-offs were chosen while looking at digits, mnist, the generated sets, small tables and face
key-points; CIFAR-10 (cnn9) was measured afterwards. generated has ten real targets, one has one. Where many targets are
mirrored (signflip), both parts fit about as well and auto sees no second group: give the rate, or ask for folds.

{table}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=["digits", "generated", "one"], choices=sorted(sets(None)))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--data-dir", default=None)
    parser.add_argument("--results", type=Path, default=Path("results/noise-rate.jsonl"))
    parser.add_argument("--docs", type=Path, default=Path("docs/results/noise-rate.md"))
    parser.add_argument("--no-folds", action="store_true", help="Leave out the folds, which train four times more.")
    parser.add_argument("--show", action="store_true", help="Show what is stored and measure nothing.")
    given = parser.parse_args()
    known = {(r["set"], r["corruption"], r["seed"]) for r in read(given.results)[0]}
    names = [] if given.show else given.sets
    for name, corruption, seed, measure in missing(names, given.seeds, given.data_dir, known):
        started = time.perf_counter()
        found = measure(given.device, not given.no_folds)
        result = {"status": "done", "set": name, "corruption": corruption, "seed": seed, **found}
        append(given.results, {**result, "seconds": time.perf_counter() - started, **provenance(given.device)})
        print(json.dumps({key: result[key] for key in ("set", "corruption", "seed", "auto")}), flush=True)
    found = table(read(given.results)[0])
    print(found)
    given.docs.write_text(PAGE.format(table=found))


if __name__ == "__main__":
    main()
