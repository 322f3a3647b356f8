"""python -m thresher, and the console script: the commands of the application and those of the bench."""

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
