"""Numbers as papers print them, as data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Published:
    """A number as the paper prints it, in the unit of its table, and which of our scores it is compared with."""

    value: float
    table: str
    spread: float | None = None
    score: str = "last"  # or "best", where the paper reports the best epoch


def published(
    table: str, cells: Sequence[str], rows: Mapping[str, Sequence[float | None]], score: str = "last"
) -> dict[tuple[str, str], Published]:
    """A printed table as data: a row for each method, a number for each cell, None where the paper has none.

    >>> numbers = published("Table 2", ["sym-50", "pair-45"], {"standard": [44.63, 48.05], "spl": [72.22, None]})
    >>> numbers["pair-45", "standard"].value, ("pair-45", "spl") in numbers
    (48.05, False)
    """
    return {
        (cell, row): Published(value, table, score=score)
        for row, values in rows.items()
        for cell, value in zip(cells, values, strict=True)
        if value is not None
    }


def printed(table: str, methods: Sequence[str], text: str, score: str = "last") -> dict[tuple[str, str], Published]:
    """The same from printed text: a line for each cell, its name and then value±spread for each method, or -.

    >>> printed("Table 2", ["standard", "spl"], "sym-50  44.63±0.18  72.22±0.15")["sym-50", "spl"].spread
    0.15
    """
    found = {}
    for line in filter(str.strip, text.splitlines()):
        cell, *numbers = line.split()
        for row, number in zip(methods, numbers, strict=True):
            if number != "-":
                value, _, spread = number.partition("±")
                found[cell, row] = Published(float(value), table, float(spread) if spread else None, score)
    return found
