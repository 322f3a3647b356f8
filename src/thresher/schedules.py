"""Schedules: settings that change over training, as functions of how far it has come."""

from thresher.core.schedules import Schedule, cosine, ramp, rising, stairs, step

__all__ = ["Schedule", "cosine", "ramp", "rising", "stairs", "step"]
