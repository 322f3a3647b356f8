"""Fine-tuning a small language model on questions and answers of which a third is junk, with a few trusted ones.

    python benchmarks/finetune.py results/finetune.jsonl --data-dir DATA [--epochs 3] [--seeds 3] [--device cpu]
    python benchmarks/finetune.py results/finetune.jsonl --show > docs/results/finetune.md

A ninth of the answers are those of other questions, a ninth are in another language (for which exchanged letters
stand in), and a ninth are one of five pieces of junk. Each method trains the same pretrained model. Measured are the
perplexity of clean answers it has not seen, how many of their words it predicts, and how well what the ledger kept
finds the junk (AUROC): by the agreement with the trusted texts for l2rw, by the signal that it ranks by for prl-l and
prl-g, and by the loss for the others. `selected` is reclaim's selection without its labels, of which there are none
for texts: each epoch, the texts on which the averaged model has the smallest output gradients. The oracle is standard
without the junk, for as many steps.
"""

import argparse
import json
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

from thresher import Recipe, Run, fit
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
CLEAN, TEST, BATCH = 64, 100, 16


def adamw(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=1e-3, weight_decay=0.01)


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


def rows(given: Sets, folder: Path, seed: int, settings: argparse.Namespace) -> Iterator[dict[str, Any]]:
    steps = settings.epochs * len(given.train) // settings.batch
    kinds = given.train.columns["kind"].numpy()
    before = measured(llama(folder / "stories260K.bin"), given.test)
    for name, what in METHODS.items():
        model, started = llama(folder / "stories260K.bin"), time.perf_counter()
        train = given.train.subset(torch.from_numpy(kinds == 0)) if name == "oracle" else given.train
        more: dict[str, Any] = {"clean": given.clean, "clean_batch": 16} if name == "l2rw" else {}
        more |= {"noise_rate": NOISE_RATE} if isinstance(what, str) else {}
        run = fit(
            what, model, train, steps=steps, batch=settings.batch, seed=seed, optimizer=adamw, device=settings.device,
            **more,
        )  # fmt: skip
        row: dict[str, Any] = {"who": name, "seed": seed, "steps": steps, "batch": settings.batch}
        row |= {"examples": len(train), "length": settings.length, "seconds": time.perf_counter() - started}
        row |= {"before": before, "after": measured(run.model, given.test)}
        if name != "oracle":
            row["found"] = areas(suspicion(name, run, len(train)), kinds)
        found = {kind: f"{area:.3f}" for kind, area in row.get("found", {}).items()}
        print(f"seed {seed} {name:9} perplexity {row['after']['perplexity']:.2f}  {found}", flush=True)
        yield row


def page(results: list[dict[str, Any]]) -> str:
    """The stored results as a page: means over the seeds, and their standard deviations."""
    first, seeds = results[0], sorted({row["seed"] for row in results})
    heads = ["", "perplexity", "words predicted", "junk found", *KINDS[1:], "seconds"]
    before = [row["before"] for row in results if row["who"] == "standard"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    lines.append(f"| before | {_mean(before, 'perplexity', 2)} | {_mean(before, 'accuracy', 3)} |{' |' * 5}")
    for who in METHODS:
        mine = [row for row in results if row["who"] == who]
        after, found = [row["after"] for row in mine], [row["found"] for row in mine if "found" in row]
        cells = [_mean(after, "perplexity", 2), _mean(after, "accuracy", 3)]
        cells += [_mean(found, kind, 3) if found else "" for kind in ("junk", *KINDS[1:])]
        lines.append(f"| {who} | {' | '.join([*cells, _mean(mine, 'seconds', 0)])} |")
    made = "<!-- Made from results/finetune.jsonl by `python benchmarks/finetune.py results/finetune.jsonl --show`: do not edit. -->"
    return "\n".join([
        "# Fine-tuning on texts of which a third is junk\n", made, "",
        f"A pretrained Llama of 260,032 parameters is trained for {first['steps']} steps of {first['batch']} texts on "
        f"questions and answers of GSM8K of at most {first['length']} tokens, of which a third is junk of three kinds; "
        f"{CLEAN} further texts are trusted and only l2rw sees them. Means and deviations of {len(seeds)} seeds. "
        "Perplexity and words predicted are on clean answers. Junk found is the AUROC of what the ledger kept: the "
        "agreement with the trusted texts for l2rw, the ranked signal for prl-l and prl-g, the loss for the others; "
        "beside it, each kind of junk against the clean texts alone. `selected` is reclaim's selection, made of the "
        "averaged model's output gradients once an epoch. The oracle is trained without the junk, for as many steps.\n",
        *lines, "",
        f"{first['machine']['cpu']}, one core of a machine that did other work as well; commit {first['commit'][:10]}.",
    ])  # fmt: skip


def _mean(values: list[dict[str, Any]], key: str, digits: int) -> str:
    numbers = [value[key] for value in values]
    return f"{np.mean(numbers):.{digits}f} ± {np.std(numbers):.{digits}f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("--data-dir", type=Path, default=Path("data"))
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--count", type=int, default=450)
    parser.add_argument("--length", type=int, default=200)
    parser.add_argument("--batch", type=int, default=BATCH)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--show", action="store_true", help="print the page of a results file")
    settings = parser.parse_args()
    if settings.show:
        print(page([json.loads(line) for line in settings.out.read_text().splitlines()]))
        return
    folder, kept = settings.data_dir / "lm", []
    for seed in range(settings.seeds):
        given = sets(folder, settings.count, CLEAN, TEST, seed, settings.length)
        kept += list(rows(given, folder, seed, settings))
        write(kept, settings.out, torch.get_num_threads(), settings.device)


if __name__ == "__main__":
    main()
