"""Curves over epochs with bands over seeds, and scores against the rate that was told, as SVG."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from thresher.bench.compare import Row, in_table_units
from thresher.bench.suite import Suite
from thresher.report.charts import METHOD_COLOURS

COLUMNS = 3
DASHES = ([1, 0], [6, 3], [2, 2])  # the colours are used again, each time with other dashes
LOWEST_R2 = -1.0  # a method that fails outright would flatten all others


def curve_points(row: Row, column: str | None = None) -> list[dict[str, Any]]:
    """One point an epoch, or a round: mean, lowest and highest score (or column) over the seeds that got there.

    The place of a round is the number of labels bought by then.
    """
    histories = [result["scores"] if column is None else result["columns"].get(column, []) for result in row.results]
    queries = row.results[0]["settings"].get("queries") if row.results else None
    points = []
    for place in range(max((len(history) for history in histories), default=0)):
        found = [history[place] for history in histories if place < len(history) and history[place] is not None]
        if not found:
            continue
        scores = [in_table_units(row.cell.metric, score) for score in found]
        points.append(
            {
                "cell": row.cell.name,
                "method": row.entry.label or row.entry.name,
                "epoch": place + 1 if queries is None else _labels(queries, place),
                "score": fmean(scores),
                "low": min(scores),
                "high": max(scores),
            }
        )
    return points


def _labels(queries: Mapping[str, Mapping[str, int]], place: int) -> int:
    """The labels bought by this round.

    >>> _labels({"Queries": {"start": 2000, "count": 100, "rounds": 30}}, 3)
    2300
    """
    return queries["Queries"]["start"] + place * queries["Queries"]["count"]


def curves_svg(suite: Suite, rows: Sequence[Row], column: str | None = None) -> dict[str, str]:
    """A picture for each data set, by its name: one panel a cell, one line a method, the band from the lowest to the
    highest seed; nothing where there are no results."""
    pictures: dict[str, list[Row]] = {}
    for row in rows:
        if row.results:
            pictures.setdefault(row.cell.data, []).append(row)
    return {data: _panels(suite, found, column) for data, found in pictures.items()}


def _panels(suite: Suite, rows: Sequence[Row], column: str | None) -> str:
    import altair as alt
    import vl_convert

    present = {row.entry.name for row in rows}
    methods = [entry.label or entry.name for entry in suite.methods if entry.name in present]
    metrics = {row.cell.name: row.cell.metric for row in rows}
    panels = []
    for name, metric in metrics.items():
        values = [point for row in rows if row.cell.name == name for point in curve_points(row, column)]
        if not values:
            continue
        said = metric if column is None else column.replace("_", " ")
        # Curves that leave the picture are cut at its edge.
        lowest = LOWEST_R2 if metric == "r2" else None
        shown = [point["score"] for point in values if lowest is None or point["score"] >= lowest]
        height = alt.Scale(zero=False) if lowest is None or not shown else alt.Scale(domain=[min(shown), max(shown)])
        base = alt.Chart({"values": values}).encode(
            x=alt.X(
                "epoch:Q",
                title="labels bought" if suite.clock == "round" else suite.clock,
                scale=alt.Scale(zero=suite.clock == "epoch", nice=suite.clock == "epoch"),
                axis=alt.Axis(tickMinStep=1, grid=False),
            ),
            color=alt.Color("method:N", scale=_colours(methods), legend=_legend()),
        )
        band = base.mark_area(opacity=0.15, clip=True).encode(y=alt.Y("low:Q", title=said, scale=height), y2="high:Q")
        line = base.mark_line(strokeWidth=2, clip=True).encode(
            y=alt.Y("score:Q", title=said, scale=height),
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
    points = []
    for row in rows:
        if row.results and row.cell.noise_rate is not None:
            scores = [in_table_units(row.cell.metric, result["last"]) for result in row.results]
            points.append(
                {
                    "of": f"{row.cell.data}, {row.cell.corruption or 'as it is'}",
                    "method": row.entry.label or row.entry.name,
                    "told": row.cell.noise_rate,
                    "score": fmean(scores),
                    "low": min(scores),
                    "high": max(scores),
                    "metric": row.cell.metric,
                    "true": true_rate(row.cell.corruption),
                }
            )
    return points


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
    points = rate_points(rows)
    several = {point["of"] for point in points if len({other["told"] for other in _same(points, point)}) > 1}
    if not several:
        return None
    import altair as alt
    import vl_convert

    methods = list(dict.fromkeys(point["method"] for point in points))
    panels = [
        _rate_panel([p for p in points if p["of"] == of], methods) for of in dict.fromkeys(p["of"] for p in points)
    ]
    chart = alt.concat(*panels, columns=COLUMNS).configure(background="white")
    svg: str = vl_convert.vegalite_to_svg(chart.to_dict())
    return svg


def _same(points: Sequence[dict[str, Any]], point: dict[str, Any]) -> list[dict[str, Any]]:
    return [other for other in points if (other["of"], other["method"]) == (point["of"], point["method"])]


def _rate_panel(points: Sequence[dict[str, Any]], methods: Sequence[str]) -> Any:
    import altair as alt

    lines = [point for point in points if len(_same(points, point)) > 1]
    levels = [point for point in points if len(_same(points, point)) == 1]
    y = {"title": points[0]["metric"], "scale": alt.Scale(zero=False)}
    x = alt.X("told:Q", title="noise rate told", scale=alt.Scale(zero=False, padding=12), axis=alt.Axis(grid=False))
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
        truth = alt.Chart({"values": [{"told": points[0]["true"]}]})
        layers.append(truth.mark_rule(strokeDash=[5, 4], color="#888").encode(x="told:Q"))
    return alt.layer(*layers).properties(title=points[0]["of"], width=300, height=220)
