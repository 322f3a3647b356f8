"""Curves over epochs with bands over seeds, as an SVG."""

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from thresher.bench.compare import Row, in_table_units
from thresher.bench.suite import Suite
from thresher.report.charts import METHOD_COLOURS

COLUMNS = 3


def curve_points(row: Row) -> list[dict[str, Any]]:
    """One point an epoch: mean, lowest and highest score over the seeds that got there."""
    histories = [result["scores"] for result in row.results]
    points = []
    for place in range(max((len(history) for history in histories), default=0)):
        scores = [in_table_units(row.cell.metric, history[place]) for history in histories if place < len(history)]
        points.append(
            {
                "cell": row.cell.name,
                "method": row.entry.label or row.entry.name,
                "epoch": place + 1,
                "score": fmean(scores),
                "low": min(scores),
                "high": max(scores),
            }
        )
    return points


def curves_svg(suite: Suite, rows: Sequence[Row]) -> str | None:
    """One panel a cell, one line a method, the band from the lowest to the highest seed; None without results."""
    points = [point for row in rows for point in curve_points(row)]
    if not points:
        return None
    import altair as alt
    import vl_convert

    panels = []
    metrics = {row.cell.name: row.cell.metric for row in rows}
    methods = [entry.label or entry.name for entry in suite.methods]
    colours = [METHOD_COLOURS[place % len(METHOD_COLOURS)] for place in range(len(methods))]
    scale = alt.Scale(domain=methods, range=colours)
    for name, metric in metrics.items():
        values = [point for point in points if point["cell"] == name]
        if not values:
            continue
        base = alt.Chart({"values": values}).encode(
            x=alt.X("epoch:Q", title=suite.clock, axis=alt.Axis(tickMinStep=1, grid=False)),
            color=alt.Color("method:N", scale=scale, legend=alt.Legend(title=None, symbolOpacity=1)),
        )
        height = alt.Scale(zero=False)
        band = base.mark_area(opacity=0.2).encode(y=alt.Y("low:Q", title=metric, scale=height), y2="high:Q")
        line = base.mark_line(strokeWidth=2).encode(y=alt.Y("score:Q", title=metric, scale=height))
        panels.append(alt.layer(band, line).properties(title=name, width=300, height=220))
    chart = alt.concat(*panels, columns=COLUMNS).configure(background="white")
    svg: str = vl_convert.vegalite_to_svg(chart.to_dict())
    return svg
