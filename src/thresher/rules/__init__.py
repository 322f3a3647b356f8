"""Rules: how much should each example count, now?"""

from thresher.rules.centrality import centrality
from thresher.rules.clip import ClipNorm
from thresher.rules.combinators import either, every, from_average, from_peer, once, per_class, product, until, warmup
from thresher.rules.coreset import Centrality, FacilityLocation
from thresher.rules.cover import Coreset
from thresher.rules.curriculum import Curriculum
from thresher.rules.debias import Debias, Fidelity, OnlyCorrect, debias_weights, teacher_labels
from thresher.rules.dimensionality import Dimensionality, local_dimensionality
from thresher.rules.disagree import Disagree
from thresher.rules.diverse import KCentre, KMeansPlusPlus, k_centre, kmeans_plus_plus
from thresher.rules.facility_location import facility_location
from thresher.rules.frequency import CleanShare, HardestOfMajority, InverseFrequency, OnlyClean
from thresher.rules.grouped import in_groups
from thresher.rules.keep import KeepAbove, KeepLargest, KeepSmallest, Uniform, keep_smallest
from thresher.rules.meta_gradient import MetaGradient, rectified
from thresher.rules.neighbours import mean_of_nearest
from thresher.rules.partitioned import partitioned_facility_location
from thresher.rules.random import RandomPicks, RandomWeights
from thresher.rules.rule import Decision, Rule, RuleLike, ask
from thresher.rules.selected import Selected
from thresher.rules.stochastic import stochastic_facility_location
from thresher.rules.streaming import streamed_facility_location
from thresher.rules.trust import Agree, HoldOut, average_teaches, average_teaches_held_out, if_predicted, trusting

__all__ = [
    "Agree",
    "Centrality",
    "CleanShare",
    "ClipNorm",
    "Coreset",
    "Curriculum",
    "Debias",
    "Decision",
    "Dimensionality",
    "Disagree",
    "FacilityLocation",
    "Fidelity",
    "HardestOfMajority",
    "HoldOut",
    "InverseFrequency",
    "KCentre",
    "KMeansPlusPlus",
    "KeepAbove",
    "KeepLargest",
    "KeepSmallest",
    "MetaGradient",
    "OnlyClean",
    "OnlyCorrect",
    "RandomPicks",
    "RandomWeights",
    "Rule",
    "RuleLike",
    "Selected",
    "Uniform",
    "ask",
    "average_teaches",
    "average_teaches_held_out",
    "centrality",
    "debias_weights",
    "either",
    "every",
    "facility_location",
    "from_average",
    "from_peer",
    "if_predicted",
    "in_groups",
    "k_centre",
    "keep_smallest",
    "kmeans_plus_plus",
    "local_dimensionality",
    "mean_of_nearest",
    "once",
    "partitioned_facility_location",
    "per_class",
    "product",
    "rectified",
    "stochastic_facility_location",
    "streamed_facility_location",
    "teacher_labels",
    "trusting",
    "until",
    "warmup",
]
