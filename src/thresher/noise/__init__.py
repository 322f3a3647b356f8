"""Estimates of the noise rate: by the run itself, or by trainings that hold examples out."""

from thresher.noise.folds import confident_joint, noise_rate_by_folds, out_of_fold
from thresher.noise.noise_rate import Estimate, estimated

__all__ = ["Estimate", "confident_joint", "estimated", "noise_rate_by_folds", "out_of_fold"]
