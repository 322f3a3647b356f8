"""Train models on data you cannot fully trust, and keep a record of what was trusted."""

from thresher import rules, schedules, signals
from thresher.core.errors import ThresherError
from thresher.core.evidence import Evidence, Signal
from thresher.core.examples import Examples
from thresher.core.recipe import Recipe
from thresher.core.rule import Rule
from thresher.engine.acquire import acquire
from thresher.engine.run import Run
from thresher.engine.train import Moment, fit
from thresher.engine.weigh import weigh
from thresher.record.ledger import Ledger

__version__ = "0.1.0"

__all__ = [
    "Evidence",
    "Examples",
    "Ledger",
    "Moment",
    "Recipe",
    "Rule",
    "Run",
    "Signal",
    "ThresherError",
    "acquire",
    "fit",
    "rules",
    "schedules",
    "signals",
    "weigh",
]
