"""Why S-BADGE may pick no more clean examples than BADGE: the divergence from the average, at each length of training.

    python benchmarks/s_badge.py --out results/s-badge-cpu.jsonl
    python benchmarks/s_badge.py --show > docs/results/s-badge.md

One round of the diverse pool (80% images of one colour, three labels for each colour) on digits: a network learns the
start labels, and the picks of BADGE and of S-BADGE are compared. What varies is how the average is updated, from which
layer the divergence is read, and how long the network trains.
"""

import argparse
import json
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from timing import write
from torch import Tensor, nn

from thresher import Examples, Recipe, fit, load
from thresher.corruption import corrupt
from thresher.models import build
from thresher.rules import kmeans_plus_plus
from thresher.slots import Clamped, Growing

AVERAGES = {"growing to 0.999 (code)": Growing(0.999), "0.999 from the start (paper)": 0.999, "growing to 0.9": Growing(0.9)}
EPOCHS = (5, 20, 70, 200)
START, COUNT, SEEDS = 500, 100, 3


def hidden(model: nn.Module, inputs: Tensor) -> tuple[Tensor, Tensor]:
    """What the last Linear layer reads, and the outputs."""
    seen: list[Tensor] = []
    last = [layer for layer in model.modules() if isinstance(layer, nn.Linear)][-1]
    handle = last.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    model.eval()
    with torch.no_grad():
        outputs = model(inputs)
    handle.remove()
    return seen[0], outputs


def scales(model: nn.Module, average: nn.Module, inputs: Tensor) -> dict[str, Tensor]:
    """By what an embedding is multiplied [n]: 1 for BADGE, a divergence from the average for the others."""
    (own, outputs), (mean, said) = hidden(model, inputs), hidden(average, inputs)
    difference = (own - mean).abs().mean(1)
    return {
        "1: BADGE": torch.ones_like(difference),
        "penultimate layer: S-BADGE": difference,
        "penultimate, against its size": difference / mean.abs().mean(1).clamp_min(1e-12),
        "outputs": (outputs - said).abs().mean(1),
    }


def one(pool: Examples, average: Any, epochs: int, seed: int) -> list[dict[str, Any]]:
    """The divergences of clean and noisy examples after a training, and the clean share of the picks."""
    order = torch.randperm(len(pool), generator=torch.Generator().manual_seed(seed))
    bought, rest = pool.subset(order[:START]), pool.subset(order[START:])
    run = fit(
        Recipe(average=average, clip=Clamped(0.1)), lambda: build("mlp:128", input_shape=(1, 8, 8), outputs=10), bought,
        epochs=epochs, batch=32, learning_rate=2e-3, seed=seed, device="cpu",
    )  # fmt: skip
    inputs, clean = rest.as_model_input(rest.inputs), ~rest.columns["is_corrupt"].bool()
    own, outputs = hidden(run.model, inputs)
    left = outputs.softmax(1) - nn.functional.one_hot(outputs.argmax(1), 10)
    rows = []
    for name, scale in scales(run.model, run.averages[0], inputs).items():
        draws = torch.Generator().manual_seed(seed)
        picks = kmeans_plus_plus(scale[:, None] * left, own, COUNT, draws)
        ratio = float(scale[clean].mean() / scale[~clean].mean().clamp_min(1e-12))
        rows.append({"by": name, "clean_over_noisy": ratio, "clean_picks": float(clean[picks].float().mean())})
    fits = run.history[-1]["train_score"]
    return [{"epochs": epochs, "seed": seed, "train_score": fits, **row} for row in rows]


PAGE = """\
# Why S-BADGE may pick no cleaner than BADGE

<!-- Made from results/s-badge-cpu.jsonl by `python benchmarks/s_badge.py --show`. -->

S-BADGE multiplies the embeddings of BADGE by the distance between the hidden states of the network and of its moving average, on the thought
that these still change where something can be learnt, and no longer where labels are noise. On SVHN with diverse noise S-BADGE ended below BADGE
here (40.1, in the paper 52.7), so its parts were varied, on digits with the same noise: {labels} bought labels, one choice of {count},
means of {seeds} seeds; a fifth of the pool is clean. *Fit* is the share of bought labels that the network predicts at the end.
"""


def show(path: Path) -> str:
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    parts = [PAGE.format(labels=START, count=COUNT, seeds=SEEDS), finding(rows)]
    for average in AVERAGES:
        names = list(dict.fromkeys(row["by"] for row in rows))
        parts.append(f"## Average: {average}\n")
        parts.append("| epochs | fit | " + " | ".join(names) + " |\n|---|---|" + "---|" * len(names))
        for epochs in EPOCHS:
            here = [row for row in rows if row["average"] == average and row["epochs"] == epochs]
            words = []
            for name in names:
                own = [row for row in here if row["by"] == name]
                words.append(
                    f"{fmean(row['clean_picks'] for row in own):.2f} ({fmean(row['clean_over_noisy'] for row in own):.2f})"
                )
            parts.append(f"| {epochs} | {fmean(row['train_score'] for row in here):.2f} | " + " | ".join(words) + " |")
        parts.append("")
    parts.append("Clean share of the picks; in brackets, the mean factor of clean examples over that of noisy ones.")
    return "\n".join(parts)


def finding(rows: list[dict[str, Any]]) -> str:
    """In a sentence each: what the length, the average and the layer do to the gain of S-BADGE over BADGE."""

    def gain(by: str, **where: Any) -> float:
        here = [row for row in rows if all(row[name] == value for name, value in where.items())]
        return fmean(row["clean_picks"] for row in here if row["by"] == by) - fmean(
            row["clean_picks"] for row in here if row["by"] == "1: BADGE"
        )

    usual = "penultimate layer: S-BADGE"
    released = next(iter(AVERAGES))
    lengths = ", ".join(f"{gain(usual, average=released, epochs=epochs):+.2f} after {epochs}" for epochs in EPOCHS)
    ways = ", ".join(f"{gain(usual, average=name):+.2f} with {name}" for name in AVERAGES)
    layers = ", ".join(
        f"{gain(by):+.2f} by {by}" for by in dict.fromkeys(row["by"] for row in rows) if by != "1: BADGE"
    )
    return (
        f"Gain in the clean share of the picks over BADGE. By length of training: {lengths} epochs. By how the average is "
        f"updated, over all lengths: {ways}. By where the divergence is read, over all of these: {layers}.\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results/s-badge-cpu.jsonl"))
    parser.add_argument("--show", action="store_true", help="measure nothing, print the page")
    settings = parser.parse_args()
    if settings.show:
        print(show(settings.out))
        return
    torch.set_num_threads(1)
    rows = []
    for seed in range(SEEDS):
        pool = corrupt(load("digits").train, "diverse:0.8", seed=seed)
        for name, average in AVERAGES.items():
            for epochs in EPOCHS:
                rows += [{"average": name, **row} for row in one(pool, average, epochs, seed)]
    write(rows, settings.out, 1)


if __name__ == "__main__":
    main()
