"""Scores against a number in which cells or methods differ (a told rate, a size, a ratio), as SVG."""

from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any

from thresher.bench.compare.rows import Row, in_table_units
from thresher.bench.definition.points import SHARE_KEPT, Axis, Point, true_rate
from thresher.bench.pages.curves import PANELS_A_ROW, colours, dashes, legend


def number_points(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The points of all rows: mean, lowest and highest score over the seeds."""
    sized = any(row.entry.size is not None for row in rows)
    points = []
    for row in rows:
        for position, method in _positions(row, sized) if row.results else ():
            scores = [in_table_units(row.cell.metric, result["last"]) for result in row.results]
            if position.axis.as_errors:
                scores = [in_table_units(row.cell.metric, 1.0) - score for score in scores]
            points.append(
                {
                    "axis": position.axis,
                    "panel": position.panel,
                    "method": method,
                    "at": position.value,
                    "score": fmean(scores),
                    "low": min(scores),
                    "high": max(scores),
                    "measure": "error" if position.axis.as_errors else row.cell.metric,
                    "mark": position.mark,
                }
            )
    return points


def _positions(row: Row, sized: bool) -> Iterator[tuple[Point, str]]:
    """Where a row stands, and the name of its line: at the points of its cell, and at its size where rows have one."""
    name = row.entry.label or row.entry.name
    for point in row.cell.points:
        if not point.axis.methods or row.entry.name in point.axis.methods:
            yield point, name
    if sized:
        size, rate = row.entry.size, true_rate(row.cell.corruption)
        clean = None if rate is None else 1 - rate
        panel = f"{row.cell.data}, {row.cell.corruption or 'as it is'}"
        # A method without a size is a horizontal line, wherever its point is.
        at = clean or 1.0 if size is None else size
        yield Point(SHARE_KEPT, at, panel, clean), name if size is None else _without_size(name)


def _without_size(label: str) -> str:
    """The label of rows that differ only in their size.

    >>> _without_size("most central, 30%")
    'most central'
    """
    return label.rpartition(",")[0] or label


def numbers_svg(rows: Sequence[Row]) -> dict[Axis, str]:
    """A plot for each axis: the score against its number, a panel for each set of cells that differ in nothing else.

    A method with a single number is a horizontal line if the axis has `levels`, and is left out otherwise; a plot in
    which no method has several numbers is not drawn.
    """
    points, pictures = number_points(rows), {}
    for axis in dict.fromkeys(point["axis"] for point in points):
        own = [{**point, "axis": axis.title} for point in points if point["axis"] == axis]
        shown = [point for point in own if axis.levels or len(_same_line(own, point)) > 1]
        if any(len(_same_line(own, point)) > 1 for point in own):
            pictures[axis] = _panels(axis, shown)
    return pictures


def _same_line(points: Sequence[dict[str, Any]], point: dict[str, Any]) -> list[dict[str, Any]]:
    return [other for other in points if (other["panel"], other["method"]) == (point["panel"], point["method"])]


def _panels(axis: Axis, points: Sequence[dict[str, Any]]) -> str:
    import altair as alt
    import vl_convert

    methods = list(dict.fromkeys(point["method"] for point in points))
    names = dict.fromkeys(point["panel"] for point in points)
    panels = [_panel(axis, [point for point in points if point["panel"] == name], methods) for name in names]
    chart = alt.concat(*panels, columns=PANELS_A_ROW).configure(background="white")
    svg: str = vl_convert.vegalite_to_svg(chart.to_dict())
    return svg


def _panel(axis: Axis, points: Sequence[dict[str, Any]], methods: Sequence[str]) -> Any:
    import altair as alt

    lines = [point for point in points if len(_same_line(points, point)) > 1]
    levels = [point for point in points if len(_same_line(points, point)) == 1]
    y = {"title": points[0]["measure"], "scale": alt.Scale(zero=False)}
    width = alt.Scale(type="log") if axis.log else alt.Scale(zero=False, padding=12)
    ticks = sorted({point["at"] for point in points}) if axis.log else alt.Undefined
    x = alt.X("at:Q", title=axis.title, scale=width, axis=alt.Axis(grid=False, format=".3~r", values=ticks))
    colour = alt.Color("method:N", scale=colours(methods), legend=legend())
    dash = alt.StrokeDash("method:N", scale=dashes(methods), legend=legend())
    base = alt.Chart({"values": lines}).encode(x=x, color=colour)
    layers = [
        base.mark_area(opacity=0.15).encode(y=alt.Y("low:Q", **y), y2="high:Q"),
        base.mark_line(strokeWidth=2, point=True).encode(y=alt.Y("score:Q", **y), strokeDash=dash),
    ]
    if levels:
        across = alt.Chart({"values": levels}).mark_rule(strokeWidth=2)
        layers.append(across.encode(y=alt.Y("score:Q", **y), color=colour))
    if points[0]["mark"] is not None:
        mark = alt.Chart({"values": [{"at": points[0]["mark"]}]})
        layers.append(mark.mark_rule(strokeDash=[5, 4], color="#888").encode(x="at:Q"))
    return alt.layer(*layers).properties(title=points[0]["panel"], width=300, height=220)
