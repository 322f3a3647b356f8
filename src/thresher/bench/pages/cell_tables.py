"""The table of one cell: the paper's numbers beside ours, for the page and the terminal."""

from collections.abc import Sequence

from thresher.bench.compare.claims import digits_of
from thresher.bench.compare.rows import Row, column_mean
from thresher.bench.definition.grid import LAST_EPOCHS, Cell
from thresher.bench.definition.published import Published
from thresher.bench.definition.suite import Suite, setup_for
from thresher.bench.pages.markdown import table, with_spread

PAPER_COLUMNS = ("paper", "gap")
NOT_RUN = "not run here"


def split_cells(suite: Suite, scale: str, rows: Sequence[Row]) -> tuple[list[Cell], list[str]]:
    """The cells in which something was run, and the names of the others."""
    names = {row.cell.name for row in rows if row.results or row.reasons}
    cells = suite.scale(scale).cells
    return [cell for cell in cells if cell.name in names], [cell.name for cell in cells if cell.name not in names]


def none_run(cells: Sequence[str]) -> str:
    return f"Nothing was run here of {', '.join(cells)}."


def describe_cell(suite: Suite, scale: str, cell: Cell, told: str | None = None) -> str:
    """Data, corruption, what methods are told, and setup in one sentence."""
    if told is None:
        told = "told nothing of the noise" if cell.noise_rate is None else f"told a noise rate of {cell.noise_rate:g}"
    clean = "" if cell.clean is None else f", {cell.clean} clean examples"
    if cell.validation is not None:
        clean += f", {cell.validation:.0%} held out for early stopping"
    corruption = cell.corruption or "as it is"
    if cell.options:
        corruption += f" to {', '.join(cell.options)} by seed"
    setup = setup_for(suite.scale(scale), cell, suite.methods[0])
    given = {"lr": setup.learning_rate, "momentum": setup.momentum, "weight_decay": setup.weight_decay}
    options = ", ".join(f"{name} {value}" for name, value in given.items() if value)
    length = f"{setup.epochs} epochs" if setup.epochs is not None else f"{setup.steps} steps"
    if setup.queries is not None:
        length += f" at most, {setup.queries.start:,} labels and {setup.queries.rounds} × {setup.queries.count} more"
    return (
        f"{cell.metric} on {cell.source}, {corruption}{clean}; methods are {told}; "
        f"{setup.model}, {setup.optimizer} ({options}), batch {setup.batch}, {length}."
    )


def cell_table(suite: Suite, rows: Sequence[Row], cell: Cell) -> tuple[list[str], list[list[str]]]:
    """The heads and the lines of a cell's table as text; cells without a printed number have no columns for it."""
    printed = any(name == cell.numbers_of for name, _ in suite.published)
    heads = ["method", "paper", suite.final, "gap", f"best {suite.clock}", "clean share", "seconds", "seeds"]
    shown = [index for index, head in enumerate(heads) if printed or head not in PAPER_COLUMNS]
    lines = [_line(suite, row) for row in rows if row.cell is cell]
    return [heads[index] for index in shown], [[line[index] for index in shown] for line in lines]


def set_apart(heads: Sequence[str], lines: list[list[str]], printed: bool) -> tuple[list[list[str]], str]:
    """The lines of what was run, and a sentence with the other methods; with `printed` the paper's numbers stay too.

    >>> heads, lines = ["method", "paper", "last"], [["a", "", NOT_RUN], ["b", "71", NOT_RUN], ["c", "", "80"]]
    >>> set_apart(heads, lines, printed=True)
    ([['b', '71', 'not run here'], ['c', '', '80']], 'Not run here: a.')
    """
    paper = heads.index("paper") if printed and "paper" in heads else None
    shown = [line for line in lines if NOT_RUN not in line or (paper is not None and line[paper])]
    others = [line[0] for line in lines if line not in shown]
    return shown, f"Not run here: {'; '.join(others)}." if others else ""


def _line(suite: Suite, row: Row) -> list[str]:
    digits = digits_of(row.cell.metric)
    paper = "" if row.paper is None else f"{as_printed(row.paper)} ({row.paper.table})"
    label = row.entry.label or row.entry.name
    if row.last is None:
        return [label, paper, "failed" if row.reasons else NOT_RUN, "", "", "", "", f"0 of {row.wanted}"]
    return [
        label,
        paper,
        with_spread(row.last, digits),
        "" if row.gap is None else f"{row.gap:+.{digits}f}",
        with_spread(row.best, digits),
        _clean_share(row, suite.shares.get((row.cell.numbers_of, row.entry.name))),
        f"{row.seconds:.1f}",
        f"{row.seeds}" if row.seeds >= row.wanted else f"{row.seeds} of {row.wanted}",
    ]


def _clean_share(row: Row, paper: Published | None) -> str:
    """The share, with the paper's where it gives one."""
    if row.clean_share is None:
        return ""
    return f"{row.clean_share:.3f}" + ("" if paper is None else f" (paper {paper.value / 100:.3f})")


def as_printed(number: Published) -> str:
    return f"{number.value:g}" + ("" if number.spread is None else f" ± {number.spread:g}")


def columns_table(suite: Suite, rows: Sequence[Row]) -> str:
    """The last values of the suite's other columns; the clean share is in the cell's table."""
    if suite.drawn and len(suite.methods) == 1:  # they stand side by side
        return ""
    names = [name for name in (*suite.columns, *rows[0].cell.columns) if name != "clean_share"]
    body = []
    for row in rows:
        values = [column_mean(row, name, LAST_EPOCHS if suite.clock == "epoch" else 1) for name in names]
        if any(value is not None for value in values):
            texts = ["" if value is None else f"{value.value:.3f}" for value in values]
            body.append([row.entry.label or row.entry.name, *texts])
    return f"Also measured, {suite.final}:\n\n" + table(["method", *names], body) if body else ""
