"""thresher report"""

import os
from pathlib import Path
from typing import Annotated

import typer

from thresher.core.errors import ThresherError
from thresher.record.run_folder import HISTORY, ISSUES, LOOP, REPORT


def report(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Folders of runs, or a folder that holds several.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="The page to write; if not given, report.html in the run's folder, or above the runs."),
    ] = None,
) -> None:
    """Write one HTML page that shows a run, or compares several runs or active-learning loops; it needs no network.

    Example: thresher report runs/a runs/b --out compared.html
    """
    from thresher.report import write_loop_report, write_report

    if out is not None and out.suffix not in (".html", ".htm"):
        raise ThresherError(f"{out} is no name of a page: choose one that ends in .html.")
    runs = [run for folder in runs for run in _runs_in(folder)]
    are_loops = all((run / LOOP).exists() and not _is_run(run) for run in runs)
    write = write_loop_report if are_loops else write_report
    common = Path(os.path.commonpath([run.absolute() for run in runs]))
    above = runs[0] if len(runs) == 1 else Path(os.path.relpath(common))
    print(write(runs, above / REPORT if out is None else out))


def _runs_in(folder: Path) -> list[Path]:
    """The folder itself if it is a run, an audit or a loop, otherwise the runs in it, if there are any."""
    if _is_run(folder) or (folder / LOOP).exists():
        return [folder]
    return sorted(inner for inner in folder.glob("*") if _is_run(inner)) or [folder]


def _is_run(folder: Path) -> bool:
    return (folder / HISTORY).exists() or (folder / ISSUES).exists()
