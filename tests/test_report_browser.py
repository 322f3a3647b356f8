"""The report in a real browser, opened from a file: it draws everything, asks for nothing and fits the window."""

import re
from pathlib import Path
from typing import Any

import pytest
from fake_run import write_fake_run

from thresher.report import write_report

LONG_NAMES = [f"a rather long <b>class</b> name, number {digit}" for digit in range(10)]
PAGES: dict[str, list[dict[str, Any]]] = {
    "one run": [{}],
    "several runs": [{"method": "standard"}, {"method": "l2rw"}, {"method": "a-method-with-quite-a-long-name" * 2}],
    "students": [{"method": "unweighted", "teacher": True}, {"method": "debias", "teacher": True}],
    "regression": [{"regression": 3}],
    "table rows and long names": [{"pictures": False, "class_names": LONG_NAMES}],
    "pictures and long names": [{"class_names": LONG_NAMES}],
}


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    written = {}
    for name, runs in PAGES.items():
        folder = tmp_path_factory.mktemp("page")
        folders = [write_fake_run(folder / str(place), epochs=5, **run) for place, run in enumerate(runs)]
        written[name] = write_report(folders, folder / "report.html")
    return written


def opened(browser: Any, path: Path, width: int) -> tuple[Any, list[str], list[str]]:
    """The page when its charts are drawn, what the console said, and every address that was asked for."""
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme="light")
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-charts=drawn]", state="attached", timeout=120_000)
    return page, said, asked


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("name", PAGES)
def test_the_page_draws_everything_and_fits(browser: Any, pages: dict[str, Path], name: str, width: int) -> None:
    page, said, asked = opened(browser, pages[name], width)
    assert said == []
    assert [address for address in asked if not address.startswith("data:")] == [pages[name].as_uri()]
    figures = page.locator("figure").count()
    each = {"regression": 3, "students": 7 + 2}.get(name, 7)  # weights of a teacher's labels, and by both confidences
    assert figures == 4 + (2 if name == "students" else 0) + each * len(PAGES[name])
    drawn = page.eval_on_selector_all("figure", "all => all.map(one => one.querySelectorAll('svg path').length)")
    assert len(drawn) == figures
    assert min(drawn) > 0
    # A chart that grew out of its card would cover its neighbour.
    assert page.eval_on_selector_all(
        "figure",
        """all => all.every(one => {
            const [card, chart] = [one.getBoundingClientRect(), one.querySelector('svg').getBoundingClientRect()];
            return chart.left >= card.left && chart.right <= card.right + 1 && chart.bottom <= card.bottom + 1;
        })""",
    )
    widths = page.eval_on_selector_all(".examples img", "all => all.map(one => one.complete ? one.naturalWidth : 0)")
    assert len(widths) == 40 * (0 if name == "table rows and long names" else len(PAGES[name]))
    assert all(natural > 0 for natural in widths)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.close()


def test_pointing_at_a_chart_shows_its_values(browser: Any, pages: dict[str, Path]) -> None:
    page, said, _ = opened(browser, pages["pictures and long names"], 1280)
    tooltip = page.locator("#vg-tooltip-element")
    page.locator(".chart.square svg .mark-rect path").first.hover(position={"x": 4, "y": 4})
    page.wait_for_selector("#vg-tooltip-element.visible")
    assert "a rather long <b>class</b> name, number 0" in tooltip.inner_text()
    assert tooltip.locator("b").count() == 0
    for chart in range(4):  # the lines of training
        point = page.locator(f"#chart-{chart} svg .mark-symbol.role-mark path").nth(2)
        point.hover(force=True)
        page.wait_for_function("document.querySelector('#vg-tooltip-element.visible')?.innerText.includes('epoch')")
        words = tooltip.inner_text()
        assert "undefined" not in words
        assert re.search(r"run:?\s+prl-l", words)
        assert re.search(r"epoch:?\s+[1-5]\b", words)
    assert said == []
    page.close()


def test_the_page_follows_the_dark_theme(browser: Any, pages: dict[str, Path]) -> None:
    page, said, _ = opened(browser, pages["one run"], 1280)
    background = "getComputedStyle(document.body).backgroundColor"
    label = "document.querySelector('.chart svg text').getAttribute('fill')"
    light = page.evaluate(background), page.evaluate(label)
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(f"{label} !== '{light[1]}'")
    assert page.evaluate(background) != light[0]
    assert page.locator(".chart > svg, .chart svg.marks").count() == 11
    assert said == []
    page.close()
