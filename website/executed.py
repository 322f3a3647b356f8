"""Runs the code of a page, so that the site shows what it really prints and draws.

Blocks ```python and ```sh run in order, in one folder and one namespace for each page; a line of ```sh is a `thresher`
command. Below each block stands what it printed, and the pictures (.svg, .png) and pages (.html) that it saved there.
"""

import base64
import contextlib
import hashlib
import io
import json
import os
import re
import shlex
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import thresher

BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SHOWN_FILES = (".svg", ".png", ".html")
FEWEST_COLUMNS = "96"  # of the terminal that commands print to


@dataclass(frozen=True)
class Outcome:
    """What a block printed, and the files it saved to be shown, by name."""

    printed: str
    files: dict[str, bytes]


def code_blocks(text: str) -> list[tuple[str, str, int]]:
    """Kind, code and first line of every block that runs.

    >>> code_blocks("# Title\\n\\n```python\\na = 1\\n```\\n\\n```text\\nb\\n```\\n")
    [('python', 'a = 1\\n', 3)]
    """
    return [(found[1], found[2], text.count("\n", 0, found.start(2))) for found in BLOCK.finditer(text)]


def run_page(text: str, name: str) -> list[Outcome]:
    """Run the blocks of a page in a new folder, and return the outcome of each."""
    outcomes, scope = [], dict[str, Any](__name__="__main__")
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), _terminal():
        for kind, code, first in code_blocks(text):
            before, said = _saved(Path(folder)), io.StringIO()
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(io.StringIO()):  # progress is not shown
                if kind == "sh":
                    _run_commands(code)
                else:
                    exec(compile("\n" * first + code, name, "exec"), scope)
            new = {file: data for file, data in _saved(Path(folder)).items() if before.get(file) != data}
            outcomes.append(Outcome(said.getvalue().rstrip(), new))
    return outcomes


def _run_commands(code: str) -> None:
    from thresher.__main__ import app

    for line in code.replace("\\\n", " ").splitlines():
        program, *words = shlex.split(line)
        if program != "thresher":
            raise ValueError(f"{line!r} is no thresher command: show what is not to be run in an indented block.")
        app(words, standalone_mode=False)


def _saved(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir()) if file.suffix in SHOWN_FILES}


@contextlib.contextmanager
def _terminal() -> Iterator[None]:
    """A width for what commands print, and no cache beside the page's folder."""
    changed = {"COLUMNS": FEWEST_COLUMNS, "THRESHER_CACHE": "cache"}
    before = {name: os.environ.get(name) for name in changed}
    os.environ.update(changed)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def outcomes_of(text: str, name: str, kept: Path) -> list[Outcome]:
    """The outcomes of a page, from the folder `kept` if the same code has run on the same source before."""
    code = json.dumps([block[:2] for block in code_blocks(text)])
    file = kept / f"{hashlib.sha256((code + _source()).encode()).hexdigest()[:24]}.json"
    if file.exists():
        stored = json.loads(file.read_text(encoding="utf-8"))
        return [Outcome(said, {key: base64.b64decode(data) for key, data in files.items()}) for said, files in stored]
    outcomes = run_page(text, name)
    kept.mkdir(parents=True, exist_ok=True)
    packed = [
        (each.printed, {key: base64.b64encode(data).decode() for key, data in each.files.items()}) for each in outcomes
    ]
    file.write_text(json.dumps(packed), encoding="utf-8")
    return outcomes


@cache
def _source() -> str:
    """A checksum of the package."""
    files = sorted(Path(thresher.__file__).parent.rglob("*.*"))
    found = hashlib.sha256()
    for file in files:
        if file.suffix != ".pyc" and file.is_file():
            found.update(file.read_bytes())
    return found.hexdigest()


def with_outcomes(text: str, outcomes: list[Outcome], stem: str) -> str:
    """The page with the outcome of each block below it; the site has the files as STEM-FILE beside the page."""
    waiting = iter(outcomes)

    def shown(found: re.Match[str]) -> str:
        outcome, parts = next(waiting), [found[0]]
        if outcome.printed:
            parts.append(f'````{{ .text .output title="Output" }}\n{outcome.printed}\n````')
        for file in outcome.files:
            words = Path(file).stem.replace("-", " ").replace("_", " ")
            if file.endswith(".html"):
                parts.append(f'<iframe src="{stem}-{file}" title="{words}" loading="lazy"></iframe>')
                parts.append(f"[Open {words} alone]({stem}-{file})")
            else:
                parts.append(f"![{words}]({stem}-{file})")
        return "\n\n".join(parts)

    return BLOCK.sub(shown, text)
