"""Curves over epochs with bands over seeds, and scores against a rate that was told or a size, as SVG."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from thresher.bench.compare import Row, in_table_units
from thresher.bench.jobs import Result
from thresher.bench.suite import Suite
from thresher.report.charts import METHOD_COLOURS

COLUMNS = 3
DASHES = ([1, 0], [6, 3], [2, 2])  # the colours are used again, each time with other dashes
LOWEST_R2 = -1.0  # a method that fails outright would flatten all others


def curve_points(row: Row, column: str | None = None, label: str = "") -> list[dict[str, Any]]:
    """One point an epoch: mean, lowest and highest score (or value of the column) over the seeds that got there."""
    histories = [_series(row, result, column) for result in row.results]
    points = []
    for place in range(max((len(history) for history in histories), default=0)):
        scores = [h[place] for h in histories if place < len(h) and h[place] is not None]
        if not scores:
            continue
        points.append(
            {
                "cell": row.cell.name,
                "method": label or row.entry.label or row.entry.name,
                "epoch": place + 1,
                "score": fmean(scores),
                "low": min(scores),
                "high": max(scores),
            }
        )
    return points


def _series(row: Row, result: Result, column: str | None) -> list[Any]:
    if column is not None:
        return list(result["columns"].get(column, []))
    return [in_table_units(row.cell.metric, score) for score in result["scores"]]


def curves_svg(suite: Suite, rows: Sequence[Row]) -> dict[str, str]:
    """A picture for each data set, by its name: one panel a cell, one line a method, the band from the lowest to the
    highest seed; nothing where there are no results."""
    pictures: dict[str, list[Row]] = {}
    for row in rows:
        if row.results:
            pictures.setdefault(row.cell.data, []).append(row)
    return {data: _score_panels(suite, found) for data, found in pictures.items()}


def columns_svg(suite: Suite, rows: Sequence[Row]) -> dict[str, str]:
    """The same of the columns that the suite draws: a line for each method, and for each column where several are."""
    pictures: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        for column in suite.drawn:
            name = row.entry.label or row.entry.name
            words = name if len(suite.drawn) == 1 else column if len(suite.methods) == 1 else f"{name}: {column}"
            pictures.setdefault(row.cell.data, []).extend(curve_points(row, column, words))
    title = suite.drawn[0].replace("_", " ") if len(suite.drawn) == 1 else "clean share"
    return {
        data: _panels(points, {point["cell"]: title for point in points}, suite.clock)
        for data, points in pictures.items()
        if points
    }


def _score_panels(suite: Suite, rows: Sequence[Row]) -> str:
    points = [point for row in rows for point in curve_points(row)]
    return _panels(points, {row.cell.name: row.cell.metric for row in rows}, suite.clock)


def _panels(points: Sequence[dict[str, Any]], metrics: Mapping[str, str], clock: str) -> str:
    """One panel for each cell, which `metrics` names with what it shows."""
    import altair as alt
    import vl_convert

    methods = list(dict.fromkeys(point["method"] for point in points))
    panels = []
    for name, metric in metrics.items():
        values = [point for point in points if point["cell"] == name]
        # Curves that leave the picture are cut at its edge.
        lowest = LOWEST_R2 if metric == "r2" else None
        shown = [point["score"] for point in values if lowest is None or point["score"] >= lowest]
        height = alt.Scale(zero=False) if lowest is None or not shown else alt.Scale(domain=[min(shown), max(shown)])
        base = alt.Chart({"values": values}).encode(
            x=alt.X("epoch:Q", title=clock, axis=alt.Axis(tickMinStep=1, grid=False)),
            color=alt.Color("method:N", scale=_colours(methods), legend=_legend()),
        )
        band = base.mark_area(opacity=0.15, clip=True).encode(y=alt.Y("low:Q", title=metric, scale=height), y2="high:Q")
        line = base.mark_line(strokeWidth=2, clip=True).encode(
            y=alt.Y("score:Q", title=metric, scale=height),
            strokeDash=alt.StrokeDash("method:N", scale=_dashes(methods), legend=_legend()),
        )
        panels.append(alt.layer(band, line).properties(title=name, width=300, height=220))
    chart = alt.concat(*panels, columns=COLUMNS).configure(background="white")
    svg: str = vl_convert.vegalite_to_svg(chart.to_dict())
    return svg


def _legend() -> Any:
    import altair as alt

    return alt.Legend(title=None, symbolType="stroke", symbolOpacity=1, symbolStrokeWidth=2, symbolSize=300)


def _colours(methods: Sequence[str]) -> Any:
    import altair as alt

    colours = [METHOD_COLOURS[place % len(METHOD_COLOURS)] for place in range(len(methods))]
    return alt.Scale(domain=list(methods), range=colours)


def _dashes(methods: Sequence[str]) -> Any:
    import altair as alt

    rounds = [DASHES[place // len(METHOD_COLOURS) % len(DASHES)] for place in range(len(methods))]
    return alt.Scale(domain=list(methods), range=rounds)


def rate_points(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """One point for each told rate: mean, lowest and highest score over the seeds; `of` is the data it belongs to."""
    return [
        _point(row, row.cell.noise_rate, row.entry.label or row.entry.name, true_rate(row.cell.corruption))
        for row in rows
        if row.results and row.cell.noise_rate is not None
    ]


def size_points(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """One point for each size of what is kept; a method without sizes has one, at the place of the clean share."""
    points = []
    for row in rows:
        rate = true_rate(row.cell.corruption)
        clean = None if rate is None else 1 - rate
        name = row.entry.label or row.entry.name
        if row.results:
            size = row.entry.size
            points.append(
                _point(row, clean if size is None else size, name if size is None else _series_name(name), clean)
            )
    return points


def _series_name(label: str) -> str:
    """What rows that differ in their size alone have in common: "most central, 30%" is of "most central".

    >>> _series_name("most central, 30%")
    'most central'
    """
    return label.rpartition(",")[0] or label


def _point(row: Row, at: float | None, name: str, true: float | None) -> dict[str, Any]:
    scores = [in_table_units(row.cell.metric, result["last"]) for result in row.results]
    return {
        "of": f"{row.cell.data}, {row.cell.corruption or 'as it is'}",
        "method": name,
        "at": at,
        "score": fmean(scores),
        "low": min(scores),
        "high": max(scores),
        "metric": row.cell.metric,
        "true": true,
    }


def true_rate(corruption: str | None) -> float | None:
    """The rate in the name of a corruption; an imbalance has none.

    >>> true_rate("symmetric:0.4"), true_rate("linadv:0.2:3"), true_rate("imbalance:200"), true_rate(None)
    (0.4, 0.2, None, None)
    """
    number = float("nan") if corruption is None else float(corruption.split(":")[1])
    return number if 0 <= number < 1 else None


def rates_svg(rows: Sequence[Row]) -> str | None:
    """Score against told rate, one panel for each corrupted set, dashed where the truth is; a method with a single
    rate is a level across. None where no set has several rates."""
    return _against(rate_points(rows), "noise rate told")


def sizes_svg(rows: Sequence[Row]) -> str | None:
    """Score against the share that is kept, dashed at the share of clean labels; None where rows have no sizes."""
    return _against(size_points(rows), "share kept") if any(row.entry.size is not None for row in rows) else None


def _against(points: Sequence[dict[str, Any]], title: str) -> str | None:
    several = {point["of"] for point in points if len({other["at"] for other in _same(points, point)}) > 1}
    if not several:
        return None
    import altair as alt
    import vl_convert

    methods = list(dict.fromkeys(point["method"] for point in points))
    panels = [
        _panel_against([p for p in points if p["of"] == of], methods, title)
        for of in dict.fromkeys(p["of"] for p in points)
    ]
    chart = alt.concat(*panels, columns=COLUMNS).configure(background="white")
    svg: str = vl_convert.vegalite_to_svg(chart.to_dict())
    return svg


def _same(points: Sequence[dict[str, Any]], point: dict[str, Any]) -> list[dict[str, Any]]:
    return [other for other in points if (other["of"], other["method"]) == (point["of"], point["method"])]


def _panel_against(points: Sequence[dict[str, Any]], methods: Sequence[str], title: str) -> Any:
    import altair as alt

    lines = [point for point in points if len(_same(points, point)) > 1]
    levels = [point for point in points if len(_same(points, point)) == 1]
    y = {"title": points[0]["metric"], "scale": alt.Scale(zero=False)}
    x = alt.X("at:Q", title=title, scale=alt.Scale(zero=False, padding=12), axis=alt.Axis(grid=False))
    colour = alt.Color("method:N", scale=_colours(methods), legend=_legend())
    base = alt.Chart({"values": lines}).encode(x=x, color=colour)
    layers = [
        base.mark_area(opacity=0.15).encode(y=alt.Y("low:Q", **y), y2="high:Q"),
        base.mark_line(strokeWidth=2, point=True).encode(y=alt.Y("score:Q", **y)),
    ]
    if levels:
        across = alt.Chart({"values": levels}).mark_rule(strokeWidth=2)
        layers.append(across.encode(y=alt.Y("score:Q", **y), color=colour))
    if points[0]["true"] is not None:
        truth = alt.Chart({"values": [{"at": points[0]["true"]}]})
        layers.append(truth.mark_rule(strokeDash=[5, 4], color="#888").encode(x="at:Q"))
    return alt.layer(*layers).properties(title=points[0]["of"], width=300, height=220)
