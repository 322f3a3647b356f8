"""The page of benchmarks/finetune.py, from its results."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from finetune_texts import KINDS

HEADS = ["", "perplexity", "words predicted", "junk found", *KINDS[1:], "seconds", "seeds"]
PAGE = """# Fine-tuning on texts of which a third is junk

<!-- Made from results/finetune.jsonl by `python benchmarks/finetune.py results/finetune.jsonl --show`. -->

A pretrained Llama is trained on questions and answers of GSM8K, of which a third is junk of three kinds; further texts
are trusted, and only l2rw sees them. Perplexity and words predicted are on clean answers. Junk found is the AUROC of
what the ledger kept: the agreement with the trusted texts for l2rw, the ranked signal for prl-l and prl-g, the loss for
the others; beside it, each kind of junk against the clean texts alone. `selected` is reclaim's selection, made of the
averaged model's output gradients once an epoch. The oracle is trained without the junk, for as many steps. Means and
standard deviations over the seeds, which are not the same for all rows.
"""


def page(results: Sequence[dict[str, Any]], methods: Sequence[str]) -> str:
    """The stored results as a page: one table for each model and number of steps, the larger model first."""
    settings = sorted({(row["parameters"], row["steps"]) for row in results}, reverse=True)
    chosen = [[row for row in results if (row["parameters"], row["steps"]) == setting] for setting in settings]
    return "\n".join([PAGE, *(part(rows, methods) for rows in chosen)])


def part(results: Sequence[dict[str, Any]], methods: Sequence[str]) -> str:
    first = results[0]
    before = [row["before"] for row in results if row["who"] == "standard"]
    lines = [f"| {' | '.join(HEADS)} |", "|---" * len(HEADS) + "|"]
    lines.append(f"| before | {_mean(before, 'perplexity', 2)} | {_mean(before, 'accuracy', 3)} |{' |' * 6}")
    for who in methods:
        mine = [row for row in results if row["who"] == who]
        if not mine:
            continue
        after, found = [row["after"] for row in mine], [row["found"] for row in mine if "found" in row]
        cells = [_mean(after, "perplexity", 2), _mean(after, "accuracy", 3)]
        cells += [_mean(found, kind, 3) if found else "" for kind in ("junk", *KINDS[1:])]
        lines.append(f"| {who} | {' | '.join([*cells, _mean(mine, 'seconds', 0), str(len(mine))])} |")
    machine = first["machine"]
    return "\n".join([
        f"## {first['parameters']:,} parameters, {first['steps']} steps\n",
        f"Batches of {first['batch']} texts of at most {first['length']} tokens; {first['examples']:,} texts, "
        f"{first['clean']} trusted ones, {first['test']} clean ones to test on.\n",
        *lines, "", verdict(results, methods), "",
        f"{machine['gpu'] or machine['cpu']}, beside other work; commit {first['commit'][:10]}.\n",
    ])  # fmt: skip


def verdict(results: Sequence[dict[str, Any]], methods: Sequence[str]) -> str:
    """Who is ahead of standard on the seeds of both, and what the oracle says about the number of steps."""
    known = {row["seed"] for row in results if row["who"] == "standard"}
    by = {(row["who"], row["seed"]): row["after"] for row in results if row["seed"] in known}
    ours = [who for who in methods if who not in ("standard", "oracle")]
    pairs = {who: [(row, by["standard", s]) for (w, s), row in by.items() if w == who] for who in (*ours, "oracle")}
    gains = {who: [theirs["perplexity"] - own["perplexity"] for own, theirs in each] for who, each in pairs.items()}
    best = max(ours, key=lambda who: float(np.mean(gains[who])) if gains[who] else -np.inf)
    words = 100 * np.mean([own["accuracy"] - theirs["accuracy"] for own, theirs in pairs[best]])
    spread = f" ± {np.std(gains[best]):.2f}" if len(gains[best]) > 1 else " (one seed)"
    said = [
        f"Seed by seed {best} is ahead of standard by most: {np.mean(gains[best]):.2f}{spread} less perplexity, and "
        f"{words:+.1f} points of the words predicted."
    ]
    if gains["oracle"] and np.mean(gains["oracle"]) + np.std(gains["oracle"]) < 0:
        said.append(
            "The oracle, which sees each of its fewer texts more often in as many steps, has a higher perplexity than "
            "standard: so many steps overfit, and part of what a method gains may be that it memorises less."
        )
    return " ".join(said)


def _mean(values: Sequence[dict[str, Any]], key: str, digits: int) -> str:
    numbers = [value[key] for value in values]
    spread = f" ± {np.std(numbers):.{digits}f}" if len(numbers) > 1 else ""
    return f"{np.mean(numbers):.{digits}f}{spread}"
