"""Rules: how much should each example count, now?"""

from thresher.rules.clip import ClipNorm
from thresher.rules.combinators import every, from_peer, once, per_class, product, warmup
from thresher.rules.curriculum import Curriculum
from thresher.rules.disagree import Disagree
from thresher.rules.frequency import CleanShare, HardestOfMajority, InverseFrequency, OnlyClean
from thresher.rules.keep import KeepLargest, KeepSmallest, Uniform, keep_smallest
from thresher.rules.meta_gradient import MetaGradient, rectified
from thresher.rules.random import RandomWeights
from thresher.rules.rule import Decision, Rule, RuleLike, ask

__all__ = [
    "CleanShare",
    "ClipNorm",
    "Curriculum",
    "Decision",
    "Disagree",
    "HardestOfMajority",
    "InverseFrequency",
    "KeepLargest",
    "KeepSmallest",
    "MetaGradient",
    "OnlyClean",
    "RandomWeights",
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
    "rectified",
    "warmup",
]
