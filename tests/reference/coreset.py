"""Coresets the slow, obvious way: all distances in one table, every gain from scratch."""

import itertools
import math
from collections.abc import Sequence

Rows = Sequence[Sequence[float]]
Table = list[list[int]]


def whole_distances(rows: Rows) -> Table:
    """Distances in units of 2⁻³⁰ of the power of two above the span: the most from who is farthest from the first."""
    far = max(range(len(rows)), key=lambda place: math.dist(rows[0], rows[place]))
    unit = 2.0 ** (math.frexp(max(math.dist(rows[far], row) for row in rows))[1] - 30)
    return [[round(math.dist(one, other) / unit) for other in rows] for one in rows]


def greedy(table: Table, count: int) -> list[int]:
    """The medoids in the order of choice: each lowers the sum of distances the most; ties to the lower index."""
    n, chosen = len(table), []
    nearest = [2**40] * n
    for _ in range(count):
        left = [c for c in range(n) if c not in chosen]
        best = max(left, key=lambda c: sum(max(0, nearest[i] - table[i][c]) for i in range(n)))
        chosen.append(best)
        nearest = [min(nearest[i], table[i][best]) for i in range(n)]
    return chosen


def clusters(table: Table, chosen: Sequence[int]) -> list[int]:
    """For each example the place of the nearest medoid, of the first chosen on ties; a medoid is its own."""
    return [
        list(chosen).index(i) if i in chosen else min(range(len(chosen)), key=lambda place: table[i][chosen[place]])
        for i in range(len(table))
    ]


def central(table: Table, count: int) -> list[int]:
    return sorted(range(len(table)), key=lambda i: (sum(table[i]), i))[:count]


def value(table: Table, chosen: Sequence[int]) -> int:
    """f(S) = Σ_i max_{j ∈ S} (largest distance - distance)."""
    largest = max(map(max, table))
    return sum(largest - min(row[j] for j in chosen) for row in table)


def best_value(table: Table, count: int) -> int:
    return max(value(table, some) for some in itertools.combinations(range(len(table)), count))
