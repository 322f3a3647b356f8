"""Pictures of the site, all in one style, as SVG."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import vl_convert

from thresher.report.charts import METHOD_COLOURS

WIDTH, LINE_HEIGHT = 560, 20
Points = Sequence[dict[str, Any]]


def svg(chart: Any) -> str:
    """The chart on a white ground."""
    drawn: str = vl_convert.vegalite_to_svg(chart.configure(background="white").to_dict())
    return drawn


def bars(points: Points, value: str, title: str, name: str = "who", own: str = "", log: bool = False) -> str:
    """A bar for each point, in the order given, with its value beside it; the bar of `own` stands out."""
    order = [point[name] for point in points]
    # A logarithmic axis has no zero: its bars begin below the least value.
    least = min(point[value] for point in points) / 2
    values = [{**point, "start": least if log else 0.0} for point in points]
    scale = alt.Scale(type="log", nice=False) if log else alt.Scale()
    colour = alt.condition(alt.datum[name] == own, alt.value(METHOD_COLOURS[1]), alt.value(METHOD_COLOURS[0]))
    base = alt.Chart({"values": values}).encode(
        y=alt.Y(f"{name}:N", sort=order, title=None, axis=alt.Axis(labelLimit=260))
    )
    drawn = base.mark_bar().encode(x=alt.X(f"{value}:Q", title=title, scale=scale), x2="start:Q", color=colour)
    told = base.mark_text(align="left", dx=4).encode(x=alt.X(f"{value}:Q", scale=scale), text="told:N")
    return svg(alt.layer(drawn, told).properties(width=WIDTH, height=LINE_HEIGHT * len(points)))


def lines(points: Points, x: str, y: str, titles: tuple[str, str], colour: str = "who") -> str:
    """A line for each name against a number, both axes logarithmic."""
    names = list(dict.fromkeys(point[colour] for point in points))
    scale = alt.Scale(domain=names, range=[METHOD_COLOURS[at % len(METHOD_COLOURS)] for at in range(len(names))])
    chart = alt.Chart({"values": list(points)}).mark_line(point=True, strokeWidth=2)
    encoded = chart.encode(
        x=alt.X(f"{x}:Q", title=titles[0], scale=alt.Scale(type="log"), axis=alt.Axis(format="~s")),
        y=alt.Y(f"{y}:Q", title=titles[1], scale=alt.Scale(type="log"), axis=alt.Axis(format="~g")),
        color=alt.Color(f"{colour}:N", title=None, sort=names, scale=scale),
    )
    return svg(encoded.properties(width=WIDTH - 100, height=300))


def labelled_points(points: Points, x: str, y: str, titles: tuple[str, str], name: str = "who") -> str:
    """A point for each name at two numbers, with its name beside it; the horizontal axis is logarithmic."""
    base = alt.Chart({"values": list(points)}).encode(
        x=alt.X(
            f"{x}:Q", title=titles[0], scale=alt.Scale(type="log", nice=False, padding=40), axis=alt.Axis(format="~g")
        ),
        y=alt.Y(f"{y}:Q", title=titles[1], scale=alt.Scale(zero=False, padding=20)),
    )
    dots = base.mark_circle(size=70, color=METHOD_COLOURS[0])
    told = base.mark_text(align="left", dx=7, fontSize=11).encode(text=f"{name}:N")
    return svg(alt.layer(dots, told).properties(width=WIDTH, height=420))
