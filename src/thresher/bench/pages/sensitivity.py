"""What it costs to be told a wrong noise rate: one set, some methods, several rates (the PRL paper's Table 3)."""

from collections.abc import Sequence
from pathlib import Path

from thresher.bench.compare.claims import digits_of
from thresher.bench.compare.rows import Row, compare
from thresher.bench.definition.grid import Cell, Entry
from thresher.bench.definition.points import TOLD, Point, true_rate
from thresher.bench.definition.setup import Setup
from thresher.bench.definition.suite import STANDARD, Scale, Suite
from thresher.bench.pages.markdown import with_spread
from thresher.bench.pages.number_plots import numbers_svg
from thresher.bench.pages.page import about
from thresher.bench.run.jobs import Result
from thresher.core.errors import ThresherError
from thresher.core.files import write_whole
from thresher.methods import method
from thresher.report.template import filled_in

SCALE = "small"
SHIFTS = (-0.1, -0.05, 0.0, 0.05, 0.1)
HEADS = ("method", "noise rate told", "last ten epochs", "best epoch", "clean among kept", "seeds")


def usual_rates(corruption: str | None) -> list[float]:
    """The true rate and two on either side of it.

    >>> usual_rates("symmetric:0.4"), usual_rates("uninoise:0.05")
    ([0.3, 0.35, 0.4, 0.45, 0.5], [0.0, 0.05, 0.1, 0.15])
    """
    true = true_rate(corruption)
    if true is None:
        raise ThresherError("Without a corruption nobody knows where to look: give --rates, such as 0.1,0.2,0.3.")
    return [rate for rate in (round(true + shift, 4) for shift in SHIFTS) if 0 <= rate < 1]


def sensitivity_suite(
    data: str,
    corruption: str | None,
    methods: Sequence[str],
    rates: Sequence[float],
    *,
    setup: Setup,
    metric: str,
) -> Suite:
    """A cell for each rate; Standard, which is told nothing, is trained once, to compare with."""
    for name in methods:
        if "noise_rate" not in method(name).needs:
            raise ThresherError(f"{name} is told no noise rate, so none can be wrong: choose another method.")
    if not methods or len(set(rates)) < 2:
        raise ThresherError("There is nothing to draw: give --method, and --rates with at least two different rates.")
    for rate in rates:
        if not 0 <= rate < 1:
            raise ThresherError(f"--rates {rate:g} is no share of the data: give numbers from 0 up to 1.")
    ordered = sorted(set(rates))
    return Suite(
        name="sensitivity",
        title=f"{', '.join(methods)} told different noise rates",
        methods=(Entry(STANDARD), *(Entry(name) for name in methods)),
        scales={
            SCALE: Scale(
                tuple(
                    Cell(
                        f"told-{rate:g}",
                        data,
                        corruption,
                        noise_rate=rate,
                        metric=metric,
                        methods=(STANDARD, *methods) if rate == ordered[0] else tuple(methods),
                        points=(Point(TOLD, rate, f"{data}, {corruption or 'as it is'}", mark=true_rate(corruption)),),
                    )
                    for rate in ordered
                ),
                setup,
            )
        },
    )


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


def write_sensitivity(suite: Suite, results: Sequence[Result], page: Path) -> list[list[str]]:
    """Write the self-contained page of these results, and return its table."""
    rows = compare(suite, SCALE, results)
    picture, lines = numbers_svg(rows).get(TOLD), lines_of(rows)
    if picture is None:
        raise ThresherError("Fewer than two rates have results: run the command again, and look at what failed.")
    cell = suite.scale(SCALE).cells[0]
    html = filled_in(
        "bench/pages",
        "sensitivity.html",
        title=f"{suite.title} on {cell.data}",
        lead=[
            about(suite, SCALE, cell, told="told the rates that the picture shows"),
            "The line is the mean over seeds of the last ten epochs, the band goes from the lowest to the highest "
            "seed, and the level across is plain training. The dashed line is the true rate, where it is known.",
        ],
        picture=picture,
        heads=HEADS,
        lines=lines,
    )
    write_whole(page, lambda path: path.write_text(html, encoding="utf-8"))
    return lines
