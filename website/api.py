"""The reference: every public name with its signature and docstring, and where the site shows it in use."""

import inspect
import re
from functools import cache
from importlib import import_module
from pathlib import Path

from website.executed import BLOCK
from website.made import Made

MOST_LINKS = 3  # pages that are named for each name


def public_names(module: str) -> list[str]:
    """What a public module exports, but for other modules.

    >>> "loss" in public_names("thresher.signals"), "rules" in public_names("thresher")
    (True, False)
    """
    there = import_module(module)
    return [name for name in there.__all__ if not inspect.ismodule(getattr(there, name))]


def api_part(root: Path, module: str) -> Made:
    """A section for each public name of the module."""
    parts = []
    for name in public_names(module):
        parts.append(f"::: {module}.{name}")
        if links := ", ".join(f"[{_title(page)}](../{page})" for page in pages_that_use(root, name)[:MOST_LINKS]):
            parts.append(f"In use: {links}")
    return Made("\n\n".join(parts))


def has_example(root: Path, module: str, name: str) -> bool:
    """Whether a doctest of its own, or a page whose code runs, shows this name."""
    thing = getattr(import_module(module), name)
    return ">>>" in (inspect.getdoc(thing) or "") or bool(pages_that_use(root, name))


def pages_that_use(root: Path, name: str) -> list[str]:
    """Pages of the site with this name in code that runs, guides before the pages of methods."""
    found = [page for page, words in _words(root).items() if name in words]
    return sorted(found, key=lambda page: (page.startswith(("methods/", "theory/")), page.startswith("api/"), page))


@cache
def _words(root: Path) -> dict[str, frozenset[str]]:
    """Page -> the words of its code that runs."""
    pages = sorted((root / "docs").rglob("*.md"))
    code = {page: " ".join(found[2] for found in BLOCK.finditer(page.read_text(encoding="utf-8"))) for page in pages}
    return {
        page.relative_to(root / "docs").as_posix(): frozenset(re.findall(r"\w+", text))
        for page, text in code.items()
        if text
    }


def _title(page: str) -> str:
    return page.removesuffix(".md").removesuffix("/README")
