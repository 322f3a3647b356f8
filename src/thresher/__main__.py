"""python -m thresher, and the console script: the commands of the application and those of the bench."""

import sys
from typing import Annotated

from thresher.core.errors import ThresherError, needs_extra

try:
    needs_extra("The command line", "cli", "typer", "rich")
except ThresherError as missing:
    print(missing, file=sys.stderr)
    raise SystemExit(2) from None

import typer

from thresher.app.cli import Commands

OF_THE_APP = (
    "demo", "scan", "audit", "review", "label", "correct", "train", "predict", "export", "distil", "query", "methods",
    "report",
)  # fmt: skip


class Thresher(Commands):
    modules = {name: f"thresher.app.commands.{name}" for name in OF_THE_APP} | {
        "bench": "thresher.bench.commands.bench",
        "sensitivity": "thresher.bench.commands.sensitivity",
    }


app = typer.Typer(
    name="thresher",
    cls=Thresher,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


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


if __name__ == "__main__":
    main()
