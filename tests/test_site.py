"""The site: the code of every page runs, the build has no warning, and a browser can read and search it offline."""

import html
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from website.api import has_example, public_names
from website.executed import code_blocks, outcomes_of, run_page, with_outcomes
from website.speed import CONTESTS
from website.speed_goals import all_goals, goals_part

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
MODULES = ["thresher"] + [f"thresher.{page.stem}" for page in sorted((ROOT / "docs" / "api").glob("[a-z]*.md"))]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the code of pages gave, so that each runs once."""
    return tmp_path_factory.mktemp("kept")


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", [page for page in PAGES if code_blocks(page.read_text("utf-8"))], ids=name_of)
def test_code_in_pages_runs(page: Path, kept: Path) -> None:
    outcomes_of(page.read_text(encoding="utf-8"), name_of(page), kept)


@pytest.fixture(scope="module")
def site(kept: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` does it."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    told = {"THRESHER_SITE_KEPT": str(kept), "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, cwd=ROOT, env=os.environ | told, capture_output=True, text=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, ""), done.stderr[-3000:]
    return folder


def test_pages_ask_for_nothing_from_elsewhere(site: Path) -> None:
    loading = re.compile(
        r"<(?:script|img|iframe|link rel=\"(?:stylesheet|icon|preconnect)\")[^>]*(?:src|href)=\"?(https?:)?//"
    )
    assert [page.name for page in site.rglob("*.html") if loading.search(page.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize(
    ("page", "shown"),
    [
        ("index.html", "labels look wrong"),
        ("index.html", "of 64 examples count in this step"),
        ("your-data.html", "right labels: 90.0% before"),
        ("guides/own-parts.html", "believed by the average: 0."),
        ("guides/bad-targets.html", "bad-targets-trust-by-target.svg"),
        ("guides/demo.html", 'src="demo-report.html"'),
        ("methods/co-prl-l.html", "The paper and ours"),
        ("which-method.html", "which-classes-cost.svg"),
        ("speed.html", "speed-facility-growth.svg"),
        ("api/rules.html", "KeepSmallest"),
        ("changelog.html", "Unreleased"),
    ],
)
def test_the_site_shows_what_was_run_and_made(site: Path, page: str, shown: str) -> None:
    text = re.sub(r"<[^>]*>", lambda tag: tag[0] if "src=" in tag[0] else "", (site / page).read_text(encoding="utf-8"))
    assert shown in text


GUIDES_BY_JOB = (
    "your-data", "guides/bad-targets", "guides/rare-classes", "distillation", "active", "guides/embeddings",
    "guides/own-parts",
)  # fmt: skip


@pytest.mark.parametrize("guide", GUIDES_BY_JOB)
def test_guides_show_what_they_printed_and_drew(site: Path, guide: str) -> None:
    text = (site / f"{guide}.html").read_text(encoding="utf-8")
    assert len(re.findall(r'<div class="output ', text)) >= 2
    assert re.search(rf'<img [^>]*src="{Path(guide).name}-[^"]+\.(?:svg|png)"', text)


def test_pictures_and_the_report_are_there(site: Path) -> None:
    for page in site.rglob("*.html"):
        if page.name.endswith("-report.html"):
            continue
        for name in re.findall(r'<(?:img|iframe)[^>]* src="([^":]+)"', page.read_text(encoding="utf-8")):
            assert (page.parent / name).exists(), f"{page.name}: {name}"
    assert (site / "guides" / "demo-report.html").stat().st_size > 100_000


def test_narrow_pictures_are_scaled_to_a_phone_and_wide_ones_scroll(site: Path) -> None:
    text = (site / "which-method.html").read_text(encoding="utf-8")
    assert re.search(r'<img [^>]*class="fits" src="which-classes\.svg"', text)
    assert not re.search(r'<img [^>]*class="fits" src="which-classes-cost\.svg"', text)


def test_the_reference_shows_public_names_only(site: Path) -> None:
    for page in (site / "api").glob("*.html"):
        shown = re.findall(r'<h[345] id="(thresher[\w.]*)"', page.read_text(encoding="utf-8"))
        assert shown
        assert [name for name in shown if re.search(r"\._", name)] == []


def test_the_reference_shows_what_classes_and_functions_take(site: Path) -> None:
    words = re.sub(r"<[^>]*>", "", (site / "api" / "rules.html").read_text(encoding="utf-8"))
    text = " ".join(html.unescape(words).split())
    assert re.search(r"KeepAbove\( ?by: Signal, bound: float \| Schedule ?\)", text), "a dataclass and its fields"
    assert re.search(r"facility_location\( ?embeddings: Tensor, count: int ?\) -> Coreset", text), "types of a function"


@pytest.mark.parametrize("width", [1280, 390])
def test_pages_fit_the_window_and_ask_for_nothing(site: Path, browser: Any, width: int) -> None:
    page, asked, errors = browser.new_page(viewport={"width": width, "height": 800}), list[str](), list[str]()
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    for name in ("index", "which-method", "speed", "methods/co-prl-l", "api/rules", "guides/demo", "results/prl-small"):
        page.goto((site / f"{name}.html").as_uri())
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{name} is wider than {width}"
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
    assert errors == []
    page.close()


def test_search_works_without_a_server(site: Path, browser: Any) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.goto((site / "index.html").as_uri())
    page.click("[data-md-component=search-query]")
    page.keyboard.type("facility location")
    page.wait_for_selector(".md-search-result__item", timeout=60_000)
    assert "acility location" in page.inner_text("[data-md-component=search-result]")
    page.close()


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_has_an_example(module: str) -> None:
    assert [name for name in public_names(module) if not has_example(ROOT, module, name)] == []


def test_a_page_shows_what_its_blocks_print_and_save() -> None:
    text = (
        "# Title\n\n```python\na = 2\nprint(a)\n```\n\n```text\nnot run\n```\n\n```sh\nthresher --version\n```\n\n"
        "```python\nfrom pathlib import Path\nPath('a-plot.svg').write_text('<svg/>')\nprint(a + 1)\n```\n"
    )
    outcomes = run_page(text, "page")
    assert [each.printed.split()[0] for each in outcomes] == ["2", "thresher", "3"]
    assert outcomes[2].files == {"a-plot.svg": b"<svg/>"}
    shown = with_outcomes(text, outcomes, "page")
    assert shown.index("print(a)") < shown.index("\n2\n") < shown.index("not run") < shown.index("\n3\n")
    assert "![a plot](page-a-plot.svg)" in shown


def test_code_that_fails_names_the_line_of_the_page() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        run_page("# Title\n\n```python\na = 1\n1 / 0\n```\n", "broken.md")
    assert caught.traceback[-1].lineno == 4


def test_other_programs_are_refused() -> None:
    with pytest.raises(ValueError, match="no thresher command"):
        run_page("```sh\nrm -r data\n```\n", "page")


def test_outcomes_are_kept_until_the_code_changes(tmp_path: Path) -> None:
    first = outcomes_of("```python\nimport time\nprint(time.time_ns())\n```\n", "a.md", tmp_path)
    again = outcomes_of("other words\n\n```python\nimport time\nprint(time.time_ns())\n```\n", "a.md", tmp_path)
    changed = outcomes_of("```python\nimport time\nprint(time.time_ns() + 1)\n```\n", "a.md", tmp_path)
    assert first == again != changed


def test_ratios_of_speed_are_those_that_are_stored() -> None:
    rows = [json.loads(line) for line in (ROOT / "results" / "coreset-cpu.jsonl").read_text().splitlines()]
    seconds = {
        who: median(row["seconds"] for row in rows if (row["who"], row["n"], row["part"]) == (who, 20000, "peers"))
        for who in ("exact", "submodlib lazy")
    }
    picture = CONTESTS["facility-location"](ROOT / "results").files["speed-facility-20000.svg"]
    assert f"{seconds['submodlib lazy'] / seconds['exact']:.2f}×" in picture


def test_goals_of_speed_are_beside_what_is_stored_and_say_how_to_measure_it() -> None:
    goals = {goal.work: goal for goal in all_goals(ROOT / "results")}
    rows = [json.loads(line) for line in (ROOT / "results" / "engine-gpu-table.jsonl").read_text().splitlines()]
    l2rw = [row for row in rows if (row["part"], row["who"]) == ("l2rw", "l2rw, compiled")][-1]
    goal = goals["H200, L2RW ResNet-18 batch 512, compiled"]
    assert (goal.figure, goal.memory) == (l2rw["against_base"], l2rw["memory_mib"])
    assert f"{goal.figure:.2f}×" in goals_part(ROOT).text
    assert all((ROOT / goal.command.split()[1]).exists() for goal in goals.values())
    assert all(goal.figure for goal in goals.values() if "start.py" in goal.command)
    reached = [
        replace(goal, figure=figure, bound=2.0, more_is_better=more).reached
        for more in (False, True)
        for figure in (1.9, 2.1, None)
    ]
    assert reached == ["reached", "not reached", "not measured", "not reached", "reached", "not measured"]


@pytest.mark.parametrize("contest", CONTESTS)
def test_every_contest_of_speed_has_a_picture_or_a_table_and_a_command(contest: str) -> None:
    page = (ROOT / "docs" / "speed.md").read_text(encoding="utf-8")
    section = page.split(f"<!-- made: speed {contest} -->")[1].split("\n## ")[0]
    assert "    python benchmarks/" in section
    made = CONTESTS[contest](ROOT / "results")
    assert made.files or "|---" in made.text
    assert all(f"({name})" in made.text for name in made.files)
