"""python -m thresher, and the console script: the commands of the application and those of the bench."""

import sys

from thresher.core.errors import ThresherError
from thresher.core.extras import needs_extra

try:
    needs_extra("The command line", "cli", "typer", "rich")
except ThresherError as missing:
    print(missing, file=sys.stderr)
    raise SystemExit(2) from None

from thresher.app.cli import app
from thresher.bench.commands.bench import app as bench
from thresher.bench.commands.sensitivity import sensitivity

app.command()(sensitivity)
app.add_typer(bench, name="bench")


def main() -> None:
    """What the console script calls."""
    app()


if __name__ == "__main__":
    main()
