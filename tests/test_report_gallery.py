"""The gallery in a real browser: it filters, sorts, pages, enlarges and hands over exactly what it shows."""

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from fake_run import write_fake_issues, write_fake_run
from torch import nn

from thresher import Examples, fit
from thresher.record.issues import Issues
from thresher.report import write_report

NAMES = ["constructor", "__proto__", "<b>", "a,b", '"quoted"', "=1+1", "toString", "né", "x" * 60, "nine"]


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Issues]:
    folder = write_fake_run(tmp_path_factory.mktemp("audit") / "run", epochs=4, files=True, class_names=NAMES)
    issues = write_fake_issues(folder, NAMES)
    return write_report([folder], folder / "report.html"), issues


@pytest.fixture
def page(browser: Any, audited: tuple[Path, Issues]) -> Iterator[Any]:
    """The report of an audit; nothing may be said in the console, and nothing asked of the network."""
    opened, said = browser.new_page(viewport={"width": 1280, "height": 900}, color_scheme="light"), []
    opened.on("console", lambda message: said.append(message.text))
    opened.on("pageerror", lambda error: said.append(str(error)))
    opened.on("request", lambda request: said.append(request.url) if request.url.startswith("http") else None)
    opened.goto(audited[0].as_uri())
    opened.wait_for_selector("html[data-galleries=ready]", state="attached")
    opened.wait_for_selector("html[data-charts=drawn]", state="attached")
    yield opened
    assert said == []
    opened.close()


def titles(page: Any) -> list[str]:
    """The paths of the cards that are shown."""
    return page.eval_on_selector_all(".card", "all => all.map(one => one.title)")  # type: ignore[no-any-return]


def downloaded(page: Any) -> list[dict[str, str]]:
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Download as CSV").click()
    text = Path(waiting.value.path()).read_text(encoding="utf-8-sig")
    return list(csv.DictReader(io.StringIO(text)))


def wanted(issues: Issues, **equal: str) -> list[dict[str, Any]]:
    rows = [row for row in issues.table.to_pylist() if row["is_issue"]]
    return [row for row in rows if all(row[name] == value for name, value in equal.items())]


def test_the_first_sentence_and_all_issues_worst_first(page: Any, audited: tuple[Path, Issues]) -> None:
    assert page.locator("h1").inner_text() == audited[1].headline()[:-1] + "; here are the worst."
    rows = wanted(audited[1])
    assert page.locator("[role=status]").inner_text() == f"{len(rows)} examples"
    assert titles(page) == [row["file"] for row in rows[:60]]
    seen = titles(page)
    while page.locator("[name=next]").first.is_enabled():
        page.locator("[name=next]").first.click()
        seen += titles(page)
    assert seen == [row["file"] for row in rows]


@pytest.mark.parametrize("column", ["label", "suggested", "reason"])
def test_filters_filter_and_the_download_holds_what_is_shown(
    page: Any, audited: tuple[Path, Issues], column: str
) -> None:
    for value in dict.fromkeys(row[column] for row in wanted(audited[1])):
        rows = wanted(audited[1], **{column: value})
        page.locator(f"[name={column}]").select_option(label=f"{value} ({len(rows)})")
        assert titles(page) == [row["file"] for row in rows[:60]]
    assert page.locator(".card .other").first.inner_text() == rows[0]["suggested"], "as it is, and no markup"
    page.locator("[name=high]").fill("0.1")
    rows = [row for row in rows if row["trust"] <= 0.1]
    page.locator("[name=sort]").select_option("path")
    rows.sort(key=lambda row: row["file"])
    assert titles(page) == [row["file"] for row in rows[:60]]
    given = downloaded(page)
    assert [row["file"] for row in given] == [row["file"] for row in rows]
    for told, row in zip(given, rows, strict=True):
        assert int(told["id"]) == row["id"]
        for name in ("label", "suggested", "reason"):
            assert told[name] == ("'" if row[name].startswith("=") else "") + row[name], "never a formula"
        for name in ("trust", "probability", "weight"):
            assert float(told[name]) == pytest.approx(row[name], rel=1e-3)
    page.get_by_role("button", name="Clear").click()
    assert page.locator("[role=status]").inner_text() == f"{len(wanted(audited[1]))} examples"


def test_the_matrix_the_classes_and_duplicates_lead_to_their_examples(page: Any, audited: tuple[Path, Issues]) -> None:
    cell = page.locator(".matrix td button").first
    given, suggested = cell.get_attribute("data-label"), cell.get_attribute("data-suggested")
    cell.click()
    rows = wanted(audited[1], label=given, suggested=suggested)
    page.wait_for_function(f"document.querySelectorAll('.card').length === {len(rows)}")
    assert titles(page) == [row["file"] for row in rows]
    page.locator(".bars button", has_text="__proto__").click()
    rows = wanted(audited[1], label="__proto__")
    page.wait_for_function(f"document.querySelectorAll('.card').length === {len(rows)}")
    page.locator(".groups button").nth(1).click()
    page.wait_for_function("document.querySelectorAll('.card').length === 3")
    assert {title.rpartition("/")[2] for title in titles(page)} == {"2.png", "3.png", "4.png"}
    assert len(downloaded(page)) == 3


def test_names_that_mean_something_to_a_browser_are_names(page: Any) -> None:
    squares = page.eval_on_selector_all(
        ".chart.square",
        "all => all.map(one => [...one.querySelectorAll('.role-axis-label text')].map(text => text.textContent))",
    )
    for labels in squares:
        for name in NAMES[:4]:
            assert labels.count(name) == 2, "of its row and of its column"
    recalls = page.locator("figure", has_text="Recall of each class")
    assert recalls.locator(".mark-rect path").count() == len(NAMES)
    heads = page.locator(".matrix tbody th").all_inner_texts()
    assert heads == NAMES


def test_the_keyboard_goes_through_the_examples(page: Any) -> None:
    shown = titles(page)
    focused = "document.activeElement.title"
    page.locator(".card").first.focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate(focused) == shown[1]
    page.keyboard.press("ArrowDown")
    below = shown.index(page.evaluate(focused))
    assert below > 4
    page.keyboard.press("Enter")
    path = page.locator("dialog .path")
    assert path.inner_text() == shown[below]
    page.keyboard.press("ArrowLeft")
    assert path.inner_text() == shown[below - 1]
    assert page.locator("dialog img").evaluate("one => one.naturalWidth") == 8
    assert page.locator("dialog .trace path").count() == 1
    page.keyboard.press("Escape")
    assert page.locator("dialog").is_hidden()
    page.wait_for_function(f"title => {focused} === title", arg=shown[below - 1])  # once its event was handled
    page.locator(".card").last.focus()
    page.keyboard.press("ArrowRight")
    assert titles(page)[0] not in shown, "the next page"
    page.locator(".card").first.click()
    page.locator("dialog [name=before]").click()
    assert path.inner_text() == shown[-1], "the page before"


def test_the_path_is_copied(browser: Any, audited: tuple[Path, Issues]) -> None:
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.goto(audited[0].as_uri())
    page.locator(".card").nth(2).click()
    page.locator("dialog [name=copy]").click()
    page.wait_for_selector("dialog [name=copy]:has-text('Copied')")
    assert page.evaluate("navigator.clipboard.readText()") == wanted(audited[1])[2]["file"]
    context.close()


def test_the_gallery_is_dark_where_the_page_is_and_fits_a_phone(page: Any) -> None:
    colours = """['.card', '.filters select', 'dialog'].map(
        one => getComputedStyle(document.querySelector(one)).backgroundColor)"""
    light = page.evaluate(colours)
    page.emulate_media(color_scheme="dark")
    dark = page.evaluate(colours)
    assert all(before != after for before, after in zip(light, dark, strict=True))
    page.set_viewport_size({"width": 390, "height": 844})
    page.wait_for_function("document.documentElement.scrollWidth <= 390")  # once the charts are drawn anew
    page.locator(".card").first.click()
    assert page.evaluate("document.querySelector('dialog').getBoundingClientRect().right") <= 390


@pytest.mark.parametrize("kind", [{"regression": 1}, {"pictures": False}, {"truth": False}])
def test_every_kind_of_run_has_a_gallery(browser: Any, tmp_path: Path, kind: dict[str, Any]) -> None:
    folder = write_fake_run(tmp_path / "run", epochs=1, **kind)
    if "regression" in kind:
        write_fake_issues(folder)
    page = browser.new_page()
    said: list[str] = []
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(write_report([folder], tmp_path / "report.html").as_uri())
    rows = downloaded(page)
    assert len(rows) == (
        len([1 for row in Issues.read(folder).table["is_issue"].to_pylist() if row]) if "regression" in kind else 600
    )
    assert next(iter(rows[0])) == "id"
    least = pq.read_table(folder / "examples.parquet").sort_by("trust")["id"].to_pylist()
    assert [int(row["id"]) for row in rows] == least[: len(rows)]
    page.locator(".card").first.click()
    assert ("x0" in page.locator("dialog").inner_text()) == ("pictures" in kind)
    assert said == []
    page.close()


class Tokens(nn.Module):
    """Predicts a token from itself alone."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(6, 4), nn.Linear(4, 6)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        outputs: torch.Tensor = self.head(self.words(ids))
        return outputs


def test_texts_are_sorted_by_their_agreement(browser: Any, tmp_path: Path) -> None:
    """A language model has no labels to show; the order is that of the ledger."""
    ids = torch.randint(0, 6, (20, 5), generator=torch.Generator().manual_seed(0))
    train, clean = Examples(ids, ids.roll(-1, 1)), Examples(ids[:4], ids[:4])
    run = fit("l2rw", Tokens, train, clean=clean, epochs=2, batch=10, device="cpu", out=tmp_path / "run")
    told, means = run.ledger.signals()
    page, said = browser.new_page(), []
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(write_report([tmp_path / "run"], tmp_path / "report.html").as_uri())
    for order, name in ((means.argsort(), "lowest"), (means.argsort(descending=True), "highest")):
        page.get_by_label("Sort by").select_option(label=f"{name} signal first")
        rows = downloaded(page)
        assert [int(row["id"]) for row in rows] == told[order].tolist()
        assert "label" not in rows[0]
        assert float(rows[0]["signal"]) == pytest.approx(float(means[order][0]), rel=1e-5)
    page.locator(".card").first.click()
    assert "signal, mean" in page.locator("dialog").inner_text()
    assert said == []
    page.close()


def test_fifty_thousand_examples_open_quickly(browser: Any, tmp_path: Path) -> None:
    folder = write_fake_run(tmp_path / "run", epochs=1, truth=False, count=1797)
    write_many(folder, 50_000)
    path = write_report([folder], tmp_path / "report.html")
    assert path.stat().st_size < 15e6
    page = browser.new_page()
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def worked() -> float:
        """How many seconds of a core the page has taken, which do not depend on what else the machine does."""
        told = session.send("Performance.getMetrics")["metrics"]
        return float(next(each["value"] for each in told if each["name"] == "TaskDuration"))

    page.goto(path.as_uri())
    page.wait_for_selector("html[data-galleries=ready]", state="attached")
    opened = worked()
    assert 0 < opened < 10
    assert page.locator(".card").count() <= 60
    before = worked()
    page.evaluate(
        """() => { const field = document.querySelector('[name=high]');
                   field.value = 0.5; field.dispatchEvent(new Event('input', {bubbles: true})); }"""
    )
    assert worked() - before < 2
    page.close()


def write_many(folder: Path, count: int) -> None:
    """Make the run one of so many examples, with files, and the audit of them."""
    import pyarrow as pa

    draws = np.random.default_rng(0)
    target = draws.integers(0, 10, count).astype(np.int32)
    columns = {"id": np.arange(count), "trust": draws.random(count).astype(np.float32), "target": target}
    files = [f"photos/train/class {label}/picture_{place:06d}.jpg" for place, label in enumerate(target)]
    true = np.where(draws.random(count) < 0.25, (target + 1) % 10, target)
    pq.write_table(pa.table({**columns, "file": files, "true_target": true}), folder / "examples.parquet")
    write_fake_issues(folder)
