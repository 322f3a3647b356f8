"""Wrong labels on CIFAR-10, all runs of ours that others' numbers can stand beside: docs/results/wrong-labels.md.

    python benchmarks/wrong_labels.py > docs/results/wrong-labels.md

From what the suites `inputs` and `reclaim` have stored; nothing is measured here.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple

Row = dict[str, Any]


class Labels(NamedTuple):
    """A noisy version of CIFAR-10: its cell in the suites, and the best scores published for it."""

    name: str
    cell: str
    published: str


NOISY = (
    Labels("CIFAR-10N worst", "cifar10n-worse", "96.34 (ProMix)"),
    Labels("CIFAR-10N aggregate", "cifar10n-aggre", "97.65 (ProMix)"),
    Labels("CIFAR-10N random-1", "cifar10n-random1", "97.39 (ProMix)"),
    Labels("redrawn from all classes, 20%", "cifar10-uniformflip-any-20", "96.7 (SSR+)"),
    Labels("redrawn from all classes, 50%", "cifar10-uniformflip-any-50", "96.1 (SSR+)"),
    Labels("redrawn from all classes, 80%", "cifar10-uniformflip-any-80", "95.6 (SSR+)"),
    Labels("redrawn from all classes, 90%", "cifar10-uniformflip-any-90", "95.2 (SSR+)"),
    Labels("asymmetric 40", "cifar10-asymmetric-40", "96.5 (ProMix)"),
    Labels("symmetric 50", "cifar10-symmetric-50", ""),
    Labels("symmetric 80", "cifar10-symmetric-80", ""),
)
METHODS = {
    "standard-short": "plain training",
    "standard-20": "plain training",
    "standard": "plain training",
    "agreeing-started": "reclaim after a start: predicted labels are trusted",
    "brief": "the same after a brief warm-up",
    "agreeing-pair": "the same with two networks",
    "reclaim-vote": "reclaim-vote after a start",
    "reclaim": "reclaim, told the rate",
    "patient": "reclaim-patient, told the rate",
}
CHOSEN = "agreeing-started"  # on development cells, before any of these was run with it
NETWORKS = {"resnet18": "ResNet-18", "quick": "the network quick"}
PAGE = """# Wrong labels on CIFAR-10, and how far one setting gets

<!-- Made from results/inputs-paper.jsonl and results/reclaim-paper.jsonl by `python benchmarks/wrong_labels.py`. -->

**What holds here.** One setting, chosen on other noise than this, was run on all of these labels and told nothing of
them: reclaim after a start without labels, in which labels are trusted that the average predicts. It is ahead of the
best plain training in {ahead} of {compared}, by {least:.1f} to {most:.1f} points. The best published scores are
{near:.1f} to {far:.1f} points higher; they had 300 to 600 epochs, SSR+ reports its best epoch, and ProMix has two
networks, where here {epochs} epochs follow the start. {seeds}

{main}

Scores are means of the last ten epochs, of networks that see every image in a weak and a strong view. *Best plain* is
the best such score of plain training ({plain}), with its best epoch in brackets, which was
chosen on the test set. *All* is the mean of the network, its average, and both for flipped images. {missing}

## What limits it

{limits}

*Trusted* is the share of examples whose given label is trusted after the last epoch, *relabelled* of those that learn
the average's label, each with how many of these labels are right; *learned* is the share of right ones among both
together. Every score is below that share, by {short:.1f} to {long:.1f} points: righter labels and networks that learn
more of them, in a longer training, can both raise it.

## Finding the wrong labels

{detection}

F1 is that of the labels that were not trusted after the last epoch, AUROC that of trust. Published on CIFAR-10N, F1 on
worst and aggregate: ProMix 96.1 and 89.9; cleanlab on probabilities of Swin-B 95.3 and 92.9 (AUROC 0.992 and 0.996), of
ResNet-18 88.4 and 74.7.

## Every run

{runs}

Seconds are those of one H200 that two to four runs shared in cells of 60 epochs, with the start counted in every run
that has one, although runs share it. Rows that were told the rate, and their settings, are explained in
[reclaim](reclaim-paper.md); the others, with the development cells and what did not help, in
[inputs first](inputs-paper.md).
"""


def read(name: str) -> list[Row]:
    lines = Path(f"results/{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [row for row in map(json.loads, lines) if row["status"] == "ok" and row["method"] in METHODS]


def runs_of(labels: Labels, rows: Sequence[Row]) -> dict[tuple[str, str, int], list[Row]]:
    """The rows of these labels by method, network and epochs, the latest of each seed."""
    found: dict[tuple[str, str, int], dict[int, Row]] = {}
    for row in rows:
        cell, _, ending = row["cell"].removeprefix(labels.cell).partition("-")
        if row["cell"].startswith(labels.cell) and not cell and ending in ("", "quick", *_LENGTHS):
            key = (row["method"], NETWORKS[row["settings"]["model"]], row["settings"]["epochs"])
            found.setdefault(key, {})[row["seed"]] = row
    return {key: list(own.values()) for key, own in found.items()}


_LENGTHS = [f"in-{epochs}-epochs" for epochs in (60, 200, 300)]


def percent(values: Sequence[float], digits: int = 1) -> str:
    spread = f" ± {100 * stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{100 * fmean(values):.{digits}f}{spread}"


def last(rows: Sequence[Row], name: str) -> list[float]:
    """The last value of a column in each of the rows that have it."""
    return [row["columns"][name][-1] for row in rows if row["columns"].get(name, [None])[-1] is not None]


def table(heads: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *body]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def plainest(found: dict[tuple[str, str, int], list[Row]]) -> tuple[str, float, float] | None:
    """The plain training that ends best: in words, its last epochs and its best one."""
    plain = {key: rows for key, rows in found.items() if key[0].startswith("standard")}
    if not plain:
        return None
    key = max(plain, key=lambda each: fmean(row["last"] for row in plain[each]))
    rows = plain[key]
    return f"{key[2]} epochs with {key[1]}", fmean(row["last"] for row in rows), fmean(row["best"] for row in rows)


def page() -> str:
    rows = read("inputs-paper") + read("reclaim-paper")
    main, limits, detection, runs, gains, behind, lacking = [], [], [], [], [], [], []
    lengths, counts, plains, unlearned = set[int](), dict[str, int](), set[str](), list[float]()
    for labels in NOISY:
        found = runs_of(labels, rows)
        chosen = {key: own for key, own in found.items() if key[0] == CHOSEN}
        plain = plainest(found)
        for (_, _, epochs), own in chosen.items():
            score = percent([row["last"] for row in own])
            lengths.add(epochs)
            counts[labels.name] = max(counts.get(labels.name, 0), len(own))
            if plain is not None:
                gains.append(100 * (fmean(row["last"] for row in own) - plain[1]))
                plains.add(plain[0])
            if labels.published:
                behind.append(float(labels.published.split()[0]) - 100 * fmean(row["last"] for row in own))
            ours = [score, percent([row["best"] for row in own]), percent(last(own, "average")),
                    percent(last(own, "all_and_flipped"))]  # fmt: skip
            beside = "" if plain is None else f"{100 * plain[1]:.1f} ({100 * plain[2]:.1f})"
            main.append([labels.name, beside, *ours, labels.published])
            limits.append([labels.name, *_shares(own), score])
            unlearned.append(float(limits[-1][-2]) - 100 * fmean(row["last"] for row in own))
            detection.append([labels.name, percent(last(own, "wrong_found")), f"{fmean(last(own, 'trust_auroc')):.3f}"])
        if not chosen:
            lacking.append(labels.name)
        for (method, network, epochs), own in sorted(found.items(), key=lambda each: fmean(r["last"] for r in each[1])):
            start = own[0]["settings"].get("start")
            runs.append([
                labels.name, METHODS[method], network, str(epochs), (start or "").removeprefix("represent:"),
                percent([row["last"] for row in own]), percent([row["best"] for row in own]),
                f"{fmean(row['seconds'] for row in own):.0f}", str(len(own)),
            ])  # fmt: skip
    alone = [name for name, count in counts.items() if count == 1]
    return PAGE.format(
        ahead=sum(gain > 0 for gain in gains), compared=len(gains), least=min(gains), most=max(gains),
        near=min(behind), far=max(behind), epochs=" or ".join(map(str, sorted(lengths))),
        seeds=f"{len(alone)} of the {len(counts)} rows are of one seed, which decides little.",
        main=table(["labels", "best plain", "ours", "its best epoch", "the average", "all", "published"], main),
        plain=" or ".join(sorted(plains)),
        missing=f"Not run yet with this setting: {', '.join(lacking)}." if lacking else "",
        short=min(unlearned), long=max(unlearned),
        limits=table(["labels", "trusted", "right", "relabelled", "right", "learned", "score"], limits),
        detection=table(["labels", "F1 of wrong labels", "AUROC"], detection),
        runs=table(["labels", "method", "network", "epochs", "start", "last ten", "best", "seconds", "seeds"], runs),
    )  # fmt: skip


def _shares(rows: Sequence[Row]) -> list[str]:
    """How many labels are trusted and replaced, how many of each are right, and of both together."""
    trusted, right, given, taught = (
        fmean(last(rows, name)) for name in ("trusted", "trusted_clean", "reclaimed", "reclaimed_right")
    )
    learned = (trusted * right + given * taught) / (trusted + given)
    return [f"{100 * value:.1f}" for value in (trusted, right, given, taught, learned)]


if __name__ == "__main__":
    print(page(), end="")
