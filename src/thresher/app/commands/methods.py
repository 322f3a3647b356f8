"""thresher methods"""

import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

KIND = "Only recipes, procedures, acquisitions (what to label next) or weightings (of a teacher's labels): recipe, ..."
FACTS = ("name", "kind", "paper", "clock", "needs", "tasks", "summary")


def methods(
    kind: Annotated[str | None, typer.Option(help=KIND)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON list.")] = False,
) -> None:
    """List the methods: what each does, the paper it comes from, and what it needs.

    Example: thresher methods --kind acquisition
    """
    known = listed(kind)
    if as_json:
        print(json.dumps(known))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, padding=(0, 2, 1, 0))
    table.add_column(style="bold cyan", no_wrap=True)
    for each in known:
        needs = [f"needs {', '.join(each['needs'])}"] if each["needs"] else []
        only = [f"{each['tasks'][0]} only"] if len(each["tasks"]) == 1 else []
        facts = " · ".join([each["kind"], f"every {each['clock']}", *only, *needs, each["paper"]])
        table.add_row(each["name"], Text.assemble(each["summary"], "\n", (facts, "dim")))
    Console(markup=False, emoji=False, highlight=False).print(table)


def listed(kind: str | None) -> list[dict[str, Any]]:
    """The facts about every method, or about those of a kind.

    They are kept in the user's cache under a checksum of the files they come from: importing torch to list them anew
    takes seconds.
    """
    place = _place()
    try:
        every = json.loads(place.read_text(encoding="utf-8"))
        found = [each for each in every if kind in (None, each["kind"])]
    except (OSError, ValueError, KeyError, TypeError):
        found = []
    return found or _made(kind, place)


def _made(kind: str | None, place: Path) -> list[dict[str, Any]]:
    from thresher.core.errors import ThresherError
    from thresher.core.files import write_whole
    from thresher.methods import methods as known_methods

    every = [{name: getattr(each, name) for name in FACTS} for each in known_methods()]
    with suppress(OSError, ThresherError):  # a home that cannot be written to only costs the time of the next call
        write_whole(place, lambda path: path.write_text(json.dumps(every), encoding="utf-8"))
    asked = {each.name for each in known_methods(kind)}  # refuses a kind that there is not
    return [each for each in every if each["name"] in asked]


def _place() -> Path:
    """The file of the cache for the methods as they are now."""
    folder = Path(__file__).parents[2] / "methods"
    files = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in sorted(folder.glob("*.py"))]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "thresher"
    return cache / f"methods-{hashlib.sha256(repr((FACTS, str(folder), files)).encode()).hexdigest()[:16]}.json"
