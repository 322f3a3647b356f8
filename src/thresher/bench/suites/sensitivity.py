"""What it costs to be told a wrong noise rate: one data set, some methods, several rates (the PRL paper's Table 3)."""

from collections.abc import Sequence

from thresher.bench.definition.grid import Cell, Entry
from thresher.bench.definition.points import TOLD_RATE, Point, true_rate
from thresher.bench.definition.setup import Setup
from thresher.bench.definition.suite import STANDARD, Scale, Suite
from thresher.core.errors import ThresherError
from thresher.methods import method

SCALE = "small"
SHIFTS = (-0.1, -0.05, 0.0, 0.05, 0.1)


def rates_around(corruption: str | None) -> list[float]:
    """The true rate and two on either side of it.

    >>> rates_around("symmetric:0.4"), rates_around("uninoise:0.05")
    ([0.3, 0.35, 0.4, 0.45, 0.5], [0.0, 0.05, 0.1, 0.15])
    """
    true = true_rate(corruption)
    if true is None:
        raise ThresherError("Without a corruption the true rate is not known: give --rates, such as 0.1,0.2,0.3.")
    return [rate for rate in (round(true + shift, 4) for shift in SHIFTS) if 0 <= rate < 1]


def sensitivity_suite(
    data: str,
    corruption: str | None,
    methods: Sequence[str],
    rates: Sequence[float],
    *,
    setup: Setup,
    metric: str,
) -> Suite:
    """A cell for each rate; Standard, which is told nothing, is trained once, to compare with."""
    for name in methods:
        if "noise_rate" not in method(name).needs:
            raise ThresherError(f"{name} is told no noise rate, so none can be wrong: choose another method.")
    if not methods or len(set(rates)) < 2:
        raise ThresherError("There is nothing to draw: give --method, and --rates with at least two different rates.")
    for rate in rates:
        if not 0 <= rate < 1:
            raise ThresherError(f"--rates must be at least 0 and below 1, not {rate:g}.")
    ordered = sorted(set(rates))
    return Suite(
        name="sensitivity",
        title=f"{', '.join(methods)} told different noise rates",
        methods=(Entry(STANDARD), *(Entry(name) for name in methods)),
        scales={
            SCALE: Scale(
                tuple(
                    Cell(
                        f"told-{rate:g}",
                        data,
                        corruption,
                        noise_rate=rate,
                        metric=metric,
                        methods=(STANDARD, *methods) if rate == ordered[0] else tuple(methods),
                        points=(
                            Point(TOLD_RATE, rate, f"{data}, {corruption or 'as it is'}", mark=true_rate(corruption)),
                        ),
                    )
                    for rate in ordered
                ),
                setup,
            )
        },
    )
