"""The page of `thresher sensitivity`: scores against the noise rate that was told."""

from collections.abc import Sequence
from pathlib import Path

from thresher.bench.compare.claims import digits_of
from thresher.bench.compare.rows import Row, compare
from thresher.bench.definition.points import TOLD_RATE
from thresher.bench.definition.suite import STANDARD, Suite
from thresher.bench.pages.cell_tables import describe_cell
from thresher.bench.pages.markdown import with_spread
from thresher.bench.pages.number_plots import numbers_svg
from thresher.bench.run.identity import Result
from thresher.core.errors import ThresherError
from thresher.core.files import write_whole
from thresher.report import filled_in

HEADS = ("method", "noise rate told", "last ten epochs", "best epoch", "clean among kept", "seeds")


def lines_of(rows: Sequence[Row]) -> list[list[str]]:
    """The table: a line for each method and rate that was run."""
    found = []
    for row in rows:
        if row.last is not None:
            digits = digits_of(row.cell.metric)
            told = "nothing" if row.entry.name == STANDARD else f"{row.cell.noise_rate:g}"
            share = "" if row.clean_share is None else f"{row.clean_share:.3f}"
            scores = [with_spread(score, digits) for score in (row.last, row.best)]
            found.append([row.entry.name, told, *scores, share, str(row.seeds)])
    return sorted(found, key=lambda line: line[1] != "nothing")


def write_sensitivity(suite: Suite, scale: str, results: Sequence[Result], page: Path) -> list[list[str]]:
    """Write the self-contained page of these results, and return its table."""
    rows = compare(suite, scale, results)
    picture, lines = numbers_svg(rows).get(TOLD_RATE), lines_of(rows)
    if picture is None:
        raise ThresherError("Fewer than two rates have results: run the command again, and look at what failed.")
    cell = suite.scale(scale).cells[0]
    html = filled_in(
        "bench/pages",
        "sensitivity.html",
        title=f"{suite.title} on {cell.data}",
        lead=[
            describe_cell(suite, scale, cell, told="told the rates that the picture shows"),
            "The line is the mean over seeds of the last ten epochs, the band goes from the lowest to the highest "
            "seed, and the level across is plain training. The dashed line is the true rate, where it is known.",
        ],
        picture=picture,
        heads=HEADS,
        lines=lines,
    )
    write_whole(page, lambda path: path.write_text(html, encoding="utf-8"))
    return lines
