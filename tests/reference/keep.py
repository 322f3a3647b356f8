"""Keeping the smallest values the slow, obvious way: Python lists, one group at a time."""

import math
from collections.abc import Sequence


def keep_smallest(
    values: Sequence[float],
    ids: Sequence[int],
    fraction: float | None = None,
    count: int | None = None,
    groups: Sequence[int] | None = None,
) -> list[float]:
    """1 for each kept example: of every group the `count`, or max(1, round(fraction · size)), that come first."""
    groups = [0] * len(values) if groups is None else groups
    kept = [0.0] * len(values)
    for group in set(groups):
        members = [place for place in range(len(values)) if groups[place] == group]
        # NaN last, then by value, then by id
        members.sort(key=lambda place: (math.isnan(values[place]), _number(values[place]), ids[place]))
        room = count if count is not None else max(1, round((fraction or 0.0) * len(members)))
        for place in members[:room]:
            kept[place] = 1.0
    return kept


def _number(value: float) -> float:
    return 0.0 if math.isnan(value) else value
