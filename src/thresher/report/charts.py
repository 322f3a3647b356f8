"""Chart specifications: numbers in, a Vega-Lite dictionary out; the page's theme gives all other colours."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from thresher.report.run_record import CLEAN, CORRUPTED, UNKNOWN, Array

Spec = dict[str, Any]
Rows = Sequence[Mapping[str, Any]]

# Middle tones, readable on a light and on a dark page, and told apart with colour blindness.
METHOD_COLOURS = ("#8a6fd6", "#1f9e89", "#c2458f", "#8a9a2b", "#3aa0d8", "#b5793c", "#64748b", "#d0483e")
ORIGIN_COLOURS = {CLEAN: "#4a86c5", CORRUPTED: "#e07b39", UNKNOWN: "#7b8794"}
CLOSE = {"nice": False, "zero": False}  # a scale that ends where its values do
DASHED = {"strokeDash": [5, 4], "color": {"expr": "quiet"}}
MOST_BARS = 8  # up to so many distinct values are shown as bars of their own
MOST_CELL_TEXTS = 12  # up to so many classes have room for a number in each cell


@dataclass(frozen=True)
class Figure:
    """A titled chart with the sentence under its title; square ones are as high as they are wide."""

    title: str
    words: str
    spec: Spec
    square: bool = False


def curve(
    rows: Rows,
    value: str,
    *,
    title: str,
    share: bool,
    colours: Mapping[str, str],
    lines: Sequence[float] = (),
    whole: bool = False,
) -> Spec:
    """Lines over epochs, one a run and set (rows of epoch, run, set and `value`), coloured by run.

    The lines of the first set are solid, of another dashed. `lines` are levels to compare with, dashed too; `whole`
    shows the whole range from 0 to 1.
    """
    scale = {"domain": list(colours), "range": list(colours.values())}
    longest = max((len(name) for name in colours), default=0)
    columns = min(3, max(1, 54 // max(1, longest)))  # as there is room for names of this length
    legend = {"title": None, "orient": "top", "columns": columns} if len(colours) > 1 else None
    base = {
        "x": quantity("epoch", title="epoch", scale=CLOSE, axis={"tickMinStep": 1, "format": "d", "grid": False}),
        "y": quantity(
            value, title=title, scale={"domain": [0, 1]} if whole else {"zero": False}, axis=axis_format(share)
        ),
        "color": name_of("run", scale=scale, legend=legend),
        "detail": [name_of("set")],
    }
    sets = list(dict.fromkeys(row["set"] for row in rows))
    dashes = {"domain": sets, "range": [[1, 0], [3, 3]][: len(sets)]}
    keys = {"title": None, "orient": "bottom", "symbolType": "stroke"} if len(sets) > 1 else None
    line = base | {
        "strokeDash": name_of("set", scale=dashes, legend=keys),
        "opacity": {"condition": {"param": "picked", "value": 1}, "value": 0.15},
    }
    said = [name_of("run"), *([name_of("set")] if len(sets) > 1 else []), quantity("epoch")]
    # Without `nearest`: the tooltips of its cells know the values of no point.
    point = base | {
        "opacity": {"condition": {"empty": False, "param": "near", "value": 1}, "value": 0},
        "tooltip": [*said, quantity(value, title=title, format=number_format(share))],
    }
    layers = [
        {"name": "line", "mark": {"type": "line", "strokeWidth": 2}, "encoding": line},
        {"name": "point", "mark": {"type": "circle", "size": 160}, "encoding": point},
    ]
    picked = {"type": "point", "fields": ["run"]}
    near = {"type": "point", "on": "pointerover", "clear": "pointerout"}
    spec = chart(rows, height=230, layer=[*layers, *_levels(lines)])
    spec["params"] = [
        {"name": "picked", "select": picked, "bind": "legend", "views": ["line"]},
        {"name": "near", "select": near, "views": ["point"]},
    ]
    return spec


def histogram(values: Array, origins: Array | None, *, title: str, whole: tuple[float, float] | None = None) -> Spec:
    """How many examples have which value, by origin; a few distinct values get a bar each, others 30 bins."""
    values, origins = _known(values, origins)
    distinct = np.unique(values)
    if len(distinct) <= MOST_BARS:
        rows = _counted(values, origins)
        apart = {"paddingInner": 0.4, "paddingOuter": 0.3}
        x = {"x": _field("ordinal", "value", title=title, sort=None, scale=apart, axis={"labelAngle": 0})}
        hover = _field("ordinal", "value", title=title)
    else:
        rows = _binned(values, origins, whole or (min(0.0, float(distinct[0])), float(distinct[-1])))
        x = {"x": quantity("start", bin="binned", title=title, axis={"grid": False}), "x2": {"field": "end"}}
        hover = name_of("range", title=title)
    encoding = x | {
        "y": quantity("count", title="examples", stack=True, axis={"tickMinStep": 1}),
        "color": _origin_colour(sorted(set(origins.tolist()))),
        "tooltip": [hover, name_of("origin"), quantity("count")],
    }
    return chart(rows, height=230, mark={"type": "bar"}, encoding=encoding)


def confusion(cells: Rows, names: Sequence[str], down: str, across: str) -> Spec:
    """A heat map of two kinds of label, such as given (down) against predicted (across).

    The rows of data have both labels, the count, and its share of the label that goes down.
    """
    place, scale = {name: at for at, name in enumerate(names)}, _places(len(names))
    rows = [{**cell, "row": place[cell[down]], "column": place[cell[across]]} for cell in cells]
    base = {
        "x": _field("ordinal", "column", title=f"{across} label", axis=_named(names, tilted=True), scale=scale),
        "y": _field("ordinal", "row", title=f"{down} label", axis=_named(names), scale=scale),
        "tooltip": [
            name_of(down),
            name_of(across),
            quantity("count"),
            quantity("share", title=f"of the {down} label", format=".1%"),
        ],
    }
    # The square root lets the few percent that are confused be seen beside the many that agree.
    colour = quantity("share", scale={"type": "sqrt", "domain": [0, 1], "interpolate": "lab"}, legend=None)
    layers: list[Spec] = [{"mark": {"type": "rect", "cornerRadius": 2}, "encoding": base | {"color": colour}}]
    if len(names) <= MOST_CELL_TEXTS:
        ink = {"condition": {"test": "datum.share > 0.4", "value": {"expr": "paper"}}, "value": {"expr": "ink"}}
        percent = {"calculate": "format(100 * datum.share, '.0f')", "as": "text"}
        texts = base | {"text": name_of("text"), "color": ink}
        layers.append({"mark": {"type": "text", "fontSize": 10}, "transform": [percent], "encoding": texts})
    return chart(rows, height="container", names=names, layer=layers)


def bars(rows: Rows, name: str, share: str) -> Spec:
    """A bar for each row: its name, and a share from 0 to 1."""
    named, names = [{**row, "place": place} for place, row in enumerate(rows)], [str(row[name]) for row in rows]
    encoding = {
        "x": _field("ordinal", "place", title=name, axis=_named(names, tilted=True), scale=_places(len(names))),
        "y": quantity(share, title=share, stack=None, scale={"domain": [0, 1]}, axis=axis_format(share=True)),
        "tooltip": [name_of(name), quantity(share, format=".1%")],
    }
    mark = {"type": "bar", "color": METHOD_COLOURS[0]}
    return chart(named, height=230, names=names, mark=mark, encoding=encoding)


def scatter(rows: Rows) -> Spec:
    """Predicted against given targets (rows of given, predicted, origin and example), with the line of equality."""
    ends = [row[side] for row in rows for side in ("given", "predicted")]
    equal = [{"given": end, "predicted": end} for end in (min(ends), max(ends))] if ends else []
    base = {
        "x": quantity("given", title="given target", scale={"zero": False}),
        "y": quantity("predicted", title="prediction", scale={"zero": False}),
    }
    points = base | {
        "color": _origin_colour(sorted({row["origin"] for row in rows})),
        "tooltip": [
            quantity("example"),
            name_of("origin"),
            *(quantity(side, format=".6~g") for side in ("given", "predicted")),
        ],
    }
    layers = [
        {"data": {"values": equal}, "mark": {"type": "line", **DASHED}, "encoding": base},
        {"mark": {"type": "circle", "size": 22, "opacity": 0.55}, "encoding": points},
    ]
    return chart(rows, height=360, layer=layers)


def chart(rows: Rows, *, height: int | str, names: Sequence[str] = (), **parts: Any) -> Spec:
    """A chart of these rows, as wide as its container; the page gives the theme. Names are those of places."""
    params = {"params": [{"name": "names", "value": list(names)}]} if names else {}
    return {"data": {"values": list(rows)}, "width": "container", "height": height, **parts, **params}


def quantity(field: str, **how: Any) -> Spec:
    """A number of each row as a position, a colour or a part of a tooltip."""
    return _field("quantitative", field, **how)


def name_of(field: str, **how: Any) -> Spec:
    """A name of each row, the same way."""
    return _field("nominal", field, **how)


def _field(kind: str, field: str, **how: Any) -> Spec:
    return {"field": field, "type": kind, **how}


def axis_format(share: bool) -> Spec:
    """How an axis writes a share, or any number."""
    return {"format": "~%" if share else "~g"}


def number_format(share: bool) -> str:
    """How a tooltip writes a share, or any number."""
    return ".1%" if share else ".4~g"


def _levels(lines: Sequence[float]) -> list[Spec]:
    """Dashed lines across the chart at these heights, as a layer where there are any."""
    data = {"values": [{"at": at} for at in lines]}
    return [{"data": data, "mark": {"type": "rule", **DASHED}, "encoding": {"y": quantity("at")}}] if lines else []


def _places(count: int) -> Spec:
    """A scale with a band for each place."""
    return {"domain": list(range(count))}


def _named(names: Sequence[str], tilted: bool = False) -> Spec:
    """An axis of places that shows their names, a parameter of the chart; perhaps tilted, unless all are short.

    Places and not names are the values, because Vega would look up "constructor" among the properties of every object.
    """
    angle = {"labelAngle": 0 if max(map(len, names), default=0) <= 3 else -45} if tilted else {}
    return {"labelExpr": "names[datum.value]", **angle}


def _origin_colour(present: Sequence[str]) -> Spec:
    scale = {"domain": list(present), "range": [ORIGIN_COLOURS[origin] for origin in present]}
    told_apart = any(origin != UNKNOWN for origin in present)
    return name_of("origin", scale=scale, legend={"title": None, "orient": "top"} if told_apart else None)


def _known(values: Array, origins: Array | None) -> tuple[Array, Array]:
    finite = np.isfinite(values)
    origins = np.full(len(values), UNKNOWN) if origins is None else origins
    return values[finite], origins[finite]


def _counted(values: Array, origins: Array) -> list[dict[str, Any]]:
    return [
        {"value": f"{value:.4g}", "origin": origin, "count": int(((values == value) & (origins == origin)).sum())}
        for value in np.unique(values)
        for origin in np.unique(origins).tolist()
    ]


def _binned(values: Array, origins: Array, whole: tuple[float, float], bins: int = 30) -> list[dict[str, Any]]:
    rows = []
    for origin in np.unique(origins).tolist():
        counts, edges = np.histogram(values[origins == origin], bins=bins, range=whole)
        for count, start, end in zip(counts.tolist(), edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            place = {"start": start, "end": end, "range": f"{start:.3g} to {end:.3g}"}
            rows.append({**place, "origin": origin, "count": count})
    return rows
