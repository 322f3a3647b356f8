"""What the documents say is so: commands, files, public names, the design. Their code runs in test_site.py."""

import ast
import os
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from typing import TypeGuard

import pytest
import typer
from typer.core import TyperGroup

from thresher import __version__, corruption, data, models
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
        command, words = typer.main.get_command(app), shlex.split(line, comments=True)[1:]
        while isinstance(command, TyperGroup) and words:
            _, command, words = command.resolve_command(command.context_class(command), words)
            assert command is not None, line
        assert not isinstance(command, TyperGroup) or line.split() == ["thresher"], line
        if words:
            command.make_context("thresher", words)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_pages_name_are_there(page: Path) -> None:
    folders = [ROOT, ROOT / "src" / "thresher", page.parent]
    for name in re.findall(r"`((?:[a-z_]+/)*[a-z_]+(?:/|\.py))`", page.read_text()):
        assert any((folder / name).exists() for folder in folders), name


def test_there_is_something_to_run() -> None:
    readme = (ROOT / "README.md").read_text()
    assert len(BLOCK.findall(readme)) == 1, "README shows one snippet; the site shows the rest"
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


PUBLIC = ("signals", "schedules", "rules", "objectives", "slots", "data", "corruption", "models", "methods", "noise")
PUBLIC_MODULES = ("thresher", *(f"thresher.{name}" for name in (*PUBLIC, "report", "trainers", "app")))


def private_names(code: str) -> list[str]:
    """What a program takes from thresher that no public module has in its `__all__`."""
    tree, modules, private = ast.parse(code), dict[str, str](), list[str]()

    def take(module: str, name: str) -> str | None:
        """The public module that this is, if it is one."""
        if module not in PUBLIC_MODULES or name not in import_module(module).__all__:
            private.append(f"{module}.{name}")
        return whole if (whole := f"{module}.{name}") in PUBLIC_MODULES else None

    def resolve(node: ast.expr) -> str | None:
        if isinstance(node, ast.Name):
            return modules.get(node.id)
        inside = resolve(node.value) if isinstance(node, ast.Attribute) else None
        return take(inside, node.attr) if inside and isinstance(node, ast.Attribute) else None

    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for each in (each for each in node.names if each.name.partition(".")[0] == "thresher"):
                private += [each.name] if each.name not in PUBLIC_MODULES else []
                modules[each.asname or "thresher"] = each.name if each.asname else "thresher"
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "thresher":
            for each in node.names:
                if module := take(node.module or "", each.name):
                    modules[each.asname or each.name] = module
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            resolve(node)
    return list(dict.fromkeys(private))


@pytest.mark.parametrize("page", [*PAGES, *SCRIPTS], ids=lambda page: page.name)
def test_pages_and_examples_import_public_names_only(page: Path) -> None:
    assert private_names(page.read_text(encoding="utf-8") if page.suffix == ".py" else code_of(page)) == []


@pytest.mark.parametrize(
    ("code", "private"),
    [
        ("import thresher as th\nth.fit\nth.signals.loss\nth.rules.warmup(3, x).then", []),
        ("from thresher import fit, rules\nrules.KeepSmallest", []),
        ("from thresher.app import ThresherClassifier", []),
        ("from thresher.core.rule import Rule", ["thresher.core.rule.Rule"]),
        ("from thresher.methods.reclaim import short", ["thresher.methods.reclaim.short"]),
        ("from thresher.rules import parts", ["thresher.rules.parts"]),
        ("import thresher.engine.train", ["thresher.engine.train"]),
        ("import thresher as th\nth.door", ["thresher.door"]),
        ("import thresher as th\nth.rules.keep.Keep", ["thresher.rules.keep"]),
        ("from thresher import rules as r\nr.parts(1)", ["thresher.rules.parts"]),
    ],
)
def test_private_names_are_recognised(code: str, private: list[str]) -> None:
    assert private_names(code) == private


@pytest.mark.parametrize("module", PUBLIC_MODULES)
def test_what_public_modules_export_is_there(module: str) -> None:
    there = import_module(module)
    assert there.__all__
    assert [name for name in there.__all__ if not hasattr(there, name)] == []


DESIGN = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
SHOWN = re.findall(r"^```py\n# (\S+)\n(.*?)^```", DESIGN, re.DOTALL | re.MULTILINE)


PY_BLOCK = re.compile(r"^```py\n# (\S+?)(?:, started by: (torchrun [^\n]+))?\n(.*?)^```", re.DOTALL | re.MULTILINE)
TORCHRUN = [(page, *found) for page in PAGES for found in PY_BLOCK.findall(page.read_text("utf-8")) if found[1]]


def test_every_block_of_code_is_run_or_held_to_the_source() -> None:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        kinds = re.findall(r"^```(.*)\n(?:(?!^```).*\n)*?^```$", text, re.MULTILINE)
        allowed = {"python", "sh", "py"} | ({""} if page.name == "walkthrough.md" else set())
        assert set(kinds) <= allowed, page.name
        shown = [name for name, command, _ in PY_BLOCK.findall(text) if command or name.startswith("src/")]
        assert len(shown) == kinds.count("py"), f"{page.name}: name the source, or the command that starts the script"


@pytest.mark.parametrize(("page", "name", "command", "code"), TORCHRUN, ids=[name for _, name, *_ in TORCHRUN])
def test_scripts_for_several_processes_run(page: Path, name: str, command: str, code: str, tmp_path: Path) -> None:
    # torch's own gloo threads may abort a process that exits, also without Thresher: it is ended before they can.
    (tmp_path / name).write_text(f"{code}\nimport os\nos._exit(0)\n", encoding="utf-8")
    words = [sys.executable, "-m", "torch.distributed.run", "--standalone", *shlex.split(command)[1:]]
    told = {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src"), "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(words, cwd=tmp_path, env=os.environ | told, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{page.name}: {done.stderr[-2000:]}"


@pytest.mark.parametrize(("file", "code"), SHOWN, ids=[file for file, _ in SHOWN])
def test_the_source_that_the_design_shows_is_the_source(file: str, code: str) -> None:
    assert code in (ROOT / file).read_text(encoding="utf-8")


def test_a_method_takes_four_places_and_thirty_lines() -> None:
    assert len({file for file, _ in SHOWN}) == 4
    without_docstrings = re.sub(r'"""(?:[^"]|"(?!""))*"""', "", "".join(code for _, code in SHOWN))
    lines = [line for line in without_docstrings.splitlines() if line.strip()]
    assert f"four places and {len(lines)} lines of code" in DESIGN
    assert len(lines) <= 30


def rows_under(heading: str) -> list[list[str]]:
    """The cells of the table in a section of the design, without its head."""
    section = DESIGN.split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = [line.strip("|").split(" | ") for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip(" `") for cell in row] for row in rows[2:]]


def test_the_glossary_is_short() -> None:
    assert len(rows_under("Twelve words")) <= 12


def test_every_stop_of_the_walk_is_there() -> None:
    stops = rows_under("The walk of one example")
    assert [int(number) for number, *_ in stops] == list(range(1, len(stops) + 1))
    for _, file, function, _ in stops:
        names = {
            node.name
            for node in ast.walk(ast.parse((ROOT / "src" / "thresher" / file).read_text()))
            if is_definition(node)
        }
        assert set(function.split(".")) <= names, function


def is_definition(node: ast.AST) -> TypeGuard[ast.FunctionDef | ast.ClassDef]:
    return isinstance(node, ast.FunctionDef | ast.ClassDef)


def test_there_are_twelve_words_and_twelve_laws_with_their_tests() -> None:
    assert len(rows_under("Twelve words")) == 12
    laws = rows_under("The laws")
    assert [int(number) for number, *_ in laws] == list(range(1, 13))
    for number, _, where in laws:
        text = "".join((ROOT / file).read_text(encoding="utf-8") for file in re.findall(r"tests/\w+\.py", where))
        tested_as = (re.findall(r"with law (\d+)", where) or [number])[0]
        assert re.search(rf"\blaws? {tested_as}\b|law_{tested_as}_", text, re.IGNORECASE), number


def test_the_contracts_and_the_picture_are_those_that_are_checked() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    assert [row[0] for row in rows_under("The layers")] == [contract["name"] for contract in contracts]
    drawn = re.findall(r'class="(layer|room)">(\w+)<', (ROOT / "docs" / "layers.svg").read_text())
    for kind, contract in zip(("layer", "room"), contracts, strict=False):
        listed = [name for layer in contract["layers"] for name in layer.split(" | ")]
        assert [name for drawn_as, name in drawn if drawn_as == kind] == listed


def test_the_version_is_the_same_wherever_it_stands() -> None:
    written = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert f"\nversion: {written}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert __version__ == written
