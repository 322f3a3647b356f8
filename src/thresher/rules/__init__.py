"""Rules: how much each example should count."""

from thresher.core.rule import Decision, Rule, RuleLike, ask, warmup
from thresher.rules.clip import ClipNorm
from thresher.rules.combinators import either, every, from_average, from_peer, once, per_class, product
from thresher.rules.coresets.centrality import Centrality, centrality
from thresher.rules.coresets.coverage import Coreset
from thresher.rules.coresets.crowd import Crowd, neighbours_within
from thresher.rules.coresets.facility_location import FacilityLocation, facility_location
from thresher.rules.coresets.grouped import in_groups
from thresher.rules.coresets.k_centre import KCentre, k_centre
from thresher.rules.coresets.k_means import KMeansPlusPlus, kmeans_plus_plus
from thresher.rules.coresets.partitioned import partitioned_facility_location
from thresher.rules.coresets.stochastic import stochastic_facility_location
from thresher.rules.coresets.streaming import streamed_facility_location
from thresher.rules.curriculum import Curriculum
from thresher.rules.debias import Debias, Fidelity, OnlyCorrect, debias_weights, teacher_labels
from thresher.rules.dimensionality import Dimensionality, local_dimensionality
from thresher.rules.disagree import Disagree
from thresher.rules.frequency import CleanShare, HardestOfMajority, InverseFrequency, OnlyClean
from thresher.rules.keep import KeepAbove, KeepLargest, KeepSmallest, Uniform, keep_smallest
from thresher.rules.mentor import LearnedCurriculum
from thresher.rules.meta_gradient import MetaGradient, rectified
from thresher.rules.neighbour_vote import NeighbourVote, Voted, neighbour_votes, shares_of_votes
from thresher.rules.plane_neighbours import mean_of_nearest
from thresher.rules.random import RandomPicks, RandomWeights
from thresher.rules.selected import SampleWeight, Selected
from thresher.rules.trust import Agree, HoldOut, average_teaches, average_teaches_held_out, if_predicted, trusting

__all__ = [
    "Agree",
    "Centrality",
    "CleanShare",
    "ClipNorm",
    "Coreset",
    "Crowd",
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
    "LearnedCurriculum",
    "MetaGradient",
    "NeighbourVote",
    "OnlyClean",
    "OnlyCorrect",
    "RandomPicks",
    "RandomWeights",
    "Rule",
    "RuleLike",
    "SampleWeight",
    "Selected",
    "Uniform",
    "Voted",
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
    "neighbour_votes",
    "neighbours_within",
    "once",
    "partitioned_facility_location",
    "per_class",
    "product",
    "rectified",
    "shares_of_votes",
    "stochastic_facility_location",
    "streamed_facility_location",
    "teacher_labels",
    "trusting",
    "warmup",
]
