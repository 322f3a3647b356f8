"""Fine-tuning a small language model on questions and answers of which a third is junk, with a few trusted ones.

    python benchmarks/finetune.py results/finetune.jsonl --data-dir DATA [--epochs 3] [--seeds 3] [--device cpu]
    python benchmarks/finetune.py base.pt --pretrain 800 --data-dir DATA --device cuda       # a larger model, and then
    python benchmarks/finetune.py results/finetune.jsonl --larger base.pt --device cuda [--part 0 --of 6] ...
    python benchmarks/finetune.py results/finetune.jsonl --show > docs/results/finetune.md

A ninth of the answers are those of other questions, a ninth are in another language (for which exchanged letters
stand in), and a ninth are one of five pieces of junk. Each method trains the same pretrained model. Measured are the
perplexity of clean answers it has not seen, how many of their words it predicts, and how well what the ledger kept
finds the junk (AUROC): by the agreement with the trusted texts for l2rw, by the signal that it ranks by for prl-l and
prl-g, and by the loss for the others. `selected` is reclaim's selection without its labels, of which there are none
for texts: each epoch, the texts on which the averaged model has the smallest output gradients. The oracle is standard
without the junk, for as many steps. Rows are appended as they are made; what is there is not measured again.
"""

import argparse
import json
import sys
import time
import traceback
from functools import partial
from pathlib import Path
from typing import Any

sys.path.append(sys.path.pop(0))  # this folder last, or the script transformers.py would be imported as the package

import numpy as np
import torch
from finetune_models import pretrain, pretrained
from finetune_page import page
from finetune_texts import KINDS, Sets, sets
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from thresher import Recipe, Run, fit
from thresher.bench.run.provenance import provenance
from thresher.bench.run.results import append
from thresher.core.examples import Examples
from thresher.rules import KeepSmallest, from_average, warmup
from thresher.slots import over

NOISE_RATE = 1 / 3
SMALL = KeepSmallest(by="output_gradient_norm", fraction=1 - NOISE_RATE)
METHODS: dict[str, Any] = {
    "standard": "standard",
    "prl-l": "prl-l",
    "prl-g": "prl-g",
    "l2rw": "l2rw",
    "selected": Recipe(each_epoch=warmup(1, from_average(SMALL)), average=over(1)),
    "oracle": "standard",
}


@torch.no_grad()
def measured(model: torch.nn.Module, examples: Examples, batch: int = 50) -> dict[str, float]:
    """exp of the mean loss over all words of the answers, and the share of these words that are predicted."""
    device = next(model.parameters()).device
    total, right, count = 0.0, 0, 0
    model.eval()
    for rows in torch.arange(len(examples)).split(batch):
        inputs = {name: value[rows].to(device) for name, value in examples.inputs.items()}
        targets = examples.targets[rows].to(device)
        logits = model(**inputs).logits.float()
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum")
        total, count = total + float(loss), count + int((targets >= 0).sum())
        right += int((logits.argmax(2) == targets).sum())
    return {"perplexity": float(np.exp(total / count)), "accuracy": right / count}


def suspicion(name: str, run: Run, count: int) -> NDArray[np.float64]:
    """How far each example looks like junk [n]: the mean over epochs of what the ledger kept."""
    table = run.ledger.table().to_pydict()
    column = "signal" if name in ("prl-l", "prl-g", "l2rw") else "loss"
    found, seen = np.zeros(count), np.zeros(count)
    for place, value in zip(table["id"], table[column], strict=True):
        if value is not None and np.isfinite(value):
            found[place] += value
            seen[place] += 1
    mean = found / np.maximum(seen, 1)
    return -mean if name == "l2rw" else mean


def areas(scores: NDArray[np.float64], kinds: NDArray[np.int64]) -> dict[str, float]:
    """The area under the curve of junk found among all, and of each kind among the clean."""
    found = {"junk": float(roc_auc_score(kinds > 0, scores))}
    for kind, name in enumerate(KINDS[1:], 1):
        part = (kinds == 0) | (kinds == kind)
        found[name] = float(roc_auc_score(kinds[part] > 0, scores[part]))
    return found


def row_of(name: str, given: Sets, seed: int, settings: argparse.Namespace) -> dict[str, Any]:
    """One training, measured before and after."""
    folder, what, kinds = settings.data_dir / "lm", METHODS[name], given.train.columns["kind"].numpy()
    steps = settings.epochs * len(given.train) // settings.batch
    model = pretrained(folder, settings.larger).to(settings.device)
    before, started = measured(model, given.test), time.perf_counter()
    train = given.train.subset(torch.from_numpy(kinds == 0)) if name == "oracle" else given.train
    more: dict[str, Any] = {"clean": given.clean, "clean_batch": settings.batch} if name == "l2rw" else {}
    more |= {"noise_rate": NOISE_RATE} if isinstance(what, str) else {}
    run = fit(
        what, model, train, steps=steps, batch=settings.batch, seed=seed, device=settings.device, compiled=False,
        optimizer=partial(torch.optim.AdamW, lr=settings.rate, weight_decay=0.01), **more,
    )  # fmt: skip
    row: dict[str, Any] = {"who": name, "seed": seed, "steps": steps, "batch": settings.batch, "rate": settings.rate}
    row |= {
        "parameters": sum(each.numel() for each in model.parameters()),
        "clean": len(given.clean),
        "test": len(given.test),
    }
    row |= {"examples": len(train), "length": settings.length, "seconds": time.perf_counter() - started}
    row |= {"before": before, "after": measured(run.model, given.test)}
    if name != "oracle":
        row["found"] = areas(suspicion(name, run, len(train)), kinds)
    found = {kind: f"{area:.3f}" for kind, area in row.get("found", {}).items()}
    print(f"seed {seed} {name:9} perplexity {row['after']['perplexity']:.2f}  {found}", flush=True)
    return row


def measure(settings: argparse.Namespace) -> None:
    """The rows that are not there yet, of those that this process has; what fails is printed and left out."""
    began, failed = time.monotonic(), 0
    jobs = [(seed, name) for seed in range(settings.seeds) for name in METHODS]
    given: dict[int, Sets] = {}
    for seed, name in jobs[settings.part :: settings.of]:
        if time.monotonic() - began > settings.seconds or (seed, name) in known(settings):
            continue
        if seed not in given:
            folder = settings.data_dir / "lm"
            given[seed] = sets(folder, settings.count, settings.clean, settings.test, seed, settings.length)
        try:
            row = row_of(name, given[seed], seed, settings)
        except Exception:
            traceback.print_exc()
            print(f"seed {seed} {name} failed", flush=True)
            failed += 1
        else:
            append(settings.out, {**row, "threads": torch.get_num_threads(), **provenance(settings.device)})
    if failed:
        raise SystemExit(1)


def known(settings: argparse.Namespace) -> set[tuple[int, str]]:
    """What the file has already of this model."""
    lines = settings.out.read_text().splitlines() if settings.out.exists() else []
    found = [row for row in map(json.loads, lines) if (row["parameters"] > 1e6) == (settings.larger is not None)]
    return {(row["seed"], row["who"]) for row in found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--data-dir", type=Path, default=Path("data"))
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--count", type=int, default=450, help="texts to train on")
    parser.add_argument("--clean", type=int, default=64, help="texts that are trusted")
    parser.add_argument("--test", type=int, default=100)
    parser.add_argument("--length", type=int, default=200)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--larger", type=Path, help="weights of the larger model, which is then trained")
    parser.add_argument("--pretrain", type=int, default=0, metavar="STEPS", help="make these weights")
    parser.add_argument("--part", type=int, default=0)
    parser.add_argument("--of", type=int, default=1, help="how many processes share the rows")
    parser.add_argument("--seconds", type=float, default=1e9, help="no training begins after so many seconds")
    parser.add_argument("--show", action="store_true", help="print the page of a results file")
    settings = parser.parse_args()
    if settings.show:
        print(page([json.loads(line) for line in settings.out.read_text().splitlines()], list(METHODS)))
    elif settings.pretrain:
        pretrain(settings.data_dir / "lm", settings.out, settings.device, settings.pretrain)
    else:
        measure(settings)


if __name__ == "__main__":
    main()
