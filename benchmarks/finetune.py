"""Fine-tuning a small language model on questions and answers of which a third is junk, with a few trusted ones.

    python benchmarks/finetune.py results/finetune.jsonl --data-dir DATA [--epochs 8] [--seeds 3] [--device cpu]

A ninth of the answers are those of other questions, a ninth are in another language (for which exchanged letters
stand in), and a ninth are one of five pieces of junk. Each method trains the same pretrained model; measured are the
perplexity of clean answers it has not seen, and how well what the ledger kept finds the junk (AUROC): by the agreement
with the trusted texts for l2rw, by the signal that it ranks by for prl-l and prl-g, and by the loss for standard.
The oracle is standard without the junk, for as many steps.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.append(sys.path.pop(0))  # this folder last, or the script transformers.py would be imported as the package

import numpy as np
import torch
from finetune_texts import KINDS, Sets, llama, sets
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score
from timing import write

from thresher import Run, fit
from thresher.core.examples import Examples

METHODS = ("standard", "prl-l", "prl-g", "l2rw", "oracle")
COUNT, CLEAN, TEST, BATCH = 1_350, 64, 300, 32
NOISE_RATE = 1 / 3


def adamw(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=1e-3, weight_decay=0.01)


def perplexity(model: torch.nn.Module, examples: Examples, batch: int = 50) -> float:
    """exp of the mean loss over all words of the answers."""
    device = next(model.parameters()).device
    total, count = 0.0, 0
    model.eval()
    with torch.no_grad():
        for rows in torch.arange(len(examples)).split(batch):
            inputs = {name: value[rows].to(device) for name, value in examples.inputs.items()}
            targets = examples.targets[rows].to(device)
            logits = model(**inputs).logits.float()
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum")
            total, count = total + float(loss), count + int((targets >= 0).sum())
    return float(np.exp(total / count))


def suspicion(name: str, run: Run, count: int) -> NDArray[np.float64]:
    """How far each example looks like junk [n]: the mean over epochs of what the ledger kept."""
    table = run.ledger.table().to_pydict()
    column = "loss" if name == "standard" else "signal"
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


def rows(given: Sets, folder: Path, seed: int, settings: argparse.Namespace) -> Iterator[dict[str, Any]]:
    steps = settings.epochs * len(given.train) // BATCH
    kinds = given.train.columns["kind"].numpy()
    before = perplexity(llama(folder / "stories260K.bin"), given.test)
    for name in METHODS:
        model, started = llama(folder / "stories260K.bin"), time.perf_counter()
        train = given.train.subset(torch.from_numpy(kinds == 0)) if name == "oracle" else given.train
        more = {"clean": given.clean, "clean_batch": 16} if name == "l2rw" else {}
        run = fit(
            "standard" if name == "oracle" else name, model, train, steps=steps, batch=BATCH, seed=seed,
            optimizer=adamw, noise_rate=NOISE_RATE, device=settings.device, **more,
        )  # fmt: skip
        row: dict[str, Any] = {"who": name, "seed": seed, "steps": steps, "examples": len(train)}
        row |= {"seconds": time.perf_counter() - started, "perplexity_before": before}
        row["perplexity"] = perplexity(run.model, given.test)
        if name != "oracle":
            row["found"] = areas(suspicion(name, run, len(train)), kinds)
        found = {kind: f"{area:.3f}" for kind, area in row.get("found", {}).items()}
        print(f"seed {seed} {name:9} perplexity {before:.1f} -> {row['perplexity']:.2f}  {found}", flush=True)
        yield row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("--data-dir", type=Path, default=Path("data"))
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--device")
    settings = parser.parse_args()
    folder, kept = settings.data_dir / "lm", []
    for seed in range(settings.seeds):
        kept += list(rows(sets(folder, settings.count, CLEAN, TEST, seed), folder, seed, settings))
    for name in METHODS:
        mean = statistics.mean(row["perplexity"] for row in kept if row["who"] == name)
        print(f"{name:9} perplexity {mean:.2f}")
    write(kept, settings.out, torch.get_num_threads(), settings.device or "cuda")


if __name__ == "__main__":
    main()
