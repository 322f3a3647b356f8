"""The registry of suites; `sensitivity` is made for each call of its command and is not in it."""

from thresher.bench.definition.suite import Suite
from thresher.bench.suites.active import ACTIVE
from thresher.bench.suites.crust import CRUST
from thresher.bench.suites.crust_parts import CRUST_ABLATION, CRUST_SIZES
from thresher.bench.suites.crust_purity import CRUST_PURITY, CRUST_SELECTIONS
from thresher.bench.suites.demo import DEMO
from thresher.bench.suites.distil import DISTIL
from thresher.bench.suites.distil_temperatures import DISTIL_TEMPERATURES
from thresher.bench.suites.inputs import INPUTS
from thresher.bench.suites.l2rw import L2RW
from thresher.bench.suites.prl import PRL
from thresher.bench.suites.prl_rates import PRL_RATES
from thresher.bench.suites.reclaim import RECLAIM
from thresher.core.errors import unknown

CRUST_SUITES = (CRUST, CRUST_ABLATION, CRUST_SIZES, CRUST_PURITY, CRUST_SELECTIONS)
SUITES: dict[str, Suite] = {
    suite.name: suite
    for suite in (ACTIVE, DEMO, DISTIL, DISTIL_TEMPERATURES, INPUTS, L2RW, PRL, PRL_RATES, *CRUST_SUITES, RECLAIM)
}


def find_suite(name: str) -> Suite:
    """The suite of this name.

    >>> [cell.name for cell in find_suite("demo").scale("small").cells]
    ['symmetric-40', 'pairflip-40']
    """
    if name not in SUITES:
        raise unknown("suite", name, SUITES)
    return SUITES[name]
