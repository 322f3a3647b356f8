"""Cells of a table as people are shown them."""

import math
from typing import Any

FEW = 4  # of the values of a list that are shown


def plain_value(value: Any) -> Any:
    """A cell as JSON knows it: not finite becomes empty; anything but a number, text or truth value becomes text.

    Of a list, such as an embedding, that has the first few.

    >>> plain_value([0.25, 1 / 3, 2.0, 0.0, 1.0]), plain_value(["red", "blue"])
    ('0.25, 0.3333, 2, 0, … (5)', 'red, blue')
    """
    if isinstance(value, list):
        first = [f"{each:.4g}" if isinstance(each, float) else str(each) for each in value[:FEW]]
        return ", ".join(first) + (f", … ({len(value)})" if len(value) > FEW else "")
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)
