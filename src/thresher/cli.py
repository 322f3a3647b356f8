"""The command line: every command in a file of its own, in thresher.commands; `bench` has several."""

from typing import Annotated

import typer

from thresher.bench.cli import app as bench
from thresher.commands.demo import demo
from thresher.commands.distil import distil
from thresher.commands.label import label
from thresher.commands.methods import methods
from thresher.commands.plain_errors import PlainErrors
from thresher.commands.query import query
from thresher.commands.report import report
from thresher.commands.sensitivity import sensitivity
from thresher.commands.train import train

app = typer.Typer(
    name="thresher",
    cls=PlainErrors,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (demo, train, distil, query, label, methods, report, sensitivity):
    app.command()(command)
app.add_typer(bench, name="bench")


def _say_version(wanted: bool) -> None:
    if wanted:
        from thresher import __version__

        print(f"thresher {__version__}")
        raise typer.Exit


@app.callback()
def about(
    version: Annotated[  # its callback answers
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Train models on data you cannot fully trust, and keep a record of what was trusted.

    Start with: thresher demo
    """


def main() -> None:
    """What the console script calls."""
    app()
