"""The table of bounds: every bound that a page of theory shows is in it, and none is broken."""

import re
import runpy
from pathlib import Path

import pytest

THEORY = Path(__file__).parent.parent / "docs" / "theory"
ROWS = re.findall(
    r"^\| ([^|]+) \| ([^|]+) \| ([-+.e\d]+) \| ([-+.e\d]+) \| [-+.e\d]+ \|$",
    (THEORY / "bounds.md").read_text(encoding="utf-8"),
    re.M,
)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[1])
def test_both_sides_are_in_order(row: tuple[str, str, str, str]) -> None:
    assert float(row[2]) <= float(row[3]) * 1.001


def test_the_table_is_what_the_pages_print() -> None:
    """Up to rounding, which differs between processors."""
    made = runpy.run_path(str(THEORY.parent.parent / "benchmarks" / "theory.py"))
    printed = [
        (paper, *line.split(" | "))
        for page, paper in made["PAGES"].items()
        for line in made["bounds"](THEORY / f"{page}.md")
    ]
    assert [row[:2] for row in printed] == [row[:2] for row in ROWS]
    for made_now, stored in zip(printed, ROWS, strict=True):
        assert [float(side) for side in made_now[2:]] == pytest.approx([float(side) for side in stored[2:]], rel=0.02)


@pytest.mark.parametrize("page", ["prl", "l2rw", "crust", "distillation"])
def test_every_bound_of_a_page_is_in_the_table(page: str) -> None:
    code = (THEORY / f"{page}.md").read_text(encoding="utf-8")
    shown = re.findall(r"show\(\s*f?\"([^\"{]+)", code)
    assert shown
    listed = [statement for _, statement, _, _ in ROWS]
    assert [start for start in shown if not any(each.startswith(start) for each in listed)] == []
