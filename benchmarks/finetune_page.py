"""The page of benchmarks/finetune.py, from its results."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from finetune_texts import KINDS

HEADS = ["", "perplexity", "words predicted", "junk found", *KINDS[1:], "seconds"]
PAGE = """# Fine-tuning on texts of which a third is junk

<!-- Made from results/finetune.jsonl by `python benchmarks/finetune.py results/finetune.jsonl --show`. -->

A pretrained Llama is trained on questions and answers of GSM8K, of which a third is junk of three kinds; further texts
are trusted, and only l2rw sees them. Perplexity and words predicted are on clean answers. Junk found is the AUROC of
what the ledger kept: the agreement with the trusted texts for l2rw, the ranked signal for prl-l and prl-g, the loss for
the others; beside it, each kind of junk against the clean texts alone. `selected` is reclaim's selection, made of the
averaged model's output gradients once an epoch. The oracle is trained without the junk, for as many steps. Means and
standard deviations over the seeds.
"""


def page(results: Sequence[dict[str, Any]], methods: Sequence[str]) -> str:
    """The stored results as a page: one table for each model, the larger one first."""
    sizes = sorted({row["parameters"] for row in results}, reverse=True)
    return "\n".join([PAGE, *(part([r for r in results if r["parameters"] == size], methods) for size in sizes)])


def part(results: Sequence[dict[str, Any]], methods: Sequence[str]) -> str:
    first, seeds = results[0], sorted({row["seed"] for row in results})
    before = [row["before"] for row in results if row["who"] == "standard"]
    lines = [f"| {' | '.join(HEADS)} |", "|---" * len(HEADS) + "|"]
    lines.append(f"| before | {_mean(before, 'perplexity', 2)} | {_mean(before, 'accuracy', 3)} |{' |' * 5}")
    for who in methods:
        mine = [row for row in results if row["who"] == who]
        if not mine:
            continue
        after, found = [row["after"] for row in mine], [row["found"] for row in mine if "found" in row]
        cells = [_mean(after, "perplexity", 2), _mean(after, "accuracy", 3)]
        cells += [_mean(found, kind, 3) if found else "" for kind in ("junk", *KINDS[1:])]
        lines.append(f"| {who} | {' | '.join([*cells, _mean(mine, 'seconds', 0)])} |")
    machine = first["machine"]
    return "\n".join([
        f"## {first['parameters']:,} parameters\n",
        f"{first['steps']} steps of {first['batch']} texts of at most {first['length']} tokens; {first['examples']:,} "
        f"texts, {first['clean']} trusted ones, {first['test']} clean ones to test on, {len(seeds)} seeds.\n",
        *lines, "",
        f"{machine['gpu'] or machine['cpu']}, beside other work; commit {first['commit'][:10]}.\n",
    ])  # fmt: skip


def _mean(values: Sequence[dict[str, Any]], key: str, digits: int) -> str:
    numbers = [value[key] for value in values]
    return f"{np.mean(numbers):.{digits}f} ± {np.std(numbers):.{digits}f}"
