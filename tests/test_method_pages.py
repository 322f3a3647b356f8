"""Every method has a page: recipes and procedures one each in docs/methods, other kinds one for all of the kind."""

import re
from pathlib import Path

import pytest

from thresher.methods import KINDS, METHODS, methods

DOCS = Path(__file__).parent.parent / "docs"
PAGES = DOCS / "methods"
PAGE_OF_KIND = {"acquisition": "active.md", "weighting": "distillation.md"}  # one page names all methods of the kind
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
# What all pages in docs/methods share, in this order.
PARTS = {
    "a title": r"^# {name}: \S",
    "the idea, in a paragraph": r"^[^#\n`]{{80,}}",
    "the formula": r"^Formula[:,]",
    "when to use it": r"\b[Uu]se it\b",
    "the recipe, in a block that the tests run": r'^```python\n(?s:.*?)\bmethod\("{name}"\)',
    "where it was measured": r"^Measured: .*\]\(\.\./(?:results|theory)/[\w-]+\.md\)",
}


def test_every_kind_has_its_pages() -> None:
    assert {*PAGE_OF_KIND, "recipe", "procedure"} == set(KINDS)
    assert {page.stem for page in PAGES.glob("*.md")} == METHODS.keys(), "one page for each, and none for anything else"


@pytest.mark.parametrize("name", METHODS)
def test_a_page_has_all_parts_in_order(name: str) -> None:
    page, end = PAGES / f"{name}.md", 0
    assert page.exists(), f"write docs/methods/{name}.md: {', '.join(PARTS)}"
    text = page.read_text(encoding="utf-8")
    for part, pattern in PARTS.items():
        found = re.compile(pattern.format(name=re.escape(name)), re.MULTILINE).search(text, end)
        assert found, f"docs/methods/{name}.md lacks {part}, or has it in another place"
        end = found.start()


@pytest.mark.parametrize("page", sorted(PAGES.glob("*.md")), ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}, which is not there"


@pytest.mark.parametrize("kind", PAGE_OF_KIND)
def test_the_page_of_a_kind_names_all_of_it(kind: str) -> None:
    text = (DOCS / PAGE_OF_KIND[kind]).read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith(("- ", "| ", "  "))]
    for known in methods(kind):
        assert any(f"`{known.name}`" in row or row.startswith(f"| {known.name} |") for row in rows), known.name
