"""Rules: how much should each example count, now?"""

from thresher.rules.clip import ClipNorm
from thresher.rules.combinators import every, from_peer, once, per_class, product, warmup
from thresher.rules.keep import KeepLargest, KeepSmallest, Uniform, keep_smallest
from thresher.rules.rule import Decision, Rule, RuleLike, ask

__all__ = [
    "ClipNorm",
    "Decision",
    "KeepLargest",
    "KeepSmallest",
    "Rule",
    "RuleLike",
    "Uniform",
    "ask",
    "every",
    "from_peer",
    "keep_smallest",
    "once",
    "per_class",
    "product",
    "warmup",
]
