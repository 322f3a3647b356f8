"""Every method of these papers has a page in docs/methods that names it, and whatever the pages link to exists."""

import re
from pathlib import Path
from types import ModuleType

import pytest

from thresher.methods import METHODS, l2rw, prl

PAGES = Path(__file__).parent.parent / "docs" / "methods"


def made_in(recipes: ModuleType) -> list[str]:
    return sorted(name for name, known in METHODS.items() if known.make in vars(recipes).values())


OF_PRL, OF_L2RW = made_in(prl), [*made_in(l2rw), "clean-only", "s-model-conf"]
OF_CRUST = ["crust", "crust-facility", "mixup", "f-correction", "d2l", "incv", "t-revision", "dmi"]
WANTED = [
    (name, results)
    for names, results in ((OF_PRL, "prl-small"), (OF_L2RW, "l2rw-small"), (OF_CRUST, "crust-small"))
    for name in names
]
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


def test_all_methods_of_the_papers_are_looked_at() -> None:
    assert {"l2rw", "proportion", "resample", "hard-mining", "random-weights", "mentornet", "s-model"} <= set(OF_L2RW)
    assert {"standard", "huber", "spl", "prl-l", "prl-g", "co-prl-l", "decouple", "min-sgd"} <= set(OF_PRL)


@pytest.mark.parametrize(("name", "results"), WANTED)
def test_a_method_has_a_page(name: str, results: str) -> None:
    page = PAGES / f"{name}.md"
    assert page.exists(), f"write docs/methods/{name}.md: idea, formula, when to use it, our default, the results"
    text = page.read_text()
    assert text.startswith(f"# {name}: ")
    assert "Formula" in text
    assert f'method("{name}")' in text, "the page shows the recipe in a block that the tests run"
    assert f"../results/{results}.md" in text


@pytest.mark.parametrize("page", sorted(PAGES.glob("*.md")), ids=lambda page: page.stem)
def test_a_page_is_of_a_method_and_its_links_lead_somewhere(page: Path) -> None:
    assert page.stem in METHODS
    for target in LINK.findall(page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}, which is not there"
