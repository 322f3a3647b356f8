"""A page of results is what the command in it makes of what is stored, and every stored row belongs to a suite."""

import re
import runpy
from pathlib import Path

import pytest

from thresher.bench.pages.page import markdown
from thresher.bench.run.identity import key_of, key_of_job
from thresher.bench.run.jobs import jobs_of
from thresher.bench.run.results import read, results_file
from thresher.bench.suites import SUITES

ROOT = Path(__file__).parent.parent
PAGES = ROOT / "docs" / "results"
SCRIPTED = runpy.run_path(str(ROOT / "benchmarks" / "pages.py"))  # pages that a script of benchmarks/ makes
BY_SCRIPTS = dict(SCRIPTED["commands"]())
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


@pytest.mark.parametrize(("page", "command"), BY_SCRIPTS.items(), ids=BY_SCRIPTS)
def test_a_page_says_what_its_script_makes(page: str, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    assert (PAGES / page).read_text("utf-8") == SCRIPTED["made"](page, command), f"{page} is old: make pages"


def test_every_page_names_the_one_command_that_makes_it() -> None:
    commands = [name for name, _ in SCRIPTED["commands"]()]
    suites = [f"{suite}-{scale}.md" for suite, scale in STORED]
    assert sorted([*commands, *suites, "README.md"]) == sorted(page.name for page in PAGES.glob("*.md"))


@pytest.mark.parametrize(("suite", "scale"), STORED)
def test_every_stored_row_answers_a_job_of_its_suite(suite: str, scale: str) -> None:
    """A row whose settings the suite has given up is stale: remove it once another row answers its job."""
    rows, _ = read(results_file(ROOT / "results", suite, scale))
    jobs = {key_of_job(job) for job in jobs_of(SUITES[suite], scale, seeds=1)}  # any seed may have been run
    stale = [
        f"{row['cell']} {row['method']} seed {row['seed']}" for row in rows if key_of({**row, "seed": 0}) not in jobs
    ]
    assert stale == []


def test_every_stored_file_of_a_scale_belongs_to_a_suite() -> None:
    files = {path.stem for scale in ("small", "paper") for path in (ROOT / "results").glob(f"*-{scale}.jsonl")}
    assert files == {f"{suite}-{scale}" for suite, scale in STORED}
    assert len(files) >= 10
