"""What the documents show runs: the README's code blocks, those of docs/, and every script in examples/."""

import re
import runpy
import shlex
import sys
from pathlib import Path

import click
import pytest
import typer

from thresher import corruption, data, models
from thresher.__main__ import app

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
SCRIPTS = sorted((ROOT / "examples").glob("*.py"))
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def code_of(page: Path) -> str:
    """A page's Python blocks as one program, each line where it stands in the page, so that errors name it."""
    text = page.read_text() if page.exists() else ""
    kept = [""] * text.count("\n")
    for block in BLOCK.finditer(text):
        first = text.count("\n", 0, block.start(1))
        lines = block.group(1).splitlines()
        kept[first : first + len(lines)] = lines
    return "\n".join(kept)


@pytest.mark.parametrize("page", [page for page in PAGES if code_of(page).strip()], ids=lambda page: page.name)
def test_code_in_pages_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(code_of(page), page.name, "exec"), {"__name__": "__main__"})


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_examples_run(script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(script)])
    runpy.run_path(str(script), run_name="__main__")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_in_pages_are_understood(page: Path) -> None:
    """Every line that calls thresher names a command, and options that it has; inside backticks as well."""
    text = page.read_text().replace("\\\n", " ")
    lines = re.findall(r"^(?: {4})?(thresher .*)$", text, re.MULTILINE) + re.findall(r"`(thresher [^`]*)`", text)
    for line in lines:
        command, words = typer.main.get_command(app), shlex.split(line)[1:]
        while isinstance(command, click.Group) and words:
            _, command, words = command.resolve_command(click.Context(command), words)
            assert command is not None, line
        if words:
            command.make_context("thresher", words)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_pages_name_are_there(page: Path) -> None:
    folders = [ROOT, ROOT / "src" / "thresher", page.parent]
    for name in re.findall(r"`((?:[a-z_]+/)*[a-z_]+(?:/|\.py))`", page.read_text()):
        assert any((folder / name).exists() for folder in folders), name


def test_there_is_something_to_run() -> None:
    readme = (ROOT / "README.md").read_text()
    assert len(BLOCK.findall(readme)) >= 2, "README shows fit() and a loop of one's own"
    assert readme.count("```python") == len(BLOCK.findall(readme)), "a block of the README is not closed"
    assert SCRIPTS, "examples/ holds runnable scripts"


def test_code_keeps_its_place(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Title\n\n```python\na = 1\n```\ntext\n```sh\nrm\n```\n```python\nb = a\n```\n")
    assert code_of(page).splitlines() == ["", "", "", "a = 1", "", "", "", "", "", "", "b = a"]


def test_every_page_can_be_reached_from_the_readme() -> None:
    seen, waiting = set[Path](), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        seen.add(page)
        links = re.findall(r"\]\(([^)#:]+\.md)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
        waiting += [linked for link in links if (linked := (page.parent / link).resolve()) not in seen]
    pages = {page.resolve() for page in (ROOT / "docs").rglob("*.md")}
    assert pages - seen == set()


def test_the_page_of_names_has_all_of_them_and_no_other() -> None:
    page = (ROOT / "docs" / "names.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    listed = {name for row in rows for name in re.findall(r"`([^`]+)`", row.split("|")[1])}
    known = {*data.names(), *corruption.names(), *models.MODELS}
    assert listed == known | {"timm:NAME", "package.module:factory"}
