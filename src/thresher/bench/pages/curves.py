"""Curves over epochs with bands over seeds, as SVG."""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from thresher.bench.compare.rows import ALL_DATA, Row, in_table_units
from thresher.bench.definition.suite import Suite
from thresher.bench.run.identity import Result
from thresher.report.charts import METHOD_COLOURS

PANELS_A_ROW = 3
DASHES = ([1, 0], [6, 3], [2, 2])  # the colours are reused, each time with other dashes
LOWEST_R2 = -1.0  # so that a method that fails outright does not flatten all others


def curve_points(row: Row, column: str | None = None, label: str = "") -> list[dict[str, Any]]:
    """One point for each epoch or round: mean, lowest and highest score (or value of the column) over the seeds.

    A round stands at the number of labels bought by then.
    """
    histories = [_series(row, result, column) for result in row.results]
    queries = row.results[0]["settings"].get("queries") if row.results else None
    points = []
    for index in range(max((len(history) for history in histories), default=0)):
        scores = [h[index] for h in histories if index < len(h) and h[index] is not None]
        if not scores:
            continue
        points.append(
            {
                "cell": row.cell.name,
                "method": label or row.entry.label or row.entry.name,
                "epoch": index + 1 if queries is None else _labels(queries, index),
                "score": fmean(scores),
                "low": min(scores),
                "high": max(scores),
            }
        )
    return points


def _labels(queries: Mapping[str, Mapping[str, int]], index: int) -> int:
    """The labels bought by this round.

    >>> _labels({"Queries": {"start": 2000, "count": 100, "rounds": 30}}, 3)
    2300
    """
    return queries["Queries"]["start"] + index * queries["Queries"]["count"]


def _series(row: Row, result: Result, column: str | None) -> list[Any]:
    if column is not None:
        return list(result["columns"].get(column, []))
    return [in_table_units(row.cell.metric, score) for score in result["scores"]]


def curves_svg(suite: Suite, rows: Sequence[Row]) -> dict[str, str]:
    """A plot for each data set with results, by its name: a panel for each cell, a line for each method.

    The band is from the lowest to the highest seed.
    """
    pictures: dict[str, list[Row]] = {}
    for row in rows:
        if row.results and row.entry.drawn:
            pictures.setdefault(row.cell.data, []).append(row)
    return {data: _score_panels(suite, found) for data, found in pictures.items()}


def columns_svg(suite: Suite, rows: Sequence[Row]) -> dict[str, str]:
    """The same for the columns that the suite draws: a line for each method and column."""
    pictures: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        for column in suite.drawn:
            name = row.entry.label or row.entry.name
            label = suite.labels.get(column, column)
            line = name if len(suite.drawn) == 1 else label if len(suite.methods) == 1 else f"{name}: {label}"
            pictures.setdefault(row.cell.data, []).extend(curve_points(row, column, line))
        if len(suite.methods) == 1 and suite.drawn:
            pictures[row.cell.data] += _level(row, curve_points(row, suite.drawn[0]))
    title = suite.drawn[0].replace("_", " ") if len(suite.drawn) == 1 else "clean share"
    return {
        data: _panels(points, {point["cell"]: title for point in points}, suite.clock)
        for data, points in pictures.items()
        if points
    }


def _level(row: Row, points: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The clean share of all of the data, as a horizontal line beside these points."""
    share = row.clean_share
    return [{**point, "method": ALL_DATA, "score": share, "low": share, "high": share} for point in points]


def _score_panels(suite: Suite, rows: Sequence[Row]) -> str:
    points = [point for row in rows for point in curve_points(row)]
    return _panels(points, {row.cell.name: row.cell.metric for row in rows}, suite.clock)


def _panels(points: Sequence[dict[str, Any]], metrics: Mapping[str, str], clock: str) -> str:
    """One panel for each cell; `metrics` has the title of its vertical axis."""
    import altair as alt
    import vl_convert

    methods = list(dict.fromkeys(point["method"] for point in points))
    panels = []
    for name, metric in metrics.items():
        values = [point for point in points if point["cell"] == name]
        height = panel_height(values, LOWEST_R2 if metric == "r2" else -math.inf, late=clock == "epoch")
        base = alt.Chart({"values": values}).encode(
            x=alt.X(
                "epoch:Q",
                title="labels bought" if clock == "round" else clock,
                scale=alt.Scale(zero=False, nice=False) if clock == "round" else alt.Undefined,
                axis=alt.Axis(tickMinStep=1, grid=False),
            ),
            color=alt.Color("method:N", scale=colours(methods), legend=legend()),
        )
        band = base.mark_area(opacity=0.15, clip=True).encode(y=alt.Y("low:Q", title=metric, scale=height), y2="high:Q")
        line = base.mark_line(strokeWidth=2, clip=True).encode(
            y=alt.Y("score:Q", title=metric, scale=height),
            strokeDash=alt.StrokeDash("method:N", scale=dashes(methods), legend=legend()),
        )
        panels.append(alt.layer(band, line).properties(title=name, width=300, height=220))
    chart = alt.concat(*panels, columns=PANELS_A_ROW).configure(background="white")
    svg: str = vl_convert.vegalite_to_svg(chart.to_dict())
    return svg


def panel_height(values: Sequence[dict[str, Any]], lowest: float, *, late: bool) -> Any:
    """A vertical scale from the lowest value of the curves, with `late` only after the first third of each run.

    The climb before that would flatten everything after it. Curves that leave the panel are clipped.
    """
    import altair as alt

    ends = {point["method"]: point["epoch"] for point in values}
    reached = [point["low"] for point in values if not late or point["epoch"] > ends[point["method"]] / 3]
    shown = [score for score in reached if score >= lowest]
    return alt.Scale(zero=False, domainMin=min(shown)) if shown else alt.Scale(zero=False)


def legend() -> Any:
    import altair as alt

    return alt.Legend(
        title=None, symbolType="stroke", symbolOpacity=1, symbolStrokeWidth=2, symbolSize=300, labelLimit=400
    )


def colours(methods: Sequence[str]) -> Any:
    import altair as alt

    colours = [METHOD_COLOURS[index % len(METHOD_COLOURS)] for index in range(len(methods))]
    return alt.Scale(domain=list(methods), range=colours)


def dashes(methods: Sequence[str]) -> Any:
    import altair as alt

    rounds = [DASHES[index // len(METHOD_COLOURS) % len(DASHES)] for index in range(len(methods))]
    return alt.Scale(domain=list(methods), range=rounds)
