"""Pictures of the site, all in one style, as SVG."""

from collections.abc import Sequence
from math import log
from typing import Any

import altair as alt
import vl_convert

from thresher.report.charts import METHOD_COLOURS

WIDTH, LINE_HEIGHT, LETTERS = 520, 22, 13
OF_BARS = 290  # narrow, so that with their names they fit a phone
Points = Sequence[dict[str, Any]]


def svg(chart: Any) -> str:
    """The chart on a white ground, in letters that can be read on a phone."""
    sized = chart.configure(background="white").configure_axis(labelFontSize=LETTERS, titleFontSize=LETTERS)
    sized = sized.configure_legend(labelFontSize=LETTERS).configure_text(fontSize=LETTERS - 1)
    drawn: str = vl_convert.vegalite_to_svg(sized.to_dict())
    return drawn


def bars(points: Points, value: str, title: str, name: str = "who", own: str = "", logarithmic: bool = False) -> str:
    """A bar for each point, in the order given, with its value beside it; the bar of `own` stands out."""
    order = [point[name] for point in points]
    # A logarithmic axis has no zero: its bars begin below the least value.
    least = min(point[value] for point in points) / 2
    start = least if logarithmic else 0.0
    values = [{**point, "start": start, "end": max(point[value], start)} for point in points]
    scale = alt.Scale(type="log", nice=False) if logarithmic else alt.Scale()
    colour = alt.condition(alt.datum[name] == own, alt.value(METHOD_COLOURS[1]), alt.value(METHOD_COLOURS[0]))
    base = alt.Chart({"values": values}).encode(
        y=alt.Y(f"{name}:N", sort=order, title=None, axis=alt.Axis(labelLimit=400))
    )
    drawn = base.mark_bar().encode(x=alt.X(f"{value}:Q", title=title, scale=scale), x2="start:Q", color=colour)
    told = base.mark_text(align="left", dx=4).encode(x=alt.X("end:Q", scale=scale), text="told:N")
    return svg(alt.layer(drawn, told).properties(width=OF_BARS, height=LINE_HEIGHT * len(points)))


def lines(points: Points, x: str, y: str, titles: tuple[str, str], colour: str = "who") -> str:
    """A line for each name against a number, both axes logarithmic."""
    names = list(dict.fromkeys(point[colour] for point in points))
    scale = alt.Scale(domain=names, range=[METHOD_COLOURS[at % len(METHOD_COLOURS)] for at in range(len(names))])
    chart = alt.Chart({"values": list(points)}).mark_line(point=True, strokeWidth=2)
    encoded = chart.encode(
        x=alt.X(f"{x}:Q", title=titles[0], scale=alt.Scale(type="log"), axis=alt.Axis(format="~s")),
        y=alt.Y(f"{y}:Q", title=titles[1], scale=alt.Scale(type="log"), axis=alt.Axis(format="~g")),
        color=alt.Color(
            f"{colour}:N", title=None, sort=names, scale=scale, legend=alt.Legend(orient="bottom", columns=2)
        ),
    )
    return svg(encoded.properties(width=OF_BARS + 60, height=300))


def labelled_points(points: Points, x: str, y: str, titles: tuple[str, str], name: str = "who") -> str:
    """A point for each name at two numbers, with its name beside it; the horizontal axis is logarithmic.

    Points that no other beats in both numbers (less of x, more of y) stand out.
    """
    height, most = 420, 1.35 * max(point[x] for point in points)
    placed = [{**point, "first": not any(_beats(other, point, x, y) for other in points)} for point in points]
    values = _with_free_labels(placed, x, y, name, height)
    base = alt.Chart({"values": values}).encode(
        x=alt.X(
            f"{x}:Q", title=titles[0], axis=alt.Axis(format="~g", tickCount=6),
            scale=alt.Scale(type="log", nice=False, domain=[0.9 * min(point[x] for point in points), most]),
        ),
    )  # fmt: skip
    colour = alt.condition(alt.datum.first, alt.value(METHOD_COLOURS[1]), alt.value(METHOD_COLOURS[0]))
    up = alt.Scale(zero=False, padding=20)
    dots = base.mark_circle(size=70, opacity=1).encode(y=alt.Y(f"{y}:Q", title=titles[1], scale=up), color=colour)
    told = base.mark_text(align="left", dx=7).encode(y=alt.Y("label_at:Q", scale=up), text=f"{name}:N", color=colour)
    return svg(alt.layer(dots, told).properties(width=WIDTH, height=height))


def _beats(one: dict[str, Any], other: dict[str, Any], x: str, y: str) -> bool:
    at_least = one[x] <= other[x] and one[y] >= other[y]
    return bool(at_least and (one[x], one[y]) != (other[x], other[y]))


def _with_free_labels(points: Points, x: str, y: str, name: str, height: int) -> list[dict[str, Any]]:
    """The points with heights for their names at which no two names overlap, from the highest down.

    >>> near = [{"who": "a", "x": 1, "y": 0.5}, {"who": "b", "x": 1, "y": 0.5}, {"who": "c", "x": 9, "y": 0.0}]
    >>> [round(each["label_at"], 2) for each in _with_free_labels(near, "x", "y", "who", 100)]
    [0.5, 0.44, 0.0]
    """
    across = log(max(point[x] for point in points) / min(point[x] for point in points)) or 1.0
    up = (max(point[y] for point in points) - min(point[y] for point in points)) or 1.0
    line, taken, found = up * LETTERS / height, list[tuple[float, float, float]](), list[dict[str, Any]]()
    for point in sorted(points, key=lambda each: -each[y]):
        left = log(point[x]) / across * WIDTH
        right, at = left + LETTERS * 0.6 * len(str(point[name])), point[y]
        while any(left < end and start < right and abs(at - there) < 0.99 * line for start, end, there in taken):
            at -= line / 4
        taken.append((left, right, at))
        found.append({**point, "label_at": at})
    return found
