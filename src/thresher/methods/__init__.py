"""Methods by name: recipes, procedures, acquisitions, and weightings of a teacher's labels."""

from thresher.methods.acquisitions import ACQUISITIONS, Acquisition, acquisition
from thresher.methods.active_loop import Loop, TrainedTo, active_loop
from thresher.methods.auto import AUTO, Choice, choose
from thresher.methods.clean_only import clean_only, with_clean
from thresher.methods.determinant import determinant
from thresher.methods.distillation import distil, student_recipe
from thresher.methods.fine_tune import fine_tune, last_rate
from thresher.methods.forward_correction import forward_correction
from thresher.methods.incv import incv
from thresher.methods.layer_pairs import pairs_between
from thresher.methods.method import Method, MethodFacts, Trainer
from thresher.methods.noise_layer import noise_layer_from_confusion
from thresher.methods.reclaim import (
    CONFIDENT,
    DEBIASED,
    DEBIASED_HELD_OUT,
    agreeing,
    central,
    growing,
    joint,
    reclaim,
    short,
)
from thresher.methods.reclaim_vote import SURE_AND_VOTED, reclaim_vote
from thresher.methods.registry import KINDS, METHODS, method, methods
from thresher.methods.represent import Start, Started, represent, write_start
from thresher.methods.t_revision import t_revision
from thresher.methods.teaching import Lessons, teach
from thresher.methods.weightings import WEIGHTINGS, Weighting, weighting

__all__ = [
    "ACQUISITIONS",
    "AUTO",
    "CONFIDENT",
    "DEBIASED",
    "DEBIASED_HELD_OUT",
    "KINDS",
    "METHODS",
    "SURE_AND_VOTED",
    "WEIGHTINGS",
    "Acquisition",
    "Choice",
    "Lessons",
    "Loop",
    "Method",
    "MethodFacts",
    "Start",
    "Started",
    "TrainedTo",
    "Trainer",
    "Weighting",
    "acquisition",
    "active_loop",
    "agreeing",
    "central",
    "choose",
    "clean_only",
    "determinant",
    "distil",
    "fine_tune",
    "forward_correction",
    "growing",
    "incv",
    "joint",
    "last_rate",
    "method",
    "methods",
    "noise_layer_from_confusion",
    "pairs_between",
    "reclaim",
    "reclaim_vote",
    "represent",
    "short",
    "student_recipe",
    "t_revision",
    "teach",
    "weighting",
    "with_clean",
    "write_start",
]
