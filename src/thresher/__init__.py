"""Train models on data you cannot fully trust, and keep a record of what was trusted."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Where each public name but the packages comes from. They are imported when first asked for, so that
# `thresher --version` does not wait for torch.
_HOMES = {
    "Evidence": "core.evidence",
    "Examples": "core.examples",
    "Ledger": "record.ledger",
    "Moment": "engine.train",
    "Recipe": "core.recipe",
    "Rule": "core.rule",
    "Run": "engine.run",
    "Signal": "core.evidence",
    "ThresherError": "core.errors",
    "TrainSettings": "engine.settings",
    "acquire": "engine.acquire",
    "active_loop": "methods",
    "audit": "auditing",
    "distil": "methods",
    "fit": "door",
    "load": "data",
    "method": "methods",
    "open_run": "door",
    "weigh": "engine.weigh",
}

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
    "audit",
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

if TYPE_CHECKING:
    from thresher import corruption, data, methods, models, noise, objectives, rules, schedules, signals, slots
    from thresher.auditing import audit
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


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'thresher' has no attribute {name!r}")
    if name not in _HOMES:  # a package
        return import_module(f"thresher.{name}")
    return getattr(import_module(f"thresher.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
