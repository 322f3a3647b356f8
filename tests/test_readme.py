"""The README speaks of what is there."""

from pathlib import Path
from statistics import fmean

import pytest

from thresher.bench.run.results import read

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_it_is_short() -> None:
    assert README.count("\n") <= 120


REACHED = [
    ("reclaim-paper", "cifar10n-worse", "standard-short", "reclaim"),
    ("prl-paper", "cifar10-pairflip-45", "standard", "co-prl-l"),
    ("l2rw-paper", "mnist-imbalance-200", "standard", "l2rw"),
    ("distil-paper", "cifar10-7500-entropy", "standard", "composition"),
    ("active-paper", "mlp-blank", "random", "s-badge"),
]


ELSEWHERE = {"standard-short": ("inputs-paper", "cifar10n-worse-in-200-epochs")}  # in 30 epochs


def scores(file: str, cell: str, method: str) -> list[float]:
    file, cell = ELSEWHERE.get(method, (file, cell))
    rows = read(ROOT / "results" / f"{file}.jsonl")[0]
    return [100 * row["last"] for row in rows if (row["cell"], row["method"]) == (cell, method)]


@pytest.mark.parametrize(("file", "cell", "plain", "ours"), REACHED, ids=[row[0] for row in REACHED])
def test_the_figures_are_those_that_are_stored(file: str, cell: str, plain: str, ours: str) -> None:
    without, with_ = (scores(file, cell, name) for name in (plain, ours))
    seeds = f"{len(with_)}" + ("" if len(without) == len(with_) else f" ({len(without)} plainly)")
    assert f"| {fmean(without):.1f} | {fmean(with_):.1f} (`{ours}`) | {seeds} |" in README


def test_the_figures_of_simpler_ways_are_those_that_are_stored() -> None:
    tuned = fmean(scores("l2rw-paper", "mnist-imbalance-200", "standard+ft"))
    plain = fmean(scores("distil-paper", "cifar10-7500-entropy", "unweighted"))
    text = " ".join(README.split())
    assert f"the ten clean examples alone has {tuned:.1f}," in text
    assert f"every label of the teacher counts the same has {plain:.1f}." in text
