"""thresher methods"""

import json
from typing import Annotated

import typer

KIND = "Only recipes, procedures, acquisitions (what to label next) or weightings (of a teacher's labels): recipe, ..."


def methods(
    kind: Annotated[str | None, typer.Option(help=KIND)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON list.")] = False,
) -> None:
    """List the methods: what each does, the paper it comes from, and what it needs.

    Example: thresher methods --kind acquisition
    """
    from thresher.methods import methods as known_methods

    known = known_methods(kind)
    if as_json:
        names = ("name", "kind", "paper", "clock", "needs", "tasks", "summary")
        print(json.dumps([{name: getattr(each, name) for name in names} for each in known]))
        return
    from rich.table import Table
    from rich.text import Text

    from thresher.app.terminal import plain_console

    table = Table(box=None, show_header=False, padding=(0, 2, 1, 0))
    table.add_column(style="bold cyan", no_wrap=True)
    for each in known:
        needs = [f"needs {', '.join(each.needs)}"] if each.needs else []
        only = [f"{each.tasks[0]} only"] if len(each.tasks) == 1 else []
        facts = " · ".join([each.kind, f"every {each.clock}", *only, *needs, each.paper])
        table.add_row(each.name, Text.assemble(each.summary, "\n", (facts, "dim")))
    plain_console().print(table)
