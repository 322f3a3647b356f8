"""The command line but for the bench: every command is a file of its own, in thresher.app.commands."""

from typing import Annotated

import typer

from thresher.app.commands.demo import demo
from thresher.app.commands.distil import distil
from thresher.app.commands.label import label
from thresher.app.commands.methods import methods
from thresher.app.commands.predict import predict
from thresher.app.commands.query import query
from thresher.app.commands.report import report
from thresher.app.commands.train import train
from thresher.app.plain_errors import PlainErrors

app = typer.Typer(
    name="thresher",
    cls=PlainErrors,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (demo, train, distil, predict, query, label, methods, report):
    app.command()(command)


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
