"""Estimates of the noise rate: by the run itself, by trainings that hold examples out, or from arrays of theirs."""

from thresher.noise.audit_rate import audit_rate
from thresher.noise.estimate import Estimate
from thresher.noise.folds import confident_joint, noise_rate_by_folds, out_of_fold
from thresher.noise.noise_matrix import CorrectedAccuracy, corrected_accuracy, noise_matrix
from thresher.noise.noise_rate import estimated
from thresher.noise.residual_rate import residual_rate

__all__ = [
    "CorrectedAccuracy",
    "Estimate",
    "audit_rate",
    "confident_joint",
    "corrected_accuracy",
    "estimated",
    "noise_matrix",
    "noise_rate_by_folds",
    "out_of_fold",
    "residual_rate",
]
