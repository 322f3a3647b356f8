"""Procedures: methods that are several trainings, as plain functions over `fit`."""

from thresher.procedures.active import Loop, TrainedTo, active_loop
from thresher.procedures.clean_only import clean_only, with_clean
from thresher.procedures.confusion import noise_layer_from_confusion
from thresher.procedures.correction import forward_correction
from thresher.procedures.determinant import determinant
from thresher.procedures.distil import WEIGHTINGS, distil, student_recipe, weighting
from thresher.procedures.fine_tune import fine_tune, last_rate
from thresher.procedures.incv import incv
from thresher.procedures.lessons import Lessons, teach
from thresher.procedures.revision import t_revision
from thresher.procedures.trainer import Trainer

__all__ = [
    "WEIGHTINGS",
    "Lessons",
    "Loop",
    "TrainedTo",
    "Trainer",
    "active_loop",
    "clean_only",
    "determinant",
    "distil",
    "fine_tune",
    "forward_correction",
    "incv",
    "last_rate",
    "noise_layer_from_confusion",
    "student_recipe",
    "t_revision",
    "teach",
    "weighting",
    "with_clean",
]
