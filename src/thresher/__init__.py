"""Train models on data you cannot fully trust, and keep a record of what was trusted."""

from thresher import rules, schedules, signals
from thresher.engine.acquire import acquire
from thresher.engine.fit import Moment, fit
from thresher.engine.run import Run
from thresher.engine.weigh import weigh
from thresher.errors import ThresherError
from thresher.examples import Examples
from thresher.ledger import Ledger
from thresher.recipe import Recipe

__version__ = "0.1.0"

__all__ = [
    "Examples",
    "Ledger",
    "Moment",
    "Recipe",
    "Run",
    "ThresherError",
    "acquire",
    "fit",
    "rules",
    "schedules",
    "signals",
    "weigh",
]
