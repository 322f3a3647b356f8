"""The HTML page of one or several active-learning loops."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from thresher.core.errors import ThresherError
from thresher.record import run_folder
from thresher.record.loop import read_loop
from thresher.report import charts
from thresher.report.charts import Figure, name_of, quantity
from thresher.report.gallery import stored_address
from thresher.report.page import placed, rendered
from thresher.report.run_record import Columns, read_previews
from thresher.report.summary import is_share, percent, score_text, seconds_text

MOST_CARDS, MOST_VALUES = 18, 6

Round = Mapping[str, Any]


@dataclass(frozen=True)
class LoopRecord:
    """One loop: the rule that chose, the seed, one record a round, and what some rounds chose."""

    by: str
    seed: int
    rounds: Sequence[Round]
    picks: Mapping[int, Columns]
    class_names: Sequence[str] | None = None
    folder: str = ""
    settings: str = ""  # everything else in which loops can differ


def read_loop_record(folder: Path) -> LoopRecord:
    """Read the folder of a loop."""
    stored = read_loop(folder)
    if stored is None or not stored["rounds"]:
        raise ThresherError(f"{folder} has no finished round of active learning: let the loop finish one first.")
    picks = {}
    for path in sorted((folder / run_folder.PICKS).glob("*.npz")):
        if path.stem.isdecimal():
            picks[int(path.stem)] = read_previews(path, "delete this file")
    identity = stored["identity"]
    settings = json.dumps({name: identity.get(name) for name in ("recipe", "rule", "start", "rounds", "settings")})
    names, rounds = stored.get("class_names"), stored["rounds"]
    return LoopRecord(_chosen_by(stored) or folder.name, identity["seed"], rounds, picks, names, str(folder), settings)


def _chosen_by(stored: Mapping[str, Any]) -> str:
    """The rule of a loop; where people gave the labels, each round may have its own."""
    identity = stored["identity"]
    if identity["by"] is None:
        return " then ".join(dict.fromkeys(record["by"] for record in stored["rounds"] if record.get("by")))
    avoid = identity.get("avoid")
    return identity["by"] if avoid is None else f"{identity['by']}-avoid-{avoid.rpartition('.')[2]}"


def loop_page(loops: Sequence[LoopRecord]) -> str:
    """The whole page; loops that differ in nothing but the seed are one line."""
    groups = lines_of(loops)
    shades = charts.METHOD_COLOURS
    colours = {name: shades[place % len(shades)] for place, name in enumerate(groups)}
    specs: list[dict[str, Any]] = []
    return rendered(
        "loop.html",
        specs,
        title="What to label next",
        lead=_lead(loops),
        headline=[_headline(name, group, colours[name]) for name, group in groups.items()],
        figures=placed(_figures(groups, colours), specs),
        sections=[section for name, group in groups.items() if (section := _section(name, group[0], colours[name]))],
    )


def lines_of(loops: Sequence[LoopRecord]) -> dict[str, list[LoopRecord]]:
    """Loops by the line they belong to, by the name of the rule and, where that is not enough, of the folder.

    >>> one, other = (LoopRecord("margin", 0, [], {}, folder=name) for name in ("blank", "clean"))
    >>> list(lines_of([one, other]))  # the same seed twice: two different loops
    ['margin (blank)', 'margin (clean)']
    """
    alike: dict[tuple[str, str], list[LoopRecord]] = {}
    for loop in loops:
        alike.setdefault((loop.by, loop.settings), []).append(loop)
    lines: list[list[LoopRecord]] = []
    for group in alike.values():
        lines += [group] if len({loop.seed for loop in group}) == len(group) else [[loop] for loop in group]
    names = Counter(line[0].by for line in lines)
    return {line[0].by if names[line[0].by] == 1 else f"{line[0].by} ({line[0].folder})": line for line in lines}


def band_points(group: Sequence[LoopRecord], value: str, method: str) -> list[dict[str, Any]]:
    """One point for each number of labels: mean, lowest and highest over the seeds that got there.

    >>> one, other = ([{"labelled": 10, "score": score}] for score in (0.5, 0.7))
    >>> band_points([LoopRecord("margin", 0, one, {}), LoopRecord("margin", 1, other, {})], "score", "margin")
    [{'place': 10, 'method': 'margin', 'mean': 0.6, 'low': 0.5, 'high': 0.7}]
    """
    found: dict[int, list[float]] = {}
    for loop in group:
        for record in loop.rounds:
            if (known := record[value] if value != "clean" else clean_share(record)) is not None:
                found.setdefault(record["labelled"], []).append(known)
    return [
        {"place": place, "method": method, "mean": fmean(values), "low": min(values), "high": max(values)}
        for place, values in sorted(found.items())
    ]


def clean_share(record: Round) -> float | None:
    """The share of clean examples among those a round chose, where that is known."""
    known = record["clean_picks"] is not None and record["picked"]
    return record["clean_picks"] / len(record["picked"]) if known else None


def _figures(groups: Mapping[str, Sequence[LoopRecord]], colours: Mapping[str, str]) -> list[Figure]:
    metric = next(iter(groups.values()))[0].rounds[-1]["metric"]
    plans = [
        ("score", f"{metric.capitalize()} against labels bought", f"{metric} on the test set", is_share(metric),
         "Every round trains from scratch on all labels bought so far."),
        ("clean", "Clean examples among those chosen", "clean share", True,
         "How many of the examples that each round chose are not noise."),
    ]  # fmt: skip
    figures = []
    for value, title, axis, share, words in plans:
        rows = [point for name, group in groups.items() for point in band_points(group, value, name)]
        if rows:
            if any(len(group) > 1 for group in groups.values()):
                words += " The band goes from the lowest to the highest seed."
            spec = _bands(rows, x="labels bought", title=axis, share=share, colours=colours)
            figures.append(Figure(title, words, spec))
    return figures


def _bands(rows: charts.Rows, *, x: str, title: str, share: bool, colours: Mapping[str, str]) -> charts.Spec:
    """Lines with a band around each (rows of place, mean, low, high and method)."""
    scale = {"domain": list(colours), "range": list(colours.values())}
    legend = {"title": None, "orient": "top", "columns": 2, "symbolOpacity": 1}
    base = {
        "x": quantity("place", title=x, scale=charts.CLOSE, axis={"tickMinStep": 1, "grid": False}),
        "color": name_of("method", scale=scale, legend=legend),
    }
    height: dict[str, Any] = {"title": title, "scale": charts.CLOSE, "axis": charts.axis_format(share)}
    said = [quantity(name, format=charts.number_format(share)) for name in ("mean", "low", "high")]
    tooltip = [name_of("method"), quantity("place", title=x), *said]
    band = base | {"y": quantity("low", **height), "y2": {"field": "high"}}
    mean = base | {"y": quantity("mean", **height)}
    layers = [
        {"mark": {"type": "area", "opacity": 0.15}, "encoding": band},
        {"mark": {"type": "line", "strokeWidth": 2}, "encoding": mean},
        {"mark": {"type": "circle", "size": 40}, "encoding": mean | {"tooltip": tooltip}},
    ]
    return charts.chart(rows, height=260, layer=layers)


def _headline(name: str, group: Sequence[LoopRecord], colour: str) -> dict[str, Any]:
    last = [loop.rounds[-1] for loop in group]
    metric, scores = last[0]["metric"], [record["score"] for record in last if record["score"] is not None]
    picked = [record for loop in group for record in loop.rounds if clean_share(record) is not None]
    chosen = sum(len(record["picked"]) for record in picked)
    seconds = [sum(record["seconds"] or 0 for record in loop.rounds) for loop in group]
    return {
        "name": name,
        "colour": colour,
        "last": score_text(fmean(scores) if scores else None, metric),
        "low": score_text(min(scores, default=None), metric),
        "high": score_text(max(scores, default=None), metric),
        "labels": f"{last[0]['labelled']:,}",
        "clean": percent(sum(record["clean_picks"] for record in picked) / chosen if chosen else None),
        "seeds": len(group),
        "seconds": seconds_text(fmean(seconds) or None),
    }


def _section(name: str, loop: LoopRecord, colour: str) -> dict[str, Any] | None:
    """What a rule chose in its first, its middle and its last round."""
    known = sorted(loop.picks)
    if not known:
        return None
    wanted = sorted({known[0], known[len(known) // 2], known[-1]})
    return {"name": name, "colour": colour, "rounds": [_round(loop, place) for place in wanted]}


def _round(loop: LoopRecord, place: int) -> dict[str, Any]:
    picks = loop.picks[place]
    shown = min(MOST_CARDS, len(picks["ids"]))
    record = loop.rounds[place] if place < len(loop.rounds) else None
    words = f"{shown} of those chosen"
    if record is not None:
        words += f" by {record['by']}" if record.get("by") else ""
        words += f" with {record['labelled']:,} labels"
        if (share := clean_share(record)) is not None:
            words += f"; {percent(share)} of all chosen are clean"
    return {
        "title": f"Round {place + 1}",
        "words": f"{words}.",
        "cards": [_card(loop, picks, at) for at in range(shown)],
    }


def _card(loop: LoopRecord, picks: Columns, at: int) -> dict[str, Any]:
    """One example: a picture, or the row of its table; its label, and whether it is noise, where these are known."""
    given = None
    if "targets" in picks:
        given = str(picks["targets"][at]) if loop.class_names is None else loop.class_names[int(picks["targets"][at])]
    if "row" in picks:
        row = json.loads(str(picks["row"][at]))
    else:
        values = picks["inputs"][at].tolist() if "inputs" in picks else []
        row = {f"x{place}": f"{value:.4g}" for place, value in enumerate(values)}
    return {
        "id": int(picks["ids"][at]),
        "picture": stored_address(picks, at),
        "row": dict(list(row.items())[:MOST_VALUES]),
        "given": given,
        "corrupt": bool(picks["is_corrupt"][at]) if "is_corrupt" in picks else None,
    }


def _lead(loops: Sequence[LoopRecord]) -> str:
    rounds = max(len(loop.rounds) for loop in loops)
    starts = sorted({loop.rounds[0]["labelled"] for loop in loops})
    count = f"{len(loops)} loops" if len(loops) > 1 else "one loop"
    return f"{rounds} trainings · from {' or '.join(f'{start:,}' for start in starts)} labels · {count}"
