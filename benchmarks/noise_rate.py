"""How often the interval of an estimated noise rate covers the true one, how wide it is, and how often there is none.

Results are added to the file; what it holds is not measured again, unless `--again` is given: then the newest row of a
cell counts. The page of the docs is made from it. The sets are written by benchmarks/noise_rate_sets.py.

    python benchmarks/noise_rate.py --sets DEST --part report --jobs 8
    python benchmarks/noise_rate.py --show
"""

import argparse
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from noise_rate_evidence import Cell, evidence

from thresher.bench.run.provenance import provenance
from thresher.bench.run.results import append, read_lines
from thresher.noise import audit_rate, residual_rate
from thresher.noise.audit_rate import contradictions
from thresher.noise.noise_rate import from_epochs

SMALL = ("linear", "trees", "mlp:256")
REAL_SETS = ("friedman", "houses", "diabetes", "friedman2", "friedman3")
JUDGES_OF_PEOPLE = {  # of sets whose labels people or rules gave
    **dict.fromkeys(("noisyag_news", "mr_raters"), SMALL),
    **{f"embeddings-{labels}": SMALL for labels in ("aggre", "random1", "worse")},
    **{f"cifar10n-{judge}": ("stored",) for judge in ("aggre_resnet18", "aggre_swin", "worst_resnet18", "worst_swin")},
}
PEOPLE = {
    "development-2": JUDGES_OF_PEOPLE,
    "report": {  # other examples, and two sets more
        **{f"{name}-2": models for name, models in JUDGES_OF_PEOPLE.items()},
        **dict.fromkeys(("youtube_spam_weak", "chemprot_weak"), SMALL),
    },
}
# The estimators were written and their constants chosen while looking at the development cells alone.
SETS = {
    "development": {
        "digits": ("linear", "mlp:256"), "satimage": SMALL, "magic": SMALL, "mnist": ("linear", "mlp:256", "lenet"),
        "cifar10": ("linear", "trees", "lenet"), "sst2": SMALL, "friedman": SMALL,
    },
    "development-2": {
        "adult": SMALL, "embeddings": ("linear", "loose-linear", "mlp:256"), "fashion": ("linear", "trees", "lenet"),
        "letter": SMALL, "shuttle": SMALL, "spambase": SMALL, "snips7": ("linear", "mlp:256"),
        "clinc150": ("linear", "mlp:256"), "houses": SMALL, "diabetes": ("linear", "trees"),
    },
    "report": {
        "digits": ("linear", "trees", "mlp:256"), "satimage": SMALL, "magic": SMALL, "mnist": ("linear", "trees"),
        "cifar10": ("trees",), "sst2": ("linear", "mlp:256"), "adult": SMALL, "embeddings": ("linear", "loose-linear"),
        "fashion": ("linear", "trees"), "letter": SMALL, "shuttle": SMALL, "spambase": SMALL,
        "snips7": ("linear", "mlp:256"), "banking77": ("linear", "mlp:256"), "houses": SMALL,
        "friedman2": SMALL, "friedman3": SMALL,
    },
    "networks": {"cifar10": ("lenet", "resnet20"), "fashion": ("lenet", "resnet20"), "mnist": ("lenet",),
                 "embeddings": ("mlp:256",), "clinc150": ("mlp:256",)},
}  # fmt: skip
CLASSES = {
    "development": (None, "symmetric:0.1", "symmetric:0.2", "symmetric:0.4", "pairflip:0.2", "pairflip:0.3"),
    "report": (None, "symmetric:0.15", "symmetric:0.3", "symmetric:0.5", "pairflip:0.15", "pairflip:0.25"),
}
REAL = {
    "development": (None, "uninoise:0.1", "uninoise:0.3", "onesided:0.2", "onesided:0.4", "signflip:0.2", "linadv:0.2"),
    "report": (None, "uninoise:0.2", "onesided:0.15", "onesided:0.35", "signflip:0.15", "linadv:0.3"),
}
ESTIMATE = 2  # raised when `audit_rate` changes: the page shows no older rows of classes
FIRST_SEED = {"development": 0, "development-2": 1, "report": 2, "networks": 2}


def cells(part: str, seeds: int = 1) -> Iterator[Cell]:
    """The cells of a part; people's labels, which no corruption made, need no rate and have one seed."""
    noise = "development" if part.startswith("development") else "report"
    for name, models in SETS[part].items():
        for model in models:
            for corruption in (REAL if name in REAL_SETS else CLASSES)[noise]:
                for seed in range(FIRST_SEED[part], FIRST_SEED[part] + seeds):
                    yield Cell(name, model, corruption, seed)
    for name, models in PEOPLE.get(part, {}).items():
        yield from (Cell(name, model, "given", 0) for model in models)


def measured(cell: Cell, sets: Path, kept: Path | None) -> dict[str, Any]:
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")  # of sets whose classes have fewer examples than there are folds
    started = time.perf_counter()
    found = evidence(cell, sets, kept)
    if "residuals" in found:
        true = float((np.abs(found["given"] - found["true"]).max(1) > 1e-6).mean())
        audit = residual_rate(found["residuals"])
    else:
        given = found["given"].astype(np.int64)
        true = float((given != found["true"]).mean())
        audit = audit_rate(found["probabilities"], given, found.get("votes"))
    run = None
    if "run_prediction" in found:
        columns = zip(found["run_prediction"][:, :, 0], found["run_confidence"], strict=True)
        epochs = [contradictions(each != given, sure) for each, sure in columns]
        estimate = from_epochs(epochs, float(np.bincount(given).max()) / len(given))
        run = {"rate": estimate.rate, "low": estimate.low, "high": estimate.high}
    elif "auto" in found:
        rate, low, high = (float(each) for each in found["auto"])
        run = {"rate": None if np.isnan(rate) else rate, "low": low, "high": high}
    seconds = time.perf_counter() - started
    return {**asdict(cell), "estimate": ESTIMATE, "true": true, "audit": asdict(audit), "run": run, "seconds": seconds}


def summary(results: list[dict[str, Any]], way: str) -> list[str]:
    """How many cells, in how many the rate is told, and of those: the share covered, the mean width, the mean error."""
    asked = [r for r in results if r[way]]
    told = [r for r in asked if r[way]["rate"] is not None]
    if not told:
        return [str(len(asked)), "0%" if asked else "", "", "", ""]
    covered = fmean(r[way]["low"] <= r["true"] <= r[way]["high"] for r in told)
    width = fmean(r[way]["high"] - r[way]["low"] for r in told)
    error = fmean(abs(r[way]["rate"] - r["true"]) for r in told)
    return [str(len(asked)), f"{len(told) / len(asked):.0%}", f"{covered:.0%}", f"{width:.2f}", f"{error:.2f}"]


def table(results: list[dict[str, Any]], title: str, key: Callable[[dict[str, Any]], str]) -> str:
    head = "| cells | told | covered | mean width | mean error "
    lines = [f"| {title} {head}{head}|", "|---" * 11 + "|"]
    for name in dict.fromkeys(map(key, results)):
        rows = [r for r in results if key(r) == name]
        lines.append(f"| {' | '.join([name, *summary(rows, 'audit'), *summary(rows, 'run')])} |")
    return "\n".join(lines)


def cell_of(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[key] for key in ("set", "model", "corruption", "seed"))


def noise(result: dict[str, Any]) -> str:
    names = {None: "none", "given": "people's labels"}
    return str(names.get(result["corruption"], str(result["corruption"]).partition(":")[0]))


PAGE = """# How far can an estimated noise rate be trusted?

<!-- Made from results/noise-rate.jsonl by `python benchmarks/noise_rate.py --show`: run that again, do not edit. -->

A cell is a set of 400 to 3,000 examples (of CIFAR-10N 20,000 or 30,000), a model that judges it, a way in which labels
are wrong, its rate, and a seed. The first five columns are `audit_rate` and `residual_rate`, from predictions of five
folds and, for classes, the votes of ten neighbours; the last five are what `prl-l` finds in its own warm-up, where
the model is a network. *Told*: in how many cells there is a rate at all, and not "cannot tell"; *covered*: in how
many of those the interval, meant for 90%, holds the true rate. The constants were chosen while looking at the
development cells; the report cells have other seeds and other rates, of the sets that the tables below name.
Only estimates are shown that were made as they are now; the part *networks* has convolutional ones. People's labels of
the report part are of other examples than those of the development part, and of two sets more.

{parts}

## The report cells by noise

{noise}

## The report cells by set

{sets}

## The report cells by model

{models}

Where people give wrong labels to hard examples, or a model learns a systematic error (noisyag_news), few judges
contradict them where they are sure: such a rate lies near the high end, far above the estimate. What a run finds in its
own warm-up is then far too low: for people's labels, take `--noise-rate folds` or an audit.
"""


def as_now(row: dict[str, Any]) -> dict[str, Any]:
    """A row without the estimate of an older `audit_rate`; that of a run is the same since the first rows."""
    return row if row["set"] in REAL_SETS or row.get("estimate") == ESTIMATE else {**row, "audit": None}


def show(results: list[dict[str, Any]], docs: Path) -> None:
    newest = {cell_of(row): row for row in results}.values()
    results = [as_now(row) for row in newest]
    results = [row for row in results if row["audit"] or row["run"]]
    report = [r for r in results if not r["part"].startswith("development")]
    parts = table(results, "part", lambda r: r["part"])
    made = {"noise": noise, "sets": lambda r: r["set"], "models": lambda r: r["model"]}
    tables = {name: table(report, name.rstrip("s"), key) for name, key in made.items()}
    docs.write_text(PAGE.format(parts=parts, **tables), encoding="utf-8")
    print(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=Path, help="The folder that benchmarks/noise_rate_sets.py wrote.")
    parser.add_argument("--part", default="report", choices=sorted(SETS))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--evidence", type=Path, default=None, help="Where to keep what models say, to judge it again.")
    parser.add_argument("--results", type=Path, default=Path("results/noise-rate.jsonl"))
    parser.add_argument("--docs", type=Path, default=Path("docs/results/noise-rate.md"))
    parser.add_argument("--again", action="store_true", help="Measure what the file holds again, and keep both.")
    parser.add_argument("--show", action="store_true", help="Show what is stored and measure nothing.")
    given = parser.parse_args()
    known = {
        cell_of(row) for row in read_lines(given.results)[0] if row.get("estimate") == ESTIMATE and not given.again
    }
    asked: Iterable[Cell] = () if given.show else cells(given.part, given.seeds)
    with ProcessPoolExecutor(given.jobs) as pool:
        todo = [
            pool.submit(measured, cell, given.sets, given.evidence)
            for cell in asked
            if tuple(asdict(cell).values()) not in known and (given.sets / f"{cell.set}.npz").exists()
        ]
        for each in as_completed(todo):
            append(given.results, {"status": "done", "part": given.part, **each.result(), **provenance("cpu")})
    show(read_lines(given.results)[0], given.docs)


if __name__ == "__main__":
    main()
