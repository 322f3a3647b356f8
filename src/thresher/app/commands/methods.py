"""thresher methods"""

import json
from typing import Annotated

import typer


def methods(as_json: Annotated[bool, typer.Option("--json", help="Print one JSON list.")] = False) -> None:
    """List the methods: what each does, the paper it comes from, and what it needs.

    Example: thresher methods --json
    """
    from thresher.app.consoles import plain_console
    from thresher.methods import METHODS

    if as_json:
        names = ("name", "kind", "paper", "clock", "needs", "tasks", "summary")
        print(json.dumps([{name: getattr(known, name) for name in names} for known in METHODS.values()]))
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, padding=(0, 2, 1, 0))
    table.add_column(style="bold cyan", no_wrap=True)
    for known in METHODS.values():
        needs = [f"needs {', '.join(known.needs)}"] if known.needs else []
        only = [f"{known.tasks[0]} only"] if len(known.tasks) == 1 else []
        facts = " · ".join([known.kind, f"every {known.clock}", *only, *needs, known.paper])
        table.add_row(known.name, Text.assemble(known.summary, "\n", (facts, "dim")))
    plain_console().print(table)
