"""Train models on data you cannot fully trust, and keep a record of what was trusted."""

from thresher import corruption, data, methods, models, noise, objectives, rules, schedules, signals, slots
from thresher.core.errors import ThresherError
from thresher.core.evidence import Evidence, Signal
from thresher.core.examples import Examples
from thresher.core.recipe import Recipe
from thresher.core.rule import Rule
from thresher.data import load
from thresher.door import fit, open_run
from thresher.engine.acquire import acquire
from thresher.engine.run import Run
from thresher.engine.settings import TrainSettings
from thresher.engine.train import Moment
from thresher.engine.weigh import weigh
from thresher.methods import active_loop, distil, method
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
    "TrainSettings",
    "acquire",
    "active_loop",
    "corruption",
    "data",
    "distil",
    "fit",
    "load",
    "method",
    "methods",
    "models",
    "noise",
    "objectives",
    "open_run",
    "rules",
    "schedules",
    "signals",
    "slots",
    "weigh",
]
