"""What papers conclude beside comparisons of two methods, in sentences made from rows: the head of a page has them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from thresher.bench.compare.paired import paired, scores_by_seed
from thresher.bench.compare.rows import Row
from thresher.bench.definition.grid import Cell
from thresher.bench.definition.points import Axis

BySeed = Mapping[int, float]


def label(row: Row) -> str:
    return row.entry.label or row.entry.name


def values_by_seed(row: Row, value: Callable[[Mapping[str, Any]], float | None]) -> dict[int, float]:
    """What this finds in each result, by seed."""
    found = {result["seed"]: value(result) for result in row.results}
    return {seed: number for seed, number in found.items() if number is not None}


def clean_shares(row: Row) -> dict[int, float]:
    return values_by_seed(row, lambda result: result["clean_share"])


def along(rows: Iterable[Row], axis: Axis, method: str) -> dict[float, Row]:
    """The rows of a method by the number at which their cells stand on this axis."""
    return {
        point.value: row
        for row in rows
        for point in row.cell.points
        if point.axis == axis and row.entry.name == method and row.results
    }


def change(first: Row, other: Row) -> str:
    """By how much the score changes from the first cell to the other, in words."""
    return paired([(scores_by_seed(other), scores_by_seed(first))]).words(1)


def noise_takes_its_share(rows: Sequence[Row]) -> str:
    """Of active learning: what noise in the pool costs each method, and how clean the picks are."""
    done = [row for row in rows if row.results and not row.entry.name.endswith("-avoid")]
    clean = {(_pool(row.cell), row.entry.name): row for row in done if row.cell.corruption is None}
    costs = []
    for name in dict.fromkeys(row.entry.name for row in done):
        noisy = [row for row in done if row.entry.name == name and row.cell.corruption is not None]
        both = [(row, clean[_pool(row.cell), name]) for row in noisy if (_pool(row.cell), name) in clean]
        if both:
            difference = paired([(scores_by_seed(row), scores_by_seed(base)) for row, base in both])
            costs.append(f"{label(both[0][0])} {difference.words(1)}")
    picks = [
        f"{label(row)} {row.clean_share:.3f} ({row.cell.name})"
        for row in done
        if row.entry.name in ("badge", "s-badge")
        and (row.cell.corruption or "").startswith("blank")
        and row.clean_share
    ]
    by_both = [
        (shares, others)
        for row in done
        if row.entry.name == "confidence" and row.cell.corruption and (shares := clean_shares(row))
        for other in done
        if other.entry.name == "random" and other.cell is row.cell and (others := clean_shares(other))
    ]
    said = []
    if costs:
        said.append(
            f"The paper: noise in the pool costs every method much. Here, against the clean pool: {_list(costs)}."
        )
    if picks:
        said.append(f"The paper: Badge and S-Badge pick 0.990 clean from the blank pool. Here: {_list(picks)}.")
    if by_both:
        less = paired(by_both).words(3)
        said.append(f"The paper: confidence prefers noise. Here its picks are cleaner than random ones by {less}.")
    return " ".join(said)


def _pool(cell: Cell) -> tuple[str, str]:
    return cell.source, str(cell.changes.get("model", ""))


def ahead_all_along(rows: Sequence[Row]) -> str:
    """Of distillation, Appendix B.1: in which share of the epochs the weighted student is above the unweighted one."""
    found = {(row.cell.name, row.entry.name): row for row in rows if row.results}
    runs = [
        [high - low for high, low in zip(weighted["scores"], plain["scores"], strict=True)]
        for name in {name for name, _ in found}
        if (name, "debias") in found and (name, "unweighted") in found
        for weighted in found[name, "debias"].results
        for plain in found[name, "unweighted"].results
        if weighted["seed"] == plain["seed"]
    ]
    if not runs:
        return ""
    above = fmean(fmean(gain > 0 for gain in run) for run in runs)
    level = fmean(fmean(gain == 0 for gain in run) for run in runs)
    return (
        "The paper: the weighted student is above the unweighted one almost throughout a training. Here Debias is in "
        f"{above:.0%} of the epochs, and level in {level:.0%}, on average over {len(runs)} pairs of runs."
    )


def best_temperature(axis: Axis) -> Callable[[Sequence[Row]], str]:
    """Of distillation, Appendix B.2: at which temperature the best student of all learns, and of which weights."""

    def said(rows: Sequence[Row]) -> str:
        best: dict[str, tuple[float, str, float]] = {}
        for row in rows:
            for point in row.cell.points:
                if point.axis == axis and row.entry.name in ("unweighted", "debias") and row.last is not None:
                    score = (row.last.value, label(row), point.value)
                    best[row.cell.data] = max(score, best.get(row.cell.data, score))
        words = [f"on {data} {name} at {value:g} ({score:.1f})" for data, (score, name, value) in best.items()]
        return (
            f"The paper: the best student of all is weighted, at temperature 2. Here: {_list(words)}." if words else ""
        )

    return said


def fewer_are_cleaner(kinds: Mapping[str, str]) -> Callable[[Sequence[Row]], str]:
    """Of CRUST's Figure 1(a): what is kept is cleaner where less is kept, and gets cleaner over the epochs."""

    def said(rows: Sequence[Row]) -> str:
        found = {(row.cell.name, row.entry.name): row for row in rows if row.results}
        cells = list(dict.fromkeys(name for name, _ in found))
        words, later = [], []
        for kind, name in kinds.items():
            pairs = [(found.get((cell, f"{kind}-30")), found.get((cell, f"{kind}-70"))) for cell in cells]
            both = [(clean_shares(few), clean_shares(many)) for few, many in pairs if few and many]
            if both:
                words.append(f"{name} {paired(both).words(3)}")
            half = [row for cell in cells if (row := found.get((cell, f"{kind}-50")))]
            if half:
                grown = paired([(clean_shares(row), values_by_seed(row, _at_first)) for row in half])
                later.append(f"{name} {grown.words(3)}")
        if not words:
            return ""
        return (
            "The paper: labels are right more often among 30% than among 70%. Here the share differs by: "
            f"{_list(words)}. The paper: fewer are wrong as training goes on. Here, the last ten epochs against the "
            f"first selection, of half: {_list(later)}."
        )

    return said


def _at_first(result: Mapping[str, Any]) -> float | None:
    """The clean share of the first selection: of all labels before it."""
    shares = [share for share in result["columns"].get("clean_share", []) if share is not None]
    return next((share for share in shares if share != shares[0]), None)


def error_grows(rows: Sequence[Row]) -> str:
    """Of L2RW, section 4.1: by how much its error grows with the imbalance."""
    words = []
    mine = [row for row in rows if row.entry.name == "l2rw" and (row.cell.corruption or "").startswith("imbalance:")]
    for data in dict.fromkeys(row.cell.data for row in mine):
        found = {row.cell.points[0].value: row for row in mine if row.cell.data == data and row.results}
        if len(found) > 1:
            grown = change(found[max(found)], found[min(found)])
            words.append(f"{grown} on {data}, from {min(found):g}:1 to {max(found):g}:1")
    return f"The paper: at 200:1 the error has grown by about 2%, of ten runs. Here: {_list(words)}." if words else ""


def falls_less(axis: Axis, at: float = 50) -> Callable[[Sequence[Row]], str]:
    """Of L2RW's Figure 5: what half of the labels flipped costs it, and plain training."""

    def said(rows: Sequence[Row]) -> str:
        mine, plain = (along(rows, axis, name) for name in ("l2rw", "standard"))
        if not {0, at} <= mine.keys() & plain.keys():
            return ""
        return (
            f"The paper: from 0 to {at:g}% flipped to the background L2RW loses 6 and the baseline more than 40, and "
            f"at 0 L2RW is slightly below. Here L2RW changes by {change(mine[0], mine[at])}, the baseline by "
            f"{change(plain[0], plain[at])}, and at 0 L2RW is above it by {change(plain[0], mine[0])}."
        )

    return said


def few_are_enough(axis: Axis, usual: float = 100) -> Callable[[Sequence[Row]], str]:
    """Of L2RW's Figure 4: how many clean examples it needs, and from how many on fine-tuning does as well."""

    def said(rows: Sequence[Row]) -> str:
        mine, tuned = (along(rows, axis, name) for name in ("l2rw", "standard+ft"))
        sizes = sorted(mine.keys() & tuned.keys())
        if usual not in sizes or len(sizes) < 3:
            return ""
        least, most = sizes[0], sizes[-1]
        ahead = [f"{size:g}: {change(tuned[size], mine[size])}" for size in sizes]
        return (
            "The paper: with 15 clean examples L2RW loses 2, beyond 100 it gains nothing, and fine-tuning the baseline "
            f"catches up around 1,000. Here, against {usual:g}: {change(mine[usual], mine[least])} with {least:g} and "
            f"{change(mine[usual], mine[most])} with {most:g}; above fine-tuning, by size: {_list(ahead)}."
        )

    return said


def all_of(*parts: Callable[[Sequence[Row]], str]) -> Callable[[Sequence[Row]], str]:
    """The sentences of all of these, a line for each."""
    return lambda rows: "\n- ".join(words for part in parts if (words := part(rows)))


def _list(words: Sequence[str]) -> str:
    return "; ".join(words)
