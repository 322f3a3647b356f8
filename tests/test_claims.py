"""What the suites say that papers conclude: it is in the papers' own tables, and nothing of those is left out."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from statistics import fmean

import pytest

from thresher.bench.compare.claims import averages_table, claims_table
from thresher.bench.compare.rows import Mean, Row
from thresher.bench.definition.grid import Cell
from thresher.bench.definition.suite import Claim, Suite
from thresher.bench.run.identity import key_of_job
from thresher.bench.run.jobs import jobs_of
from thresher.bench.suites import SUITES

OWN = {  # the methods of each paper, as its tables have them
    "prl": ("prl-l", "co-prl-l", "prl-g"),
    "l2rw": ("l2rw", "l2rw-inside"),
    "crust": ("crust", "crust-released"),
    "distil": ("debias", "debias-hard", "vid-debias", "composition"),
    "distil-temperatures": ("debias",),
    "active": ("s-badge",),
}
# PRL(L) has one network and Co-teaching two; forms of the same method are not set against each other.
NOT_COMPARED = {("prl-l", "co-teaching"), ("prl-l", "prl-g"), ("co-prl-l", "prl-g"), ("prl-l-ramp", "prl-l")}
PRINTED = [suite for suite in SUITES.values() if suite.claims and suite.published]


def pairs(claim: Claim) -> Iterator[tuple[str, str]]:
    return product(claim.better, claim.worse)


def printed_averages(suite: Suite, claim: Claim, better: str, worse: str) -> tuple[float, float] | None:
    """The paper's averages over the cells in which it prints both."""
    cells = {cell.name: cell for scale in suite.scales.values() for cell in scale.cells}
    both = [
        name
        for name, cell in cells.items()
        if claim.applies_to(cell) and {(name, better), (name, worse)} <= suite.published.keys()
    ]
    if not both:
        return None
    high, low = (fmean(suite.published[name, method].value for name in both) for method in (better, worse))
    return high, low


@pytest.mark.parametrize("suite", PRINTED, ids=lambda suite: suite.name)
def test_every_claim_comes_out_this_way_in_the_numbers_that_the_paper_prints(suite: Suite) -> None:
    checked = 0
    for claim in suite.claims:
        for better, worse in pairs(claim):
            if (found := printed_averages(suite, claim, better, worse)) is not None:
                assert found[0] > found[1], f"{better} is not above {worse} in the paper: {found}"
                checked += 1
    assert checked


@pytest.mark.parametrize("suite", [SUITES[name] for name in OWN], ids=lambda suite: suite.name)
def test_no_comparison_of_a_papers_table_is_left_out(suite: Suite) -> None:
    own = OWN[suite.name]
    claimed = {pair for claim in suite.claims for pair in pairs(claim)}
    forms = {"l2rw-inside": "l2rw", "crust-released": "crust"}
    by_cell: dict[str, set[str]] = {}
    for cell, method in suite.published:
        by_cell.setdefault(cell, set()).add(method)
    for methods in by_cell.values():
        for mine, other in product(methods & set(own), methods - {"spl-ramp", "prl-l-ramp"}):
            same = forms.get(mine, mine) == forms.get(other, other)
            if other != "teacher" and mine.endswith("-hard") != other.endswith("-hard"):
                continue  # two tables
            apart = {(mine, other), (other, mine)} & NOT_COMPARED
            assert same or apart or {(mine, other), (other, mine)} & claimed, f"{mine} beside {other}"


def test_a_claim_is_only_of_what_a_paper_compares() -> None:
    ours = {"crust-central", "debias-consistent", "reclaim", "bootstrap-soft"}
    for suite in SUITES.values():
        named = {name for claim in suite.claims for pair in pairs(claim) for name in pair}
        assert not named & ours
        assert all(entry.drawn for entry in suite.methods if entry.name in named), "rows beside the paper's"
    assert not SUITES["reclaim"].claims


def test_a_part_of_svhn_has_the_papers_numbers_and_counts_only_where_the_whole_was_not_run() -> None:
    suite = SUITES["active"]
    claim = next(claim for claim in suite.claims if not claim.corruptions)
    whole, part = (
        next(job for job in jobs_of(suite, "paper", cells=[cell], methods=["margin"], seeds=1))
        for cell in ("mlp-clean", "mlp-clean-third")
    )
    assert part.cell.part_of == whole.cell.name
    assert key_of_job(part) != key_of_job(whole)
    parts, wholes = ([row_of(suite, job.cell, method) for method in ("margin", "confidence")] for job in (part, whole))
    assert [row.paper for row in parts] == [row.paper for row in wholes] != [None, None]
    claims = [replace(claim, better=("margin",))]
    (line,) = claims_table(suite, parts, claims)
    assert line[3] == "1"
    (line,) = claims_table(suite, [*parts, *wholes], claims)
    assert line[3] == "1", "the whole, and not both"
    heads, _ = averages_table(suite, [*parts, *wholes])
    assert heads[:3] == ["method", "svhn, in part (1 cell)", "svhn (1 cell)"]


def row_of(suite: Suite, cell: Cell, method: str) -> Row:
    """Made-up scores of one seed."""
    entry = next(entry for entry in suite.methods if entry.name == method)
    score = 0.5 if method == "margin" else 0.4
    results = ({"seed": 0, "metric": "accuracy", "last": score},)
    last = Mean(100 * score, None)
    paper = suite.published[cell.numbers_of, method]
    return Row(cell, entry, paper, last, last, None, None, 1.0, 1, 1, (), results)


def test_a_claim_may_be_of_some_corruptions_and_cells_only() -> None:
    cells = SUITES["l2rw"].scale("small").cells
    of_table = Claim(("l2rw",), ("standard",), corruptions=("backgroundflip",), cells=("digits-background-40",))
    assert [cell.name for cell in cells if of_table.applies_to(cell)] == ["digits-background-40"]
    assert len([cell for cell in cells if Claim(("l2rw",), (), corruptions=("imbalance",)).applies_to(cell)]) == 4
