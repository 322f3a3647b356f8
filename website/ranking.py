"""Which method wins where, and at what cost, from the stored ranking and the stored suites."""

import json
from pathlib import Path
from typing import Any

from thresher.bench.pages.markdown import table
from website.charts import bars, labelled_points
from website.made import Made
from website.stored import costs

SITUATIONS = {
    "classes": "Wrong labels, fewer than six of ten",
    "mostly wrong": "Mostly wrong labels, six of ten or more",
    "clean examples": "Wrong labels, and a few examples known to be right",
    "imbalanced": "Rare classes, right labels, and a few examples known to be right",
    "imbalanced tables": "Rare classes in tables, by balanced accuracy",
    "regression": "Real targets, some of them wrong",
}
UNITS = {"regression": "R²", "imbalanced tables": "balanced accuracy"}
IN_PICTURES = -0.15  # a worse mean gain is in the tables alone, so that it does not flatten the others


def ranking_part(root: Path) -> Made:
    """A section for each situation: the methods by their mean gain over plain training, and their cost."""
    stored = json.loads((root / "src/thresher/methods/ranking.json").read_text(encoding="utf-8"))["ranking"]
    parts, files = [], {}
    for situation, title in SITUATIONS.items():
        rows = stored[situation]
        stem, unit = situation.replace(" ", "-"), UNITS.get(situation, "accuracy")
        points = [_point(root, row) for row in rows if row["gain"] > IN_PICTURES]
        files[f"which-{stem}.svg"] = bars(
            points, "gain", f"mean gain over plain training, {unit}", own=points[0]["who"]
        )
        parts += [f"### {title}", f"![The gain of each method: {situation}](which-{stem}.svg)"]
        if len(placed := [point for point in points if point["cost"] is not None]) > 2:
            files[f"which-{stem}-cost.svg"] = labelled_points(
                placed, "cost", "gain", ("time of a run, times plain training (a CPU)", f"mean gain, {unit}")
            )
            parts.append(f"![Gain against cost: {situation}](which-{stem}-cost.svg)")
        heads = ["method", "mean gain", "comparisons", "time of a run, times plain training"]
        parts.append(f'??? note "The numbers"\n\n{_indented(table(heads, [_line(root, row) for row in rows]))}')
    return Made("\n\n".join(parts), files)


def _point(root: Path, row: dict[str, Any]) -> dict[str, Any]:
    cost = costs(root, row["method"]).get("a CPU")
    middle = 1.0 if row["method"] == "standard" else None if cost is None else cost.middle
    return {"who": row["method"], "gain": row["gain"], "told": f"{row['gain']:+.3f}", "cost": middle}


def _line(root: Path, row: dict[str, Any]) -> list[str]:
    found = costs(root, row["method"]) if row["method"] != "standard" else {}
    told = ", ".join(f"{cost.middle:.2f}× on {where}" for where, cost in found.items())
    name = row["method"]
    return [f"[{name}](methods/{name}.md)", f"{row['gain']:+.4f}", f"{row['cells']}", told or "1"]


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())
