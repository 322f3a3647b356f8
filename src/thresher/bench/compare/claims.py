"""Averages over the cells of a table, and how far the conclusions of a paper hold in ours."""

from collections.abc import Sequence
from itertools import product
from statistics import fmean

from thresher.bench.compare.paired import paired, scores_by_seed
from thresher.bench.compare.rows import PERCENT_METRICS, Row
from thresher.bench.definition.grid import Cell
from thresher.bench.definition.suite import Claim, Suite

RowPair = tuple[Row, Row]  # two methods in the same cell

CLAIM_HEADS = ("above", "below", "on average", "cells", "it holds in", "undecided in", "not in")
OF_METRIC = {"r2": " on real targets"}
SAID = {"holds": "it holds", "undecided": "**undecided**", "not": "**it does not hold**"}


def averages_table(suite: Suite, rows: Sequence[Row], score: str = "last") -> tuple[list[str], list[list[str]]]:
    """Heads and lines: each method's mean over the cells of each data set, and over the paper's own cells.

    Only cells that were run count, and a method without a result in one of them has no average. The paper's averages
    stand beside those of the last epochs only.
    """
    ours = {source: _averages([row for row in rows if row.cell.source == source], score) for source in _sources(rows)}
    theirs = _published_averages(suite) if score == "last" else {}
    heads = ["method", *(f"{data} ({_cell_count(cells)})" for data, (cells, _) in ours.items())]
    heads += [f"{data}, the paper's ({_cell_count(cells)})" for data, (cells, _) in theirs.items()]
    lines = []
    for entry in suite.methods:
        words = [scores.get(entry.name, "") for _, scores in (*ours.values(), *theirs.values())]
        if any(words):
            lines.append([entry.label or entry.name, *words])
    return heads, lines


def claims_table(suite: Suite, rows: Sequence[Row], claims: Sequence[Claim]) -> list[list[str]]:
    """A line for each two methods of each claim: their averages over the cells that both have, and where it fails."""
    return [
        line
        for claim in claims
        for better in claim.better
        for worse in claim.worse
        if (line := _claim_line(suite, claim, better, worse, rows)) is not None
    ]


def verdict(suite: Suite, rows: Sequence[Row]) -> str:
    """Which of the paper's conclusions hold here on average, which do not, and how sure that is: the head of a page."""
    more = "" if suite.verdict is None else suite.verdict(rows)
    if not suite.claims:
        return f"**What holds here.** {more or 'No paper makes these comparisons: they are ours.'}"
    told: dict[str, dict[str, list[str]]] = {}
    seeds, cells = [], set()
    for claim in suite.claims:
        for better, worse in product(claim.better, claim.worse):
            if pairs := _pairs_of(claim, better, worse, rows):
                whole = paired([_by_seed(pair) for _, pair in pairs])
                name = _label(suite, better) + _where(claim)
                sure = "" if whole.verdict == "holds" else f" ({whole.words(digits_of(claim.metric))})"
                told.setdefault(name, {}).setdefault(whole.verdict, []).append(_label(suite, worse) + sure)
                seeds.append(whole.seeds)
                cells |= {cell.name for cell, _ in pairs}
    if not told:
        return "**What holds here.** Nothing that the paper compares was run."
    head = (
        f"**What holds here**, on average over the cells that both have ({len(cells)} in all, {_seeds(seeds)}), where "
        "the 95% interval of differences paired by seed excludes zero. One seed decides nothing."
    )
    lines = [f"- {name}. {_outcome(found)}" for name, found in told.items()]
    return "\n".join([head, "", *lines, *([f"- {more}"] if more else [])])


def _where(claim: Claim) -> str:
    """To which of the cells the claim is limited."""
    data = f" on {claim.data}" if claim.data else OF_METRIC.get(claim.metric, "")
    return data + (f" ({', '.join(claim.corruptions)})" if claim.corruptions else "")


def _seeds(counts: Sequence[int]) -> str:
    """How many seeds decide.

    >>> _seeds([1, 1]), _seeds([3, 5])
    ('one seed', '3 to 5 seeds')
    """
    least, most = min(counts), max(counts)
    return f"{least} to {most} seeds" if least < most else "one seed" if most == 1 else f"{most} seeds"


def _outcome(told: dict[str, list[str]]) -> str:
    """What is said of one method, the conclusions that hold first."""
    words = {"holds": "Above, as in the paper:", "not": "**Not above**:", "undecided": "Undecided:"}
    return " ".join(f"{said} {'; '.join(dict.fromkeys(told[each]))}." for each, said in words.items() if each in told)


def _label(suite: Suite, name: str) -> str:
    return next(entry.label or entry.name for entry in suite.methods if entry.name == name)


def _pairs_of(claim: Claim, better: str, worse: str, rows: Sequence[Row]) -> list[tuple[Cell, RowPair]]:
    """The cells of a claim in which both methods were run, with their rows; a part counts where the whole does not."""
    found = {(row.cell.name, row.entry.name): row for row in rows if row.last is not None}
    cells = {row.cell.name: row.cell for row in rows if claim.applies_to(row.cell)}
    run = [name for name in cells if (name, better) in found and (name, worse) in found]
    return [(cells[name], (found[name, better], found[name, worse])) for name in run if cells[name].part_of not in run]


def _claim_line(suite: Suite, claim: Claim, better: str, worse: str, rows: Sequence[Row]) -> list[str] | None:
    pairs = _pairs_of(claim, better, worse, rows)
    if not pairs:
        return None
    digits = digits_of(claim.metric)
    verdicts = {cell.name: paired([_by_seed(pair)]).verdict for cell, pair in pairs}
    against = [f"{cell.name} ({_versus([pair], digits)})" for cell, pair in pairs if verdicts[cell.name] == "not"]
    counts = [str(sum(verdict == each for verdict in verdicts.values())) for each in ("holds", "undecided")]
    return [
        _label(suite, better) + _where(claim),
        _label(suite, worse),
        _on_average(pairs, digits),
        str(len(pairs)),
        *counts,
        ", ".join(against),
    ]


def _on_average(pairs: Sequence[tuple[Cell, RowPair]], digits: int) -> str:
    """Both averages, the verdict on their paired difference, and each data set whose difference contradicts it."""
    whole = paired([_by_seed(pair) for _, pair in pairs])
    words = f"{_versus([pair for _, pair in pairs], digits)}: {SAID[whole.verdict]} ({whole.words(digits)})"
    for data in dict.fromkeys(cell.data for cell, _ in pairs):
        part = [pair for cell, pair in pairs if cell.data == data]
        if paired([_by_seed(pair) for pair in part]).mean * whole.mean < 0:
            words += f", the other way on {data} ({_versus(part, digits)})"
    return words


def _by_seed(pair: RowPair) -> tuple[dict[int, float], dict[int, float]]:
    return scores_by_seed(pair[0]), scores_by_seed(pair[1])


def _versus(pairs: Sequence[RowPair], digits: int) -> str:
    high, low = (fmean(last.value for pair in pairs if (last := pair[place].last)) for place in (0, 1))
    return f"{high:.{digits}f} against {low:.{digits}f}"


def digits_of(metric: str) -> int:
    """How many decimals a score of this metric is printed with."""
    return 1 if metric in PERCENT_METRICS else 3


def _cell_count(count: int) -> str:
    return f"{count} cell" + "s" * (count != 1)


def _sources(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(row.cell.source for row in rows if row.last is not None))


def _averages(rows: Sequence[Row], score: str) -> tuple[int, dict[str, str]]:
    """The number of cells, and each method's average as text."""
    found: dict[str, list[float]] = {}
    for row in rows:
        mean = row.last if score == "last" else row.best
        if mean is not None:
            found.setdefault(row.entry.name, []).append(mean.value)
    cells = len({row.cell.name for row in rows if row.last is not None})
    digits = digits_of(rows[0].cell.metric)
    return cells, {name: f"{fmean(values):.{digits}f}" for name, values in found.items() if len(values) == cells}


def _published_averages(suite: Suite) -> dict[str, tuple[int, dict[str, str]]]:
    known = {cell.name: cell for scale in suite.scales.values() for cell in scale.cells}
    found: dict[str, dict[str, list[float]]] = {}
    for (cell, row), number in suite.published.items():
        found.setdefault(known[cell].data, {}).setdefault(row, []).append(number.value)
    metrics = {cell.data: cell.metric for cell in known.values()}
    shown = {}
    for data, by_method in found.items():
        cells, digits = max(map(len, by_method.values())), digits_of(metrics[data])
        words = {name: f"{fmean(values):.{digits}f}" for name, values in by_method.items() if len(values) == cells}
        shown[data] = (cells, words)
    return shown
