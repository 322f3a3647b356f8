"""python -m thresher, and the console script: the commands of the application and those of the bench."""

import os
import sys
from io import TextIOWrapper

from thresher.core.errors import ThresherError, needs_extra

try:
    needs_extra("The command line", "cli", "typer", "rich")
except ThresherError as missing:
    print(missing, file=sys.stderr)
    raise SystemExit(2) from None

from thresher.app.cli import command_line

OF_THE_APP = (
    "demo", "scan", "audit", "review", "label", "correct", "train", "predict", "export", "distil", "query", "methods",
    "report",
)  # fmt: skip

app = command_line(
    {name: f"thresher.app.commands.{name}" for name in OF_THE_APP}
    | {"bench": "thresher.bench.commands.bench", "sensitivity": "thresher.bench.commands.sensitivity"}
)


def main() -> None:
    """What the console script calls; what a terminal cannot show is written as question marks."""
    if os.environ.get("COLUMNS") == "0":  # as some containers say, and nothing would be printed
        del os.environ["COLUMNS"]
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # None where it was closed
            stream.reconfigure(errors="replace")
    try:
        os.getcwd()
    except OSError:
        print("The working directory is gone: change into a folder that exists.", file=sys.stderr)
        raise SystemExit(2) from None
    app()


if __name__ == "__main__":
    main()
