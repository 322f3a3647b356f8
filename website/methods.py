"""The parts of a method's page that are made: its cost, the paper's numbers beside ours, and what it needs."""

from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from statistics import fmean

from thresher.bench.compare.claims import digits_of
from thresher.bench.compare.rows import Mean
from thresher.bench.pages.cell_tables import as_printed
from thresher.bench.pages.markdown import table, with_spread
from thresher.methods import Method, methods
from website.stored import Stored, baseline_of, beside_baseline, costs, stored_rows

BASELINE_WORDS = {
    "standard": "plain training",
    "random": "a random choice",
    "unweighted": "weights that are all the same",
}
NEEDS = {
    "noise_rate": "the share of wrong targets: given, or [estimated by the run](../noise-rate.md)",
    "clean": "some examples that are known to be right ([`clean=`](l2rw.md#the-clean-set))",
    "model factory": "a function or a name that makes the model, because several networks are trained",
    "column is_corrupt": "to be told which examples are corrupt: it is for comparison only",
    "column true_target": "to be told the true labels: it is for comparison only",
    "average": "a moving average of the model (`Recipe(average=...)`)",
    "labelled": "the examples that are labelled already, to stay away from them",
    "validation": "a validation set that the teacher has not learnt from",
}
TASKS = {
    "classification": "classes",
    "regression": "real targets",
    "multi-label": "several labels an example",
    "dense": "a label for every token or pixel",
}
CLOCKS = {
    "batch": "It decides anew in every batch.",
    "epoch": "It decides once an epoch, about the whole training set.",
    "round": "It is asked once a round, about the whole pool.",
}
NO_RESULT = "No stored result has it beside {}."


def method_parts(root: Path, page: str) -> str:
    """What is added to this page of the site: three parts where it is the page of a method, and nothing elsewhere."""
    path, known = PurePosixPath(page), {each.name: each for each in methods()}
    if path.parent.name != "methods" or path.stem not in known:
        return ""
    name = path.stem
    parts = ["", "## Cost", *_cost(root, name), "## The paper and ours", *_numbers(root, name), "## What it needs"]
    return "\n\n".join([*parts, _needs(known[name])]) + "\n"


def _cost(root: Path, name: str) -> list[str]:
    baseline = BASELINE_WORDS[baseline_of(name)]
    if name == baseline_of(name):
        return ["It is the measure of the others: 1."]
    rows = [
        [where, f"{cost.middle:.2f}×", f"{cost.least:.2f}× to {cost.most:.2f}×", f"{cost.cells}"]
        for where, cost in costs(root, name).items()
    ]
    if not rows:
        return [NO_RESULT.format(baseline)]
    told = f"The time of a whole run, as a multiple of {baseline} in the same cells of the stored suites:"
    return [told, table(["on", "median", "least to most", "cells"], rows)]


def _numbers(root: Path, name: str) -> list[str]:
    printed = [each for each in stored_rows(root) if each.method == name and each.row.paper is not None]
    run = [each for each in printed if each.row.last is not None]
    parts = []
    if run:
        heads = ["cell", "paper", "ours", "gap", "seeds"]
        told = "Scores as the paper prints them, ours as the mean over seeds ± their sample deviation."
        parts += [told, table(heads, [_line(each) for each in run])]
    if missing := len(printed) - len(run):
        parts.append(f"{missing} printed numbers are of cells that were not run here.")
    if not printed:
        parts.append("No suite holds a printed number for it.")
    return parts + _averages(root, name)


def _line(each: Stored) -> list[str]:
    row = each.row
    digits = digits_of(row.cell.metric)
    assert row.paper is not None
    ours = row.best if row.paper.score == "best" else row.last
    gap = "" if row.gap is None else f"{row.gap:+.{digits}f}"
    paper = f"{as_printed(row.paper)} ({row.paper.table})"
    return [f"[{row.cell.name}](../{each.page}#{row.cell.name})", paper, with_spread(ours, digits), gap, f"{row.seeds}"]


def _averages(root: Path, name: str) -> list[str]:
    baseline, groups = baseline_of(name), dict[tuple[str, str], list[tuple[Stored, Stored]]]()
    for own, plain in beside_baseline(root, name) if name != baseline else ():
        groups.setdefault((own.page, own.row.cell.metric), []).append((own, plain))
    body = []
    for (page, metric), pairs in groups.items():
        gains = [own.row.last.value - plain.row.last.value for own, plain in pairs if own.row.last and plain.row.last]
        digits, seeds = digits_of(metric), sorted({own.row.seeds for own, _ in pairs})
        body.append([
            f"[{Path(page).stem}](../{page}), {metric}", f"{len(pairs)}",
            with_spread(_mean([own for own, _ in pairs]), digits),
            with_spread(_mean([plain for _, plain in pairs]), digits),
            f"{min(gains):+.{digits}f} to {max(gains):+.{digits}f}",
            f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}",
        ])  # fmt: skip
    if not body:
        return [] if name == baseline else [NO_RESULT.format(BASELINE_WORDS[baseline])]
    told = f"Beside {BASELINE_WORDS[baseline]}, means over the cells that both have ± the mean deviation over seeds:"
    return [told, table(["suite", "cells", name, baseline, "gain in a cell", "seeds"], body)]


def _mean(rows: Sequence[Stored]) -> Mean:
    means = [each.row.last for each in rows if each.row.last is not None]
    spreads = [mean.spread for mean in means if mean.spread is not None]
    return Mean(fmean(mean.value for mean in means), fmean(spreads) if spreads else None)


def _needs(known: Method) -> str:
    first, *others = [TASKS[task] for task in known.tasks]
    tasks = first if not others else f"{', '.join([first, *others[:-1]])} and {others[-1]}"
    needs = [f"- {NEEDS[need]}" for need in known.needs] or ["- nothing beside the data and a model"]
    return "\n".join([f"It is for {tasks}. {CLOCKS[known.clock]} It needs", "", *needs])
