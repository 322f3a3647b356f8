"""Procedures: methods that are several trainings, as plain functions over `fit`."""

from thresher.procedures.clean_only import clean_only, with_clean
from thresher.procedures.confusion import noise_layer_from_confusion
from thresher.procedures.fine_tune import fine_tune, last_rate
from thresher.procedures.trainer import Trainer

__all__ = ["Trainer", "clean_only", "fine_tune", "last_rate", "noise_layer_from_confusion", "with_clean"]
