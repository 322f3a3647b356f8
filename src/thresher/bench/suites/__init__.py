"""The registry: every suite by its name; one file a suite."""

from thresher.bench.suite import Suite
from thresher.bench.suites.active import ACTIVE
from thresher.bench.suites.demo import DEMO
from thresher.bench.suites.prl import PRL
from thresher.bench.suites.prl_rates import PRL_RATES
from thresher.naming import unknown

SUITES: dict[str, Suite] = {suite.name: suite for suite in (DEMO, PRL, PRL_RATES, ACTIVE)}


def suite(name: str) -> Suite:
    """The suite of this name.

    >>> [cell.name for cell in suite("demo").scale("small").cells]
    ['symmetric-40', 'pairflip-40']
    """
    if name not in SUITES:
        raise unknown("suite", name, SUITES)
    return SUITES[name]
