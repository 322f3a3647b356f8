"""The cells of a suite side by side, and the same tables inside other pages of the docs."""

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from thresher.bench.compare.claims import digits_of
from thresher.bench.compare.rows import ALL_DATA, Mean, Row, column_mean
from thresher.bench.definition.suite import Suite
from thresher.bench.pages.markdown import table, with_spread
from thresher.core.files import write_whole

Line = dict[str, str]  # text by cell


def side_by_side(suite: Suite, rows: Sequence[Row]) -> list[str]:
    """For each data set, a sentence and a table with a column for each cell, of what the suite plots over the epochs.

    A line is a method, with a table of its scores first; or, in suites of one method, a column. Suites over rounds have
    no such tables, because what they plot accumulates.
    """
    shown = [row for row in rows if row.results] if suite.drawn and suite.clock == "epoch" else []
    parts = []
    for data in dict.fromkeys(row.cell.data for row in shown):
        here = [row for row in shown if row.cell.data == data]
        cells = list(dict.fromkeys(row.cell.name for row in here))
        for title, lines in _tables(suite, here).items():
            body = [[name, *(words.get(cell, "") for cell in cells)] for name, words in lines.items()]
            parts += [f"{title}, {suite.final}, on {data}:", table(["", *cells], body)]
    return parts


def _tables(suite: Suite, rows: Sequence[Row]) -> dict[str, dict[str, Line]]:
    found: dict[str, dict[str, Line]] = {}

    def put(title: str, line: str, row: Row, value: Mean | None, digits: int = 3) -> None:
        found.setdefault(title, {}).setdefault(line, {})[row.cell.name] = with_spread(value, digits)

    for row in rows:
        if len(suite.methods) == 1:
            put("Clean share", ALL_DATA, row, None if row.clean_share is None else Mean(row.clean_share, None))
            for name in suite.columns:
                put("Clean share", suite.labels.get(name, name), row, column_mean(row, name))
        else:
            method = row.entry.label or row.entry.name
            put(row.cell.metric.capitalize(), method, row, row.last, digits_of(row.cell.metric))
            for name in suite.drawn:
                put(name.replace("_", " ").capitalize(), method, row, column_mean(row, name))
    return found


def insert_tables(text: str, name: str, parts: Sequence[str]) -> str:
    """The text with these parts between the comments `tables: NAME` and `end`; unchanged without such comments.

    >>> insert_tables("before <!-- tables: a --> old <!-- end --> after", "a", ["new"])
    'before <!-- tables: a -->\\n\\nnew\\n\\n<!-- end --> after'
    """
    pattern = re.compile(rf"(<!-- tables: {re.escape(name)} -->).*?(<!-- end -->)", re.DOTALL)
    return pattern.sub(lambda found: "\n\n".join([found[1], *parts, found[2]]), text)


def insert_tables_in_pages(folder: Path, name: str, parts: Sequence[str]) -> list[Path]:
    """Update the tables of this name in the pages of the folder, and return the pages that changed."""
    changed = []
    for page in sorted(folder.glob("*.md")):
        text = page.read_text(encoding="utf-8")
        new = insert_tables(text, name, parts)
        if new != text:
            write_whole(page, partial(Path.write_text, data=new, encoding="utf-8"))
            changed.append(page)
    return changed
