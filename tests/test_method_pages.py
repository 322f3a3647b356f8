"""Every method of every kind has a page in docs/methods, made of the same parts in the same order."""

import re
from pathlib import Path

import pytest

from thresher.methods import METHODS, methods
from website.methods import method_parts
from website.stored import baseline_of, beside_baseline, costs, stored_rows

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = DOCS / "methods"
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
EVERY = {known.name: known for known in methods()}
PAGE_OF_KIND = {"acquisition": "active.md", "weighting": "distillation.md"}  # a guide that names all of the kind
PARTS = ("Idea", "Formula", "Recipe", "When", "Details", "Cost", "The paper and ours", "What it needs")
OPTIONAL = "Details"
SHAPES = {  # what a part holds, beside some text
    "Idea": r"[^#\n`]{80,}",
    "Formula": r"\S",
    "Recipe": r"^```python\n(?s:.*?)\bmethod\(\"{name}\"\)",
    "When": r"\b[Uu]se it\b",
    "Details": r"\S",
    "Cost": r"(?:\d×|: 1\.|No stored result)",
    "The paper and ours": r"(?:±|\| \d|No (?:suite|stored result))",
    "What it needs": r"^- \S",
}


def parts_of(name: str) -> dict[str, str]:
    """The parts of a method's page as the site shows it, by their headings."""
    written = (PAGES / f"{name}.md").read_text(encoding="utf-8")
    pieces = re.split(r"^## (.+)\n", written + method_parts(ROOT, f"methods/{name}.md"), flags=re.MULTILINE)
    assert pieces[0].startswith(f"# {name}: "), "the title is the name and what it does"
    return dict(zip(pieces[1::2], pieces[2::2], strict=True))


def test_every_method_has_a_page_and_nothing_else_has() -> None:
    assert {page.stem for page in PAGES.glob("*.md")} - {"README"} == EVERY.keys()


@pytest.mark.parametrize("name", EVERY)
def test_a_page_has_all_parts_in_order(name: str) -> None:
    parts = parts_of(name)
    assert [*parts] == [part for part in PARTS if part != OPTIONAL or part in parts]
    for part, text in parts.items():
        pattern = SHAPES[part].replace("{name}", re.escape(name))
        assert re.search(pattern, text, re.MULTILINE), f"docs/methods/{name}.md: the part {part} lacks {pattern}"
    assert re.search(r"^Measured: ", parts.get("Details", parts["When"]), re.MULTILINE), "where it was measured"


@pytest.mark.parametrize("name", EVERY)
def test_the_table_of_methods_has_each(name: str) -> None:
    method = EVERY[name]
    assert f"| [{name}]({name}.md) | {method.summary} | {method.paper} |" in (PAGES / "README.md").read_text("utf-8")


def test_the_table_of_methods_has_no_other() -> None:
    rows = [line for line in (PAGES / "README.md").read_text("utf-8").splitlines() if line.startswith("| [")]
    assert len(rows) == len(EVERY)


@pytest.mark.parametrize("page", sorted(PAGES.glob("*.md")), ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}, which is not there"


@pytest.mark.parametrize("kind", PAGE_OF_KIND)
def test_the_guide_of_a_kind_names_all_of_it(kind: str) -> None:
    text = (DOCS / PAGE_OF_KIND[kind]).read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith(("- ", "| ", "  "))]
    for known in methods(kind):
        assert any(f"`{known.name}`" in row or row.startswith(f"| {known.name} |") for row in rows), known.name


def test_a_printed_number_stands_beside_ours() -> None:
    row = next(each.row for each in stored_rows(ROOT) if each.method == "co-prl-l" and each.row.paper and each.row.last)
    assert row.paper is not None
    assert row.last is not None
    text = method_parts(ROOT, "methods/co-prl-l.md")
    line = next(line for line in text.splitlines() if line.startswith(f"| [{row.cell.name}]"))
    assert f"{row.paper.value:g}" in line
    assert f"{row.last.value:.1f}" in line


@pytest.mark.parametrize("name", ["prl-l", "co-teaching", "badge", "fidelity"])
def test_costs_are_ratios_to_the_baseline_on_the_same_machine(name: str) -> None:
    pairs = [(own, plain) for own, plain in beside_baseline(ROOT, name) if own.machine == plain.machine == "a CPU"]
    ratios = [own.row.seconds / plain.row.seconds for own, plain in pairs if own.row.seconds and plain.row.seconds]
    cost = costs(ROOT, name)["a CPU"]
    assert (cost.least, cost.most, cost.cells) == (min(ratios), max(ratios), len(ratios))
    assert {plain.method for _, plain in pairs} == {baseline_of(name)}


def test_two_networks_cost_about_twice_as_much() -> None:
    assert 1.5 < costs(ROOT, "co-teaching")["a CPU"].middle < 3 < 10 * costs(ROOT, "prl-l")["a CPU"].middle
    assert METHODS["co-teaching"].needs == ("noise_rate", "model factory")
