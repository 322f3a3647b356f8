"""The README speaks of what is there."""

from pathlib import Path
from statistics import fmean, stdev

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
    ("active-paper", "mlp-blank-third", "random", "s-badge"),
]


ELSEWHERE = {"standard-short": ("inputs-paper", "cifar10n-worse-in-60-epochs")}  # in 30 epochs, the better of two runs


def scores(file: str, cell: str, method: str, which: str = "last") -> list[float]:
    file, cell = ELSEWHERE.get(method, (file, cell))
    rows = read(ROOT / "results" / f"{file}.jsonl")[0]
    return [100 * row[which] for row in rows if (row["cell"], row["method"]) == (cell, method)]


def words(values: list[float]) -> str:
    """Mean and spread over seeds, of which one has none."""
    return f"{fmean(values):.1f}" + (f" ± {stdev(values):.1f}" if len(values) > 1 else "")


@pytest.mark.parametrize(("file", "cell", "plain", "ours"), REACHED, ids=[row[0] for row in REACHED])
def test_the_figures_are_those_that_are_stored(file: str, cell: str, plain: str, ours: str) -> None:
    without, stopped, with_ = scores(file, cell, plain), scores(file, cell, plain, "best"), scores(file, cell, ours)
    row = f"| {words(without)} | {words(stopped)} | {words(with_)} (`{ours}`) | {len(without)}, {len(with_)} |"
    assert row in README, row


def test_the_figures_of_simpler_ways_are_those_that_are_stored() -> None:
    tuned = fmean(scores("l2rw-paper", "mnist-imbalance-200", "standard+ft"))
    plain = fmean(scores("distil-paper", "cifar10-7500-entropy", "unweighted"))
    text = " ".join(README.split())
    assert f"the ten clean examples alone has {tuned:.1f}," in text
    assert f"every label of the teacher counts the same has {plain:.1f}." in text
