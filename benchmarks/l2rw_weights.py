"""L2RW's Figure 3: the weights of clean and flipped examples that the network has never seen, at half of a training.

    python benchmarks/l2rw_weights.py                                        (digits, a minute on a CPU)
    python benchmarks/l2rw_weights.py --data cifar10 --device cuda           (ResNet-32, the paper's)
    python benchmarks/l2rw_weights.py --show > docs/results/l2rw-weights.md

BACKGROUNDFLIP 40%: a network trains with L2RW for half of the epochs, without a fall of the learning rate; then
batches of a hyper-validation set, flipped as the training set is and never trained on, are weighed. Left in the
figure: random batches. Right: batches of one true class, averaged over all classes but the background.
"""

import argparse
import json
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from thresher import Examples, Run, fit, load, weigh
from thresher.bench.compare.paired import difference
from thresher.bench.run.provenance import provenance
from thresher.corruption import corrupt
from thresher.data.clean import take_clean
from thresher.methods import method
from thresher.rules import MetaGradient

SETTINGS: dict[str, dict[str, Any]] = {
    "digits": {"model": "mlp:256x256", "batch": 64, "epochs": 15, "learning_rate": 1e-3},
    "cifar10": {
        "model": "resnet32", "batch": 100, "epochs": 30, "optimizer": "sgd", "learning_rate": 0.1, "momentum": 0.9,
        "weight_decay": 2e-4, "augment": "weak", "precision": "bfloat16",
    },
}  # fmt: skip
CLEAN, HELD_OUT, BACKGROUND, BATCH, BATCHES = 100, 0.1, 0, 100, 20
BINS = (0.0, 0.005, 0.01, 0.015, 0.02, 1.0)


def sets(data: str, seed: int) -> tuple[Examples, Examples, Examples]:
    """Training set, clean set and hyper-validation set; the first and the last are flipped alike."""
    train = load(data).train
    rest, clean = take_clean(train.with_columns(true_target=train.targets), CLEAN, seed)
    flipped = corrupt(rest, f"backgroundflip:0.4:{BACKGROUND}", seed=seed)
    order = torch.randperm(len(flipped), generator=torch.Generator().manual_seed(seed))
    held = order[: round(HELD_OUT * len(order))]
    return flipped.subset(order[len(held) :]), clean, flipped.subset(held)


def weights_of(run: Run, examples: Examples, clean: Examples) -> Tensor:
    """L2RW's weights of one batch, which add up to 1, or are all 0."""
    device = next(run.model.parameters()).device
    batch, trusted = examples.to(device), clean.to(device)
    inputs, known = (part.as_model_input(part.inputs) for part in (batch, trusted))
    found: Tensor = weigh(MetaGradient(), run.model, inputs, batch.targets, clean=(known, trusted.targets)).cpu()
    return found


def batches(held: Examples, seed: int) -> dict[str, list[Examples]]:
    """Random batches, and batches of one true class other than the background."""
    draws = torch.Generator().manual_seed(seed)
    true = held.columns["true_target"].cpu()
    mixed = [held.subset(torch.randperm(len(held), generator=draws)[:BATCH]) for _ in range(BATCHES)]
    classes = [held.subset((true == label).nonzero()[:BATCH, 0]) for label in true.unique() if label != BACKGROUND]
    return {"random batches": mixed, "batches of one true class": classes}


def one(data: str, seed: int, device: str) -> list[dict[str, Any]]:
    train, clean, held = sets(data, seed)
    settings = dict(SETTINGS[data])
    model = settings.pop("model")
    run = fit(method("l2rw").recipe(), model, train, clean=clean, seed=seed, device=device, **settings)
    run.model.train()  # as in a step
    rows = []
    for name, parts in batches(held, seed).items():
        weights = torch.cat([weights_of(run, part, clean) * len(part) / BATCH for part in parts])
        wrong = torch.cat([part.columns["is_corrupt"].bool().cpu() for part in parts])
        for kind, mask in (("clean", ~wrong), ("flipped", wrong)):
            own = weights[mask]
            shares = [float(((own > low) & (own <= high)).float().mean()) for low, high in pairwise(BINS)]
            zero = float((own == 0).float().mean())
            rows.append({"data": data, "seed": seed, "batches": name, "examples": kind, "zero": zero, "shares": shares,
                         "mean": float(own.mean()), "count": len(own)})  # fmt: skip
    return rows


HEAD = """\
# L2RW's weights on examples it has never seen

<!-- Made from results/l2rw-weights.jsonl by `python benchmarks/l2rw_weights.py --show`. -->
"""
ABOUT = """\
The paper's Figure 3: 40% of the labels flipped to a background class, {clean} clean examples, a network at half of
its training, and batches of a hyper-validation set that it was not trained on. Shares of the examples by weight (the
weights of {batch} examples add up to 1, so 0.01 is the mean); means over seeds.
"""


def show(path: Path) -> str:
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    parts = [HEAD, verdict(rows), ABOUT.format(clean=CLEAN, batch=BATCH)]
    heads = ["zero", *(f"to {high:g}" for high in BINS[1:-1]), f"above {BINS[-2]:g}"]
    for data in dict.fromkeys(row["data"] for row in rows):
        here = [row for row in rows if row["data"] == data]
        seeds = len({row["seed"] for row in here})
        parts.append(f"## {data}, {SETTINGS[data]['model']}, {seeds} seeds\n")
        parts.append(
            "| batches | examples | mean weight | " + " | ".join(heads) + " |\n" + "|---" * (len(heads) + 3) + "|"
        )
        for name in dict.fromkeys(row["batches"] for row in here):
            for kind in ("clean", "flipped"):
                own = [row for row in here if (row["batches"], row["examples"]) == (name, kind)]
                bins = [
                    fmean(row["zero"] for row in own),
                    *(fmean(v) for v in zip(*(r["shares"] for r in own), strict=True)),
                ]
                words = [f"{fmean(row['mean'] for row in own):.4f}", *(f"{value:.2f}" for value in bins)]
                parts.append(f"| {name} | {kind} | " + " | ".join(words) + " |")
        parts.append("")
    return "\n".join(parts)


def verdict(rows: list[dict[str, Any]]) -> str:
    words = []
    for data in dict.fromkeys(row["data"] for row in rows):
        for name in dict.fromkeys(row["batches"] for row in rows):
            zero = {
                kind: [r["zero"] for r in rows if (r["data"], r["batches"], r["examples"]) == (data, name, kind)]
                for kind in ("flipped", "clean")
            }
            more = difference([high - low for high, low in zip(zero["flipped"], zero["clean"], strict=True)])
            words.append(
                f"on {data}, {name}, {fmean(zero['flipped']):.0%} of the flipped and {fmean(zero['clean']):.0%} of the "
                f"clean ({more.words(2)})"
            )
    return (
        "**What holds here.** The paper says that most flipped examples get weight zero, in random batches and within "
        f"one class. Weight zero have: {'; '.join(words)}. In brackets the difference, paired by seed, with its 95% "
        "interval.\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", choices=list(SETTINGS), default="digits")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("results/l2rw-weights.jsonl"))
    parser.add_argument("--show", action="store_true", help="measure nothing, print the page")
    settings = parser.parse_args()
    if settings.show:
        print(show(settings.out))
        return
    kept = [json.loads(line) for line in settings.out.read_text().splitlines()] if settings.out.exists() else []
    rows = [row for seed in range(settings.seeds) for row in one(settings.data, seed, settings.device)]
    facts = provenance(settings.device)
    kept = [row for row in kept if row["data"] != settings.data] + [{**row, **facts} for row in rows]
    settings.out.write_text("".join(json.dumps(row) + "\n" for row in kept), encoding="utf-8")


if __name__ == "__main__":
    main()
