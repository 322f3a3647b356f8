"""The comparison as a page of the docs, made from stored results only."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from thresher.bench.compare.claims import CLAIM_HEADS, averages_table, claims_table, digits_of
from thresher.bench.compare.rows import Row, column_mean, compare, left_out
from thresher.bench.definition.grid import LAST, Cell
from thresher.bench.definition.published import Published
from thresher.bench.definition.setup import Setup
from thresher.bench.definition.suite import Suite, setup_for
from thresher.bench.pages.curves import columns_svg, curves_svg
from thresher.bench.pages.markdown import table, with_spread
from thresher.bench.pages.number_plots import numbers_svg
from thresher.bench.pages.side_by_side import side_by_side
from thresher.bench.run.jobs import Result
from thresher.core.files import write_whole

OF_A_PAPER = ("paper", "gap")
NOT_RUN = "not run here"
SHARES = {
    "epoch": "The share of clean labels among those kept, over the epochs",
    "round": "The share of clean examples among those chosen, over the rounds",
}
READING = {  # what to look at, where a score belongs to an epoch and where it belongs to a round
    "epoch": "Compare the last ten epochs: the best epoch was chosen on the test set, and is there only to be read "
    "beside them. The clean share is that of right labels among those kept in the last ten epochs.",
    "round": "Compare the last round: the best one was chosen on the test set, and is there only to be read beside it. "
    "The clean share is that of clean examples among all that were chosen after the start.",
}


def write_page(suite: Suite, scale: str, results: Sequence[Result], folder: Path, source: Path) -> Path:
    """Write SUITE-SCALE.md and, beside it, pictures: curves, and scores against numbers that cells differ in.

    Pictures of an earlier page that this one does not show are removed.
    """
    rows = compare(suite, scale, results)
    curves = curves_svg(suite, rows)
    drawn, bare = {}, [data.partition(":")[0] for data in curves]
    for data, base, svg in zip(curves, bare, curves.values(), strict=True):
        part = data if bare.count(base) > 1 else base  # digits:4,9 beside digits
        name = _picture(suite, scale, part if len(curves) > 1 else "")
        drawn[name] = (f"The score of each method over the {suite.clock}s", svg)
    for data, svg in columns_svg(suite, rows).items():
        name = _picture(suite, scale, f"{data.partition(':')[0]}-shares")
        drawn[name] = (SHARES[suite.clock], svg)
    for axis, svg in numbers_svg(rows).items():
        measure = "error" if axis.as_errors else "score"
        drawn[_picture(suite, scale, axis.title)] = (f"The {measure} of each method against: {axis.title}", svg)
    for old in {*folder.glob(_picture(suite, scale, "")), *folder.glob(f"{suite.name}-{scale}-*.svg")}:
        if old.name not in drawn:
            old.unlink()
    for name, (_, svg) in drawn.items():
        _write(folder / name, svg)
    page = folder / f"{suite.name}-{scale}.md"
    _write(page, markdown(suite, scale, results, source, {name: words for name, (words, _) in drawn.items()}))
    return page


def _write(place: Path, text: str) -> None:
    write_whole(place, lambda path: path.write_text(text, encoding="utf-8"))


def _picture(suite: Suite, scale: str, part: str) -> str:
    """The file name of a picture of this part.

    >>> from thresher.bench.suites import SUITES
    >>> _picture(SUITES["l2rw"], "small", "labels flipped, %")
    'l2rw-small-labels-flipped.svg'
    """
    return "-".join(re.findall(r"[a-z0-9]+", f"{suite.name}-{scale}-{part}".lower())) + ".svg"


def markdown(suite: Suite, scale: str, results: Sequence[Result], source: Path, pictures: Mapping[str, str]) -> str:
    """The whole page: what was run, averages, the table of each cell, curves, and where the numbers come from."""
    rows = compare(suite, scale, results)
    command = f"thresher bench run {suite.name} --scale {scale}"
    show = f"thresher bench show {suite.name} --scale {scale}"
    parts = [
        f"# {suite.title} ({scale} scale)",
        f"<!-- Made from {source.as_posix()} by `{show}`: run that again instead of editing this. -->",
        f"Paper: {suite.paper}." if suite.paper else "",
        f"Scores are means over seeds ± their sample deviation. {READING[suite.clock]} Seconds are those of one run.",
        f"Run with `{command}`, shown with `{show}`.",
        *suite.scale(scale).notes,
        *_conclusions(suite, rows),
        *side_by_side(suite, rows),
        *(f"![{words}]({name})" for name, words in pictures.items()),
    ]
    parts += _cells(suite, scale, rows)
    parts.append(_origin(results, rows))
    if other := left_out(suite, scale, results):
        parts.append(f"{other} stored results were made with other settings and are left out.")
    return "\n\n".join(part for part in parts if part) + "\n"


def _cells(suite: Suite, scale: str, rows: Sequence[Row]) -> list[str]:
    """The table of each cell, and the names of those in which nothing was run."""
    parts, (tried, empty) = [], tried_cells(suite, scale, rows)
    for cell in tried:
        here = [row for row in rows if row.cell is cell]
        parts += [f"## {cell.name}", about(suite, scale, cell), table(*cell_table(suite, here, cell))]
        parts += [f"{row.entry.name} failed: {row.reasons[-1]}" for row in here if row.reasons]
        parts.append(_columns_table(suite, here))
    return parts + _not_run(rows, empty)


def tried_cells(suite: Suite, scale: str, rows: Sequence[Row]) -> tuple[list[Cell], list[str]]:
    """The cells in which something was run, and the names of the others."""
    names = {row.cell.name for row in rows if row.results or row.reasons}
    cells = suite.scale(scale).cells
    return [cell for cell in cells if cell.name in names], [cell.name for cell in cells if cell.name not in names]


def _not_run(rows: Sequence[Row], cells: Sequence[str]) -> list[str]:
    """The names of cells in which nothing was run, and what the paper has there."""
    if not cells:
        return []
    printed: dict[str, dict[str, str]] = {}
    for row in rows:
        if row.paper is not None and row.cell.name in cells:
            printed.setdefault(row.entry.label or row.entry.name, {})[row.cell.name] = _as_printed(row.paper)
    known = [cell for cell in cells if any(cell in numbers for numbers in printed.values())]
    body = [[label, *(found.get(cell, "") for cell in known)] for label, found in printed.items()]
    numbers = ["The paper's numbers:", table(["method", *known], body)] if body else []
    return ["## Not run here", nothing_of(cells), *numbers]


def nothing_of(cells: Sequence[str]) -> str:
    return f"Nothing was run here of {', '.join(cells)}."


def _conclusions(suite: Suite, rows: Sequence[Row]) -> list[str]:
    """What the table comes to, where something is concluded from it: averages, and how far each claim holds."""
    of_the_paper, own = (claims_table(suite, rows, claims) for claims in (suite.claims, suite.questions))
    if not of_the_paper + own:
        return []
    parts = [
        "## On average",
        f"Means over the cells that were run, of the {suite.final}; blank where a method lacks one of them.",
        table(*averages_table(suite, rows)),
        f"The same of the best {suite.clock}: far above means that a method later learnt the noise by heart.",
        table(*averages_table(suite, rows, "best")),
    ]
    if of_the_paper:
        parts += [
            "## What the paper concludes",
            "Each line is a comparison that comes out this way in the paper, and how it comes out here.",
            table(CLAIM_HEADS, of_the_paper),
        ]
    if own:
        parts += ["## What we asked beside it", "Does it help? How it comes out.", table(CLAIM_HEADS, own)]
    return parts


def cell_table(suite: Suite, rows: Sequence[Row], cell: Cell) -> tuple[list[str], list[list[str]]]:
    """The heads and the lines of a cell's table in words; without a paper there is nothing to compare with."""
    printed = any(name == cell.name for name, _ in suite.published)
    heads = ["method", "paper", suite.final, "gap", f"best {suite.clock}", "clean share", "seconds", "seeds"]
    shown = [place for place, head in enumerate(heads) if printed or head not in OF_A_PAPER]
    return [heads[place] for place in shown], [[line[place] for place in shown] for line in _lines(suite, rows, cell)]


def _lines(suite: Suite, rows: Sequence[Row], cell: Cell) -> list[list[str]]:
    found = []
    for row in rows:
        if row.cell is not cell:
            continue
        digits = digits_of(cell.metric)
        paper = "" if row.paper is None else f"{_as_printed(row.paper)} ({row.paper.table})"
        line = [row.entry.label or row.entry.name, paper]
        if row.last is None:
            line += ["failed" if row.reasons else NOT_RUN, "", "", "", "", f"0 of {row.wanted}"]
        else:
            line += [
                with_spread(row.last, digits),
                "" if row.gap is None else f"{row.gap:+.{digits}f}",
                with_spread(row.best, digits),
                _clean_share(row, suite.shares.get((cell.name, row.entry.name))),
                f"{row.seconds:.1f}",
                f"{row.seeds}" if row.seeds >= row.wanted else f"{row.seeds} of {row.wanted}",
            ]
        found.append(line)
    return found


def _clean_share(row: Row, paper: Published | None) -> str:
    """The share, with the paper's where it gives one."""
    if row.clean_share is None:
        return ""
    return f"{row.clean_share:.3f}" + ("" if paper is None else f" (paper {paper.value / 100:.3f})")


def _as_printed(number: Published) -> str:
    return f"{number.value:g}" + ("" if number.spread is None else f" ± {number.spread:g}")


def about(suite: Suite, scale: str, cell: Cell, told: str | None = None) -> str:
    """What a cell is, in one line."""
    if told is None:
        told = "told nothing of the noise" if cell.noise_rate is None else f"told a noise rate of {cell.noise_rate:g}"
    clean = "" if cell.clean is None else f", {cell.clean} clean examples"
    if cell.validation is not None:
        clean += f", {cell.validation:.0%} left alone for early stopping"
    corruption = cell.corruption or "as it is"
    if cell.options:
        corruption += f" to {', '.join(cell.options)} by seed"
    setup: Setup = setup_for(suite.scale(scale), cell, suite.methods[0])
    options = ", ".join(f"{name} {value}" for name, value in setup.optimizer.items() if name != "name")
    length = f"{setup.epochs} epochs" if setup.epochs is not None else f"{setup.steps} steps"
    if setup.queries is not None:
        length += f" at most, {setup.queries.start:,} labels and {setup.queries.rounds} × {setup.queries.count} more"
    return (
        f"{cell.metric} on {cell.data}, {corruption}{clean}; methods are {told}; "
        f"{setup.model}, {setup.optimizer['name']} ({options}), batch {setup.batch}, {length}."
    )


def _columns_table(suite: Suite, rows: Sequence[Row]) -> str:
    """Whatever else the suite measures, at the end; the clean share already has its place."""
    if suite.drawn and len(suite.methods) == 1:  # they stand side by side
        return ""
    names = [name for name in (*suite.columns, *rows[0].cell.columns) if name != "clean_share"]
    body = []
    for row in rows:
        values = [column_mean(row, name, LAST if suite.clock == "epoch" else 1) for name in names]
        if any(value is not None for value in values):
            words = ["" if value is None else f"{value.value:.3f}" for value in values]
            body.append([row.entry.label or row.entry.name, *words])
    return f"Also measured, {suite.final}:\n\n" + table(["method", *names], body) if body else ""


def _origin(results: Sequence[Result], rows: Sequence[Row]) -> str:
    """The machines, versions and commits of the results on the page."""
    used = [result for row in rows for result in row.results]
    if not used:
        return f"Of {len(results)} stored results none belongs to this page yet."
    machines = sorted({_machine(result["machine"]) for result in used})
    versions = sorted({", ".join(f"{name} {v}" for name, v in result["versions"].items()) for result in used})
    commits = sorted({_commit(result) for result in used})
    return f"Machine: {'; '.join(machines)}. Versions: {'; '.join(versions)}. Commit: {'; '.join(commits)}."


def _machine(machine: dict[str, Any]) -> str:
    """The machine in words: what computed, and how much of it each run had."""
    side_by_side = f", {machine['jobs']} runs side by side" if machine["jobs"] > 1 else ""
    cpu = f"{machine['cpu']}, {machine['threads']} of {machine['cores']} cores a run{side_by_side}"
    return cpu if machine["gpu"] is None else f"{machine['gpu']} ({cpu})"


def _commit(result: Result) -> str:
    if result["commit"] is None:
        return "none"
    return str(result["commit"])[:10] + (" with changes" if result["dirty"] else "")
