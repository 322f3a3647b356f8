"""Procedures: methods that are several trainings, as plain functions over `fit`."""

from thresher.procedures.active import Loop, TrainedTo, active_loop
from thresher.procedures.clean_only import clean_only, with_clean
from thresher.procedures.confusion import noise_layer_from_confusion
from thresher.procedures.fine_tune import fine_tune
from thresher.procedures.trainer import Trainer

__all__ = [
    "Loop",
    "TrainedTo",
    "Trainer",
    "active_loop",
    "clean_only",
    "fine_tune",
    "noise_layer_from_confusion",
    "with_clean",
]
