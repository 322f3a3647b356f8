"""Why S-BADGE may pick no more clean examples than BADGE: the divergence from the average, at each length of
training.

    python benchmarks/s_badge.py --out results/s-badge-cpu.jsonl
    python benchmarks/s_badge.py --show > docs/results/s-badge.md

One round of the diverse pool (80% images of one colour, three labels for each colour) on digits: a network learns the
start labels, and the picks of BADGE and of S-BADGE are compared. What varies is how the average is updated, from
which layer the divergence is read, and how long the network trains.
"""

import argparse
import json
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from torch import Tensor, nn

from thresher import Examples, Recipe, fit, load
from thresher.bench.compare.paired import difference
from thresher.bench.run.provenance import provenance
from thresher.corruption import corrupt
from thresher.models import build
from thresher.rules import kmeans_plus_plus
from thresher.slots import Clamped, Growing

BADGE, S_BADGE, RELATIVE = "1: BADGE", "penultimate layer: S-BADGE", "penultimate, against its size"
AVERAGES = {
    "growing to 0.999 (code)": Growing(0.999),
    "0.999 from the start (paper)": 0.999,
    "growing to 0.9": Growing(0.9),
}
COUNT = 100


@dataclass(frozen=True)
class Case:
    """A pool and how its start labels are learnt."""

    model: str
    start: int
    batch: int
    learning_rate: float
    epochs: tuple[int, ...]
    seeds: int
    pictures: int | None = None  # the first of the training set; None: all


CASES = {
    "digits": Case("mlp:128", 500, 32, 2e-3, (5, 20, 70, 200), 3),
    "svhn": Case("mlp:512", 2000, 64, 1e-4, (10, 70, 200), 3, pictures=6000),  # as in the suite
}


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
        BADGE: torch.ones_like(difference),
        S_BADGE: difference,
        RELATIVE: difference / mean.abs().mean(1).clamp_min(1e-12),
        "outputs": (outputs - said).abs().mean(1),
    }


def one(case: Case, pool: Examples, average: Any, epochs: int, seed: int) -> list[dict[str, Any]]:
    """The divergences of clean and noisy examples after a training, and the clean share of the picks."""
    order = torch.randperm(len(pool), generator=torch.Generator().manual_seed(seed))
    bought, rest = pool.subset(order[: case.start]), pool.subset(order[case.start :])
    run = fit(
        Recipe(average=average, clip=Clamped(0.1)), lambda: build(case.model, input_shape=pool.input_shape, outputs=10),
        bought, epochs=epochs, batch=case.batch, learning_rate=case.learning_rate, seed=seed, device="cpu",
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

**What holds here.** The paper says that the distance is nearly zero on noisy examples, and that S-BADGE picks cleaner
than BADGE. Here, over all lengths and averages, {holds}.

**What was found.** Neither how the average is updated, nor the layer, nor the length turns it round. On SVHN the
hidden states of images of one colour lie *farther* from those of the average than those of pictures do, by as much
as they are larger: against its own size the difference says nothing. So the factor asks for noise, and S-BADGE picks
less clean than BADGE. On digits the factor asks for pictures. One round, the MLP only, and of SVHN 6,000 pictures.

S-BADGE multiplies the embeddings of BADGE by the distance between the hidden states of the network and of its moving
average, on the thought that these still change where something can be learnt, and no longer where labels are noise.
On SVHN with diverse noise it ended below BADGE here and above it in the paper ([Table 1](active-paper.md)), so its
parts were varied in one round of the same noise. A fifth of the pool is clean. *Fit* is the share of bought labels
that the network predicts at the end.
"""


def show(path: Path) -> str:
    rows = complete([json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()])
    of = {name: [row for row in rows if row["data"] == name] for name in CASES}
    holds = "; ".join(f"on {name} {cleaner(rows_of)}" for name, rows_of in of.items())
    parts = [PAGE.format(holds=holds), *(finding(name, rows_of) for name, rows_of in of.items())]
    for (data, case), average in product(CASES.items(), AVERAGES):
        names = list(dict.fromkeys(row["by"] for row in rows))
        if not any(row["average"] == average and row["data"] == data for row in rows):
            continue
        parts.append(f"## {data}, {case.model}, {case.start} labels, average {average}\n")
        parts.append("| epochs | fit | " + " | ".join(names) + " |\n|---|---|" + "---|" * len(names))
        for epochs in case.epochs:
            here = [r for r in rows if (r["average"], r["epochs"], r["data"]) == (average, epochs, data)]
            words = []
            for name in names:
                picks, factor = (
                    fmean(r[k] for r in here if r["by"] == name) for k in ("clean_picks", "clean_over_noisy")
                )
                words.append(f"{picks:.2f} ({factor:.2f})")
            parts.append(f"| {epochs} | {fmean(row['train_score'] for row in here):.2f} | " + " | ".join(words) + " |")
        parts.append("")
    parts.append("Clean share of 100 picks; in brackets, the mean factor of clean examples over that of noisy ones.")
    return "\n".join(parts)


def complete(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of the seeds that have every training of their case: means over others would mix unlike trainings."""
    found: dict[tuple[str, int], set[tuple[str, int]]] = {}
    for row in rows:
        found.setdefault((row["data"], row["seed"]), set()).add((row["average"], row["epochs"]))
    wanted = {data: set(product(AVERAGES, case.epochs)) for data, case in CASES.items()}
    return [row for row in rows if found[row["data"], row["seed"]] == wanted[row["data"]]]


def cleaner(rows: list[dict[str, Any]]) -> str:
    """How much cleaner S-BADGE picks than BADGE over all lengths and averages, paired by seed."""
    gains = [
        fmean(row["clean_picks"] for row in rows if row["seed"] == seed and row["by"] == S_BADGE)
        - fmean(row["clean_picks"] for row in rows if row["seed"] == seed and row["by"] == BADGE)
        for seed in {row["seed"] for row in rows}
    ]
    return f"the clean share of its picks differs by {difference(gains).words(3)}"


def finding(data: str, rows: list[dict[str, Any]]) -> str:
    """What the length, the average and the layer do to the gain of S-BADGE over BADGE on these data."""

    def gain(by: str, **where: Any) -> float:
        here = [row for row in rows if all(row[name] == value for name, value in where.items())]
        own, plain = ([row["clean_picks"] for row in here if row["by"] == each] for each in (by, BADGE))
        return fmean(own) - fmean(plain)

    def factor(by: str) -> float:
        return fmean(row["clean_over_noisy"] for row in rows if row["by"] == by)

    released = next(iter(AVERAGES))
    lengths = ", ".join(f"{gain(S_BADGE, average=released, epochs=e):+.2f} after {e}" for e in CASES[data].epochs)
    ways = ", ".join(
        f"{gain(S_BADGE, average=a):+.2f} with {a}" for a in AVERAGES if any(r["average"] == a for r in rows)
    )
    layers = ", ".join(f"{gain(by):+.2f} by {by}" for by in dict.fromkeys(r["by"] for r in rows) if by != BADGE)
    count = len({row["seed"] for row in rows})
    seeds = "one seed" if count == 1 else f"{count} seeds"
    return (
        f"**{data}**, {seeds}: gain in the clean share of the picks over BADGE. By length of training: {lengths} "
        f"epochs. By how the average is updated, over all lengths: {ways}. By where the divergence is read, over all "
        f"of these: {layers}. The factor of clean examples is {factor(S_BADGE):.2f} of that of noisy ones, and "
        f"{factor(RELATIVE):.2f} once it is divided by the size of the hidden state.\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results/s-badge-cpu.jsonl"))
    parser.add_argument("--data", choices=list(CASES), default="digits", help="svhn is read from THRESHER_DATA")
    parser.add_argument("--show", action="store_true", help="measure nothing, print the page")
    settings = parser.parse_args()
    if settings.show:
        print(show(settings.out))
        return
    measure(settings.data, settings.out)


def measure(data: str, out: Path) -> None:
    """Every training of a case that the file does not hold yet, seed by seed, each stored as it ends."""
    torch.set_num_threads(1)
    stored = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()] if out.exists() else []
    done = {(row["data"], row["average"], row["epochs"], row["seed"]) for row in stored}
    case, facts = CASES[data], {"threads": 1, **provenance("cpu")}
    for seed in range(case.seeds):
        train = load(data).train
        pool = corrupt(train.subset(torch.arange(case.pictures or len(train))), "diverse:0.8", seed=seed)
        for (name, average), epochs in product(AVERAGES.items(), case.epochs):
            if (data, name, epochs, seed) in done:
                continue
            rows = [{"data": data, "average": name, **row, **facts} for row in one(case, pool, average, epochs, seed)]
            with out.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(row) + "\n" for row in rows)


if __name__ == "__main__":
    main()
