"""A page of results is what `thresher bench show` makes of the stored file, and nothing else."""

import re
from pathlib import Path

import pytest

from thresher.bench.pages.page import markdown
from thresher.bench.run.results import read, results_file
from thresher.bench.suites import SUITES

ROOT = Path(__file__).parent.parent
PAGES = ROOT / "docs" / "results"
PICTURE = re.compile(r"^!\[(.*)\]\((.*)\)$", re.MULTILINE)
STORED = [
    (suite.name, scale)
    for suite in SUITES.values()
    for scale in suite.scales
    if results_file(ROOT / "results", suite.name, scale).exists() or (PAGES / f"{suite.name}-{scale}.md").exists()
]


@pytest.mark.parametrize(("suite", "scale"), STORED)
def test_a_page_says_what_is_stored(suite: str, scale: str) -> None:
    page, source = PAGES / f"{suite}-{scale}.md", results_file(Path("results"), suite, scale)
    assert page.exists(), f"{source} has no page: make pages"
    text = page.read_text(encoding="utf-8")
    pictures = {name: words for words, name in PICTURE.findall(text)}
    assert [name for name in pictures if not (PAGES / name).exists()] == []
    stored, damaged = read(ROOT / source)
    assert damaged == 0
    assert text == markdown(SUITES[suite], scale, stored, source, pictures), f"{page.name} is old: make pages"


def test_there_are_pages_to_hold_to_it() -> None:
    assert len(STORED) >= 10
