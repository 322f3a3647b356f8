"""The reference: every public name with its signature and docstring, and where the site shows it in use."""

import ast
import inspect
from functools import cache
from importlib import import_module
from pathlib import Path

from website.executed import code_blocks
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
    """Pages of the site whose code, which runs, takes this name from thresher; guides before the pages of methods."""
    found = [page for page, names in _taken(root).items() if name in names]
    return sorted(found, key=lambda page: (page.startswith(("methods/", "theory/")), page.startswith("api/"), page))


@cache
def _taken(root: Path) -> dict[str, frozenset[str]]:
    """Page -> what its code takes from thresher."""
    found = {}
    for page in sorted((root / "docs").rglob("*.md")):
        blocks = code_blocks(page.read_text(encoding="utf-8"))
        if code := "\n".join(code for kind, code, _ in blocks if kind == "python"):
            found[page.relative_to(root / "docs").as_posix()] = names_taken(code)
    return found


def names_taken(code: str) -> frozenset[str]:
    """The names that a program imports from thresher, or reads from its modules.

    >>> sorted(names_taken("import thresher as th\\nfrom thresher.rules import Agree\\nloss = th.signals.margin"))
    ['Agree', 'margin', 'signals']
    """
    tree, modules, taken = ast.parse(code), set[str](), set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {each.asname or "thresher" for each in node.names if each.name.partition(".")[0] == "thresher"}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "thresher":
            taken |= {each.name for each in node.names}
            modules |= {each.asname or each.name for each in node.names if each.name.islower()}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and _root_of(node) in modules:
            taken.add(node.attr)
    return frozenset(taken)


def _root_of(node: ast.expr) -> str | None:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def _title(page: str) -> str:
    return page.removesuffix(".md").removesuffix("/README")
