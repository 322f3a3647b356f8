"""Where cells stand in plots of scores against a number."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Axis:
    """A number in which cells of a suite differ.

    as_errors  plot the error instead of the score
    levels     a method that is run at a single number does not depend on it, and is drawn as a horizontal line
    methods    the names of those that are drawn, where all of them would hide one another
    """

    title: str
    log: bool = False
    as_errors: bool = False
    levels: bool = False
    methods: tuple[str, ...] = ()


@dataclass(frozen=True)
class Point:
    """Where a cell stands in a plot of scores against a number; cells of one panel differ in nothing else.

    mark  a number to be marked in the panel, such as the true noise rate
    """

    axis: Axis
    value: float
    panel: str
    mark: float | None = None


TOLD_RATE = Axis("noise rate told", levels=True)
SHARE_KEPT = Axis("share kept", levels=True)


def true_rate(corruption: str | None) -> float | None:
    """The rate in the name of a corruption; an imbalance has none.

    >>> true_rate("symmetric:0.4"), true_rate("linadv:0.2:3"), true_rate("imbalance:200"), true_rate(None)
    (0.4, 0.2, None, None)
    """
    number = float("nan") if corruption is None else float(corruption.split(":")[1])
    return number if 0 <= number < 1 else None
