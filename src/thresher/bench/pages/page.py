"""The comparison as a page of the docs, made from stored results only."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from thresher.bench.compare.claims import CLAIM_HEADS, averages_table, claims_table, verdict
from thresher.bench.compare.rows import Row, compare, left_out
from thresher.bench.definition.suite import Suite
from thresher.bench.pages.cell_tables import (
    as_printed,
    cell_table,
    columns_table,
    describe_cell,
    none_run,
    set_apart,
    split_cells,
)
from thresher.bench.pages.curves import columns_svg, curves_svg
from thresher.bench.pages.markdown import table
from thresher.bench.pages.number_plots import numbers_svg
from thresher.bench.pages.origin import origin_of
from thresher.bench.pages.side_by_side import side_by_side
from thresher.bench.run.identity import Result
from thresher.core.errors import needs_extra
from thresher.core.files import write_whole

SHARES = {
    "epoch": "The share of clean labels among those kept, over the epochs",
    "round": "The share of clean examples among those chosen, over the rounds",
}
READING = {  # how to read the scores, where they belong to epochs and where they belong to rounds
    "epoch": "Compare the last ten epochs: the best epoch was chosen on the test set, and is there only to be read "
    "beside them. The clean share is that of right labels among those kept in the last ten epochs.",
    "round": "Compare the last round: the best one was chosen on the test set, and is there only to be read beside it. "
    "The clean share is that of clean examples among all that were chosen after the start.",
}

DECIDED = (
    "Differences are paired by seed, with the 95% interval of Student's t: a comparison is decided, on average or in a "
    "cell, where the interval excludes zero. One seed decides nothing. Intervals are not widened for their number: of "
    "twenty comparisons without a difference about one is decided."
)


def write_page(suite: Suite, scale: str, results: Sequence[Result], folder: Path, source: Path) -> Path:
    """Write SUITE-SCALE.md and its plots beside it, and remove plots of an earlier page that this one does not show."""
    needs_extra("A page of the bench", "report", "altair", "vl_convert")
    pictures = _pictures(suite, scale, compare(suite, scale, results))
    for old in {*folder.glob(_picture_name(suite, scale, "")), *folder.glob(f"{suite.name}-{scale}-*.svg")}:
        if old.name not in pictures:
            old.unlink()
    for name, (_, svg) in pictures.items():
        _write(folder / name, svg)
    page = folder / f"{suite.name}-{scale}.md"
    captions = {name: caption for name, (caption, _) in pictures.items()}
    _write(page, markdown(suite, scale, results, source, captions))
    return page


def _pictures(suite: Suite, scale: str, rows: Sequence[Row]) -> dict[str, tuple[str, str]]:
    """Caption and SVG of each plot by its file name: curves, columns, and scores against numbers."""
    found = {}
    curves = curves_svg(suite, rows)
    bases = [data.partition(":")[0] for data in curves]
    for data, base, svg in zip(curves, bases, curves.values(), strict=True):
        part = data if bases.count(base) > 1 else base  # digits:4,9 beside digits
        name = _picture_name(suite, scale, part if len(curves) > 1 else "")
        found[name] = (f"The score of each method over the {suite.clock}s", svg)
    for data, svg in columns_svg(suite, rows).items():
        found[_picture_name(suite, scale, f"{data.partition(':')[0]}-shares")] = (SHARES[suite.clock], svg)
    for axis, svg in numbers_svg(rows).items():
        measure = "error" if axis.as_errors else "score"
        caption = f"The {measure} of each method against: {axis.title}"
        found[_picture_name(suite, scale, axis.title)] = (caption, svg)
    return found


def _picture_name(suite: Suite, scale: str, part: str) -> str:
    """The file name of the plot of this part.

    >>> from thresher.bench.suites import SUITES
    >>> _picture_name(SUITES["l2rw"], "small", "labels flipped, %")
    'l2rw-small-labels-flipped.svg'
    """
    return "-".join(re.findall(r"[a-z0-9]+", f"{suite.name}-{scale}-{part}".lower())) + ".svg"


def _write(path: Path, text: str) -> None:
    write_whole(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def markdown(suite: Suite, scale: str, results: Sequence[Result], source: Path, pictures: Mapping[str, str]) -> str:
    """The whole page: what was run, averages, plots, the table of each cell, and where the numbers come from."""
    rows = compare(suite, scale, results)
    command = f"thresher bench run {suite.name} --scale {scale}"
    show = f"thresher bench show {suite.name} --scale {scale}"
    parts = [
        f"# {suite.title} ({scale} scale)",
        f"<!-- Made from {source.as_posix()} by `{show}`: run that again instead of editing this. -->",
        f"Paper: {suite.paper}." if suite.paper else "",
        verdict(suite, rows),
        f"Scores are means over seeds ± their sample deviation. {READING[suite.clock]} Seconds are those of one run.",
        f"Run with `{command}`, shown with `{show}`.",
        *suite.scale(scale).notes,
        *_conclusions(suite, rows),
        *side_by_side(suite, rows),
        *(f"![{caption}]({name})" for name, caption in pictures.items()),
    ]
    parts += _cells(suite, scale, rows)
    parts.append(origin_of(results, rows))
    if other := left_out(suite, scale, results):
        parts.append(f"{other} stored results were made with other settings and are left out.")
    return "\n\n".join(part for part in parts if part) + "\n"


def _conclusions(suite: Suite, rows: Sequence[Row]) -> list[str]:
    """Averages and how far each claim holds, in suites that have claims or questions."""
    of_the_paper, own = (claims_table(suite, rows, claims) for claims in (suite.claims, suite.questions))
    if not of_the_paper + own:
        return []
    parts = [
        "## On average",
        f"Means over the cells that were run, of the {suite.final}; blank where a method lacks one of them.",
        table(*averages_table(suite, rows)),
        f"The same of the best {suite.clock}: far above means that a method later memorised the noise.",
        table(*averages_table(suite, rows, "best")),
    ]
    if of_the_paper:
        parts += [
            "## What the paper concludes",
            "Each line is a comparison that comes out this way in the paper, and how it comes out here. " + DECIDED,
            table(CLAIM_HEADS, of_the_paper),
        ]
    if own:
        parts += [
            "## Our own questions",
            f"Comparisons of our own, and how they come out. {DECIDED}",
            table(CLAIM_HEADS, own),
        ]
    return parts


def _cells(suite: Suite, scale: str, rows: Sequence[Row]) -> list[str]:
    """The table of each cell, and the names of those in which nothing was run."""
    parts, (run, not_run) = [], split_cells(suite, scale, rows)
    for cell in run:
        here = [row for row in rows if row.cell is cell]
        heads, lines = cell_table(suite, here, cell)
        shown, others = set_apart(heads, lines, printed=True)
        parts += [f"## {cell.name}", describe_cell(suite, scale, cell), table(heads, shown), others]
        parts += [f"{row.entry.name} failed: {row.reasons[-1]}" for row in here if row.reasons]
        parts.append(columns_table(suite, here))
    return parts + _not_run(rows, not_run)


def _not_run(rows: Sequence[Row], cells: Sequence[str]) -> list[str]:
    """The names of cells in which nothing was run, and the paper's numbers for them."""
    if not cells:
        return []
    printed: dict[str, dict[str, str]] = {}
    for row in rows:
        if row.paper is not None and row.cell.name in cells:
            printed.setdefault(row.entry.label or row.entry.name, {})[row.cell.name] = as_printed(row.paper)
    known = [cell for cell in cells if any(cell in numbers for numbers in printed.values())]
    body = [[label, *(found.get(cell, "") for cell in known)] for label, found in printed.items()]
    numbers = ["The paper's numbers:", table(["method", *known], body)] if body else []
    return ["## Not run here", none_run(cells), *numbers]
