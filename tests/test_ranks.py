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


def test_none_is_told_apart_where_friedmans_test_finds_no_difference() -> None:
    """Of nine methods one is mostly first and one always eighth, and the others take turns at the other places."""
    cells = {}
    for turn, best in enumerate((1, 1, 2, 2)):
        places = [place for place in range(1, 10) if place not in (best, 8)]
        others = zip("bcdefgh", places[2 * turn :] + places[: 2 * turn], strict=True)
        cells[str(turn)] = {name: -float(place) for name, place in (("a", best), ("i", 8), *others)}
    ranks = RANKS["mean_ranks"](cells)
    assert ranks["i"] - ranks["a"] > RANKS["critical_difference"](9, 4)
    assert RANKS["chance_of_no_difference"](cells) > 0.05
    assert RANKS["level_with_the_first"](cells) == list(ranks)


def test_a_method_far_behind_the_first_is_told_apart() -> None:
    cells = {str(turn): {"x": 0.3, "y": 0.2, "z": 0.1} for turn in range(8)}
    assert RANKS["chance_of_no_difference"](cells) == pytest.approx(3.4e-4, rel=0.02)  # χ² is 16 with 2 degrees
    assert RANKS["level_with_the_first"](cells) == ["x", "y"], "the critical difference is 1.17"


def test_scores_are_of_the_seeds_and_methods_that_all_have() -> None:
    cells = {
        "a": {"x": {0: 0.1, 1: 0.3, 2: 0.9}, "y": {0: 0.2, 1: 0.4}, "only-here": {0: 1.0}},
        "b": {"x": {1: 0.5}, "y": {0: 0.9, 1: 0.7}},
    }
    assert RANKS["scores"](cells) == {
        "a": pytest.approx({"x": 0.2, "y": 0.3}),
        "b": pytest.approx({"x": 0.5, "y": 0.7}),
    }


def test_what_two_suites_ask_alike_is_one_cell() -> None:
    asked = {"cell": "digits-symmetric-50", "settings": {"data": "digits", "corruption": "symmetric:0.5"}}
    of_method = {**asked, "settings": {**asked["settings"], "method": {"Recipe": {"clip": 1.0}}}}
    other = {**asked, "settings": {**asked["settings"], "corruption": "symmetric:0.2"}}
    question = RANKS["question"]
    assert question(asked) == question(of_method) != question(other)


def test_without_clean_examples_every_method_is_ranked_or_the_cell_is_left_out() -> None:
    for title, cells in RANKS["groups"](ROOT / "results").items():
        if title.startswith("Without clean examples"):
            assert all(set(RANKS["RANKED"]) <= methods.keys() for methods in cells.values())
