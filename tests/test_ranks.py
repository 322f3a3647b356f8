"""Mean ranks and critical differences, and the page that is made of them."""

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
RANKS = runpy.run_path(str(ROOT / "benchmarks" / "ranks.py"))


def test_ranks_are_means_over_cells_with_ties_shared() -> None:
    cells = {"a": {"x": 0.9, "y": 0.5, "z": 0.5, "only-here": 1.0}, "b": {"x": 0.1, "y": 0.2, "z": 0.3}}
    assert RANKS["mean_ranks"](cells) == {"z": 1.75, "x": 2.0, "y": 2.25}


def test_the_critical_difference_is_demsars() -> None:
    assert RANKS["critical_difference"](4, 14) == pytest.approx(2.569 * (4 * 5 / (6 * 14)) ** 0.5, rel=1e-3)
