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
    import altair as alt

    number = "~%" if share else "~g"
    data = {"values": list(rows)}
    scale = alt.Scale(domain=list(colours), range=list(colours.values()))
    picked = alt.selection_point(name="picked", fields=["run"], bind="legend")
    near = alt.selection_point(name="near", on="pointerover", clear="pointerout", empty=False)
    height = alt.Scale(domain=[0, 1]) if whole else alt.Scale(zero=False)
    longest = max((len(name) for name in colours), default=0)
    columns = min(3, max(1, 54 // max(1, longest)))  # as there is room for names of this length
    legend = alt.Legend(title=None, orient="top", columns=columns) if len(colours) > 1 else None
    base = alt.Chart(data).encode(
        x=alt.X(
            "epoch:Q",
            title="epoch",
            scale=alt.Scale(nice=False, zero=False),
            axis=alt.Axis(tickMinStep=1, format="d", grid=False),
        ),
        y=alt.Y(f"{value}:Q", title=title, scale=height, axis=alt.Axis(format=number)),
        color=alt.Color("run:N", scale=scale, legend=legend),
        detail=["set:N"],
    )
    sets = list(dict.fromkeys(row["set"] for row in rows))
    dashes = alt.Scale(domain=sets, range=[[1, 0], [3, 3]][: len(sets)])
    keys = alt.Legend(title=None, orient="bottom", symbolType="stroke") if len(sets) > 1 else None
    line = base.mark_line(strokeWidth=2).encode(strokeDash=alt.StrokeDash("set:N", scale=dashes, legend=keys))
    line = line.encode(opacity=alt.condition(picked, alt.value(1), alt.value(0.15)))
    said = ["run:N", *(["set:N"] if len(sets) > 1 else []), "epoch:Q"]
    # Without `nearest`: the tooltips of its cells know the values of no point.
    point = base.mark_circle(size=160).encode(
        opacity=alt.condition(near, alt.value(1), alt.value(0)),
        tooltip=[*said, alt.Tooltip(f"{value}:Q", title=title, format=number_format(share))],
    )
    layers = [line.add_params(picked).properties(name="line"), point.add_params(near).properties(name="point")]
    return finished(alt.layer(*layers, *_levels(lines)), height=230)


def histogram(values: Array, origins: Array | None, *, title: str, whole: tuple[float, float] | None = None) -> Spec:
    """How many examples have which value, by origin; a few distinct values get a bar each, others 30 bins."""
    import altair as alt

    values, origins = _known(values, origins)
    distinct = np.unique(values)
    if len(distinct) <= MOST_BARS:
        rows = _counted(values, origins)
        apart = alt.Scale(paddingInner=0.4, paddingOuter=0.3)
        x: dict[str, Any] = {"x": alt.X("value:O", title=title, sort=None, scale=apart, axis=alt.Axis(labelAngle=0))}
        hover = alt.Tooltip("value:O", title=title)
    else:
        rows = _binned(values, origins, whole or (min(0.0, float(distinct[0])), float(distinct[-1])))
        x = {"x": alt.X("start:Q", bin="binned", title=title, axis=alt.Axis(grid=False)), "x2": "end:Q"}
        hover = alt.Tooltip("range:N", title=title)
    chart = (
        alt.Chart({"values": rows})
        .mark_bar()
        .encode(
            **x,
            y=alt.Y("count:Q", title="examples", stack=True, axis=alt.Axis(tickMinStep=1)),
            color=_origin_colour(sorted(set(origins.tolist()))),
            tooltip=[hover, "origin:N", "count:Q"],
        )
    )
    return finished(chart, height=230)


def confusion(cells: Rows, names: Sequence[str], down: str, across: str) -> Spec:
    """A heat map of two kinds of label, such as given (down) against predicted (across).

    The rows of data have both labels, the count, and its share of the label that goes down.
    """
    import altair as alt

    place, domain = {name: at for at, name in enumerate(names)}, _places(len(names))
    rows = [{**cell, "row": place[cell[down]], "column": place[cell[across]]} for cell in cells]
    base = alt.Chart({"values": rows}).encode(
        x=alt.X("column:O", title=f"{across} label", axis=_named(names, tilted=True), scale=domain),
        y=alt.Y("row:O", title=f"{down} label", axis=_named(names), scale=domain),
        tooltip=[
            f"{down}:N",
            f"{across}:N",
            "count:Q",
            alt.Tooltip("share:Q", title=f"of the {down} label", format=".1%"),
        ],
    )
    # The square root lets the few percent that are confused be seen beside the many that agree.
    colour = alt.Color("share:Q", scale=alt.Scale(type="sqrt", domain=[0, 1], interpolate="lab"), legend=None)
    layers = [base.mark_rect(cornerRadius=2).encode(color=colour)]
    if len(names) <= MOST_CELL_TEXTS:
        text = base.mark_text(fontSize=10).transform_calculate(text="format(100 * datum.share, '.0f')")
        ink = alt.condition("datum.share > 0.4", alt.value(alt.expr("paper")), alt.value(alt.expr("ink")))
        layers.append(text.encode(text="text:N", color=ink))
    return finished(alt.layer(*layers), height="container", names=names)


def bars(rows: Rows, name: str, share: str) -> Spec:
    """A bar for each row: its name, and a share from 0 to 1."""
    import altair as alt

    named, names = [{**row, "place": place} for place, row in enumerate(rows)], [str(row[name]) for row in rows]
    chart = alt.Chart({"values": named}).mark_bar(color=METHOD_COLOURS[0])
    chart = chart.encode(
        x=alt.X("place:O", title=name, axis=_named(names, tilted=True), scale=_places(len(names))),
        y=alt.Y(f"{share}:Q", title=share, stack=None, scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format="~%")),
        tooltip=[f"{name}:N", alt.Tooltip(f"{share}:Q", format=".1%")],
    )
    return finished(chart, height=230, names=names)


def scatter(rows: Rows) -> Spec:
    """Predicted against given targets (rows of given, predicted, origin and example), with the line of equality."""
    import altair as alt

    ends = [row[side] for row in rows for side in ("given", "predicted")]
    equal = [{"given": end, "predicted": end} for end in (min(ends), max(ends))] if ends else []
    x = alt.X("given:Q", title="given target", scale=alt.Scale(zero=False))
    y = alt.Y("predicted:Q", title="prediction", scale=alt.Scale(zero=False))
    line = alt.Chart({"values": equal}).mark_line(strokeDash=[5, 4], color=alt.expr("quiet")).encode(x=x, y=y)
    points = alt.Chart({"values": list(rows)}).mark_circle(size=22, opacity=0.55)
    points = points.encode(
        x=x,
        y=y,
        color=_origin_colour(sorted({row["origin"] for row in rows})),
        tooltip=[
            "example:Q",
            "origin:N",
            *(alt.Tooltip(f"{side}:Q", format=".6~g") for side in ("given", "predicted")),
        ],
    )
    return finished(alt.layer(line, points), height=360)


def number_format(share: bool) -> str:
    """How a tooltip writes a share, or any number."""
    return ".1%" if share else ".4~g"


def _levels(lines: Sequence[float]) -> list[Any]:
    """Dashed lines across the chart at these heights, as a layer where there are any."""
    import altair as alt

    dashed = alt.Chart({"values": [{"at": at} for at in lines]})
    return [dashed.mark_rule(strokeDash=[5, 4], color=alt.expr("quiet")).encode(y="at:Q")] if lines else []


def _places(count: int) -> Any:
    """A scale with a band for each place."""
    import altair as alt

    return alt.Scale(domain=list(range(count)))


def _named(names: Sequence[str], tilted: bool = False) -> Any:
    """An axis of places that shows their names, a parameter of the chart; perhaps tilted, unless all are short.

    Places and not names are the values, because Vega would look up "constructor" among the properties of every object.
    """
    import altair as alt

    angle: dict[str, Any] = {"labelAngle": 0 if max(map(len, names), default=0) <= 3 else -45} if tilted else {}
    return alt.Axis(labelExpr="names[datum.value]", **angle)


def finished(chart: Any, height: int | str, names: Sequence[str] = ()) -> Spec:
    """The specification of a chart: as wide as its container, without a theme of its own; names are those of places."""
    spec: Spec = chart.properties(width="container", height=height).to_dict()
    if names:
        spec["params"] = [*spec.get("params", []), {"name": "names", "value": list(names)}]
    # The page gives the theme, which Altair's own configuration would override.
    return {key: part for key, part in spec.items() if key not in ("config", "$schema")}


def _origin_colour(present: Sequence[str]) -> Any:
    import altair as alt

    scale = alt.Scale(domain=list(present), range=[ORIGIN_COLOURS[origin] for origin in present])
    told_apart = any(origin != UNKNOWN for origin in present)
    return alt.Color("origin:N", scale=scale, legend=alt.Legend(title=None, orient="top") if told_apart else None)


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
