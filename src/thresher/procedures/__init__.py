"""Procedures: methods that are several trainings, as plain functions over `fit`."""

from thresher.procedures.clean_only import clean_only, with_clean
from thresher.procedures.confusion import noise_layer_from_confusion
from thresher.procedures.distil import WEIGHTINGS, distil, student_recipe, weighting
from thresher.procedures.fine_tune import fine_tune
from thresher.procedures.lessons import Lessons, teach
from thresher.procedures.trainer import Trainer

__all__ = [
    "WEIGHTINGS",
    "Lessons",
    "Trainer",
    "clean_only",
    "distil",
    "fine_tune",
    "noise_layer_from_confusion",
    "student_recipe",
    "teach",
    "weighting",
    "with_clean",
]
