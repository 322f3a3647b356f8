"""Make the pages of docs/results anew that scripts of this folder make, each by the command that stands in the page.

    python benchmarks/pages.py

Such a script reads results/ and measures nothing; it writes the page, or prints it. `thresher bench show` makes the
pages of suites.
"""

import re
import runpy
import shlex
import sys
from collections.abc import Iterator
from contextlib import chdir, redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "docs" / "results"
COMMAND = re.compile(r"\b[Mm]ade (?:from [^`\n]*)?by `python (benchmarks/\w+\.py[^`\n]*)`")


def commands() -> Iterator[tuple[str, str]]:
    """The name of each page that says which script made it, and the command."""
    for page in sorted(PAGES.glob("*.md")):
        for command in COMMAND.findall(page.read_text(encoding="utf-8")):
            yield page.name, command


def made(name: str, command: str) -> str:
    """The page that this command makes of what is stored."""
    script, *words = shlex.split(command)
    printed, before = StringIO(), sys.argv
    with TemporaryDirectory() as folder, chdir(folder), redirect_stdout(printed):
        written = Path("docs") / "results" / name
        written.parent.mkdir(parents=True)
        Path("results").symlink_to(ROOT / "results")
        sys.argv = [script, *words]
        try:
            runpy.run_path(str(ROOT / script), run_name="__main__")
        finally:
            sys.argv = before
        return written.read_text(encoding="utf-8") if written.exists() else printed.getvalue()


if __name__ == "__main__":
    for page_name, its_command in commands():
        (PAGES / page_name).write_text(made(page_name, its_command), encoding="utf-8")
