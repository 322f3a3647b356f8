"""Rules: how much should each example count, now?"""

from thresher.rules.centrality import centrality
from thresher.rules.clip import ClipNorm
from thresher.rules.combinators import every, from_peer, once, per_class, product, warmup
from thresher.rules.coreset import Centrality, FacilityLocation
from thresher.rules.cover import Coreset
from thresher.rules.curriculum import Curriculum
from thresher.rules.disagree import Disagree
from thresher.rules.diverse import KCentre, KMeansPlusPlus, k_centre, kmeans_plus_plus
from thresher.rules.facility_location import facility_location
from thresher.rules.frequency import CleanShare, HardestOfMajority, InverseFrequency, OnlyClean
from thresher.rules.grouped import in_groups
from thresher.rules.keep import KeepLargest, KeepSmallest, Uniform, keep_smallest
from thresher.rules.meta_gradient import MetaGradient, rectified
from thresher.rules.partitioned import partitioned_facility_location
from thresher.rules.random import RandomPicks, RandomWeights
from thresher.rules.rule import Decision, Rule, RuleLike, ask
from thresher.rules.stochastic import stochastic_facility_location
from thresher.rules.streaming import streamed_facility_location

__all__ = [
    "Centrality",
    "CleanShare",
    "ClipNorm",
    "Coreset",
    "Curriculum",
    "Decision",
    "Disagree",
    "FacilityLocation",
    "HardestOfMajority",
    "InverseFrequency",
    "KCentre",
    "KMeansPlusPlus",
    "KeepLargest",
    "KeepSmallest",
    "MetaGradient",
    "OnlyClean",
    "RandomPicks",
    "RandomWeights",
    "Rule",
    "RuleLike",
    "Uniform",
    "ask",
    "centrality",
    "every",
    "facility_location",
    "from_peer",
    "in_groups",
    "k_centre",
    "keep_smallest",
    "kmeans_plus_plus",
    "once",
    "partitioned_facility_location",
    "per_class",
    "product",
    "rectified",
    "stochastic_facility_location",
    "streamed_facility_location",
    "warmup",
]
