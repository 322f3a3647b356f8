"""One or several run folders become one self-contained HTML page that needs no network."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from thresher.core.errors import ThresherError, needs_extra
from thresher.core.files import write_whole
from thresher.report.run_record import read_run

__all__ = ["check_installed", "filled_in", "write_loop_report", "write_report"]


def check_installed() -> None:
    """Refuse where a package that the report needs is missing; a command asks this before it trains."""
    needs_extra("The report", "report", "altair", "vl_convert", "jinja2", "PIL")


def filled_in(folder: str, template: str, **values: Any) -> str:
    """The template in this folder of the package with these values, which are escaped; a missing value is an error."""
    needs_extra(f"The page {template}", "report", "jinja2")
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("thresher", folder),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(**values)


def write_report(folders: Sequence[Path], out: Path) -> Path:
    """Write the report of these runs to `out`, whole or not at all, and return its path."""
    check_installed()
    from thresher.report.page import page

    if not folders:
        raise ThresherError("There is no run to report on: give at least one run folder.")
    return _written(page([read_run(Path(folder)) for folder in folders]), out)


def write_loop_report(folders: Sequence[Path], out: Path) -> Path:
    """Write the report of these active-learning loops to `out`, whole or not at all, and return its path."""
    check_installed()
    from thresher.report.loops import loop_page, read_loop_record

    if not folders:
        raise ThresherError("There is no loop to report on: give at least one folder of active_loop.")
    return _written(loop_page([read_loop_record(Path(folder)) for folder in folders]), out)


def _written(html: str, out: Path) -> Path:
    out = Path(out)
    try:
        write_whole(out, lambda unfinished: unfinished.write_text(html, encoding="utf-8"))
    except OSError as error:
        raise ThresherError(f"{out} cannot be written ({error.strerror}): choose another path.") from error
    return out
