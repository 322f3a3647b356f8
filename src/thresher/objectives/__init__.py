"""Objectives: the loss of each example."""

from thresher.core.objective import Objective, ObjectiveLike, Plain
from thresher.objectives.bootstrap import Bootstrap, SoftBootstrap
from thresher.objectives.determinant import DeterminantLoss
from thresher.objectives.distillation import Distillation
from thresher.objectives.generalized_cross_entropy import GeneralizedCrossEntropy
from thresher.objectives.huber import Huber, huber
from thresher.objectives.near_uniform import NearUniform, near_uniform
from thresher.objectives.noise_layer import NoiseLayer, smoothed_confusion, smoothed_identity
from thresher.objectives.several import BinaryCrossEntropy, PositionCrossEntropy
from thresher.objectives.standard import CrossEntropy, SquaredError, as_objective
from thresher.objectives.transition import ForwardCorrection, Reweighted, transition_from_anchors
from thresher.objectives.variational import LayerPair, Variational
from thresher.objectives.views_agree import Contrastive, CrossCorrelation, contrastive, cross_correlation

__all__ = [
    "BinaryCrossEntropy",
    "Bootstrap",
    "Contrastive",
    "CrossCorrelation",
    "CrossEntropy",
    "DeterminantLoss",
    "Distillation",
    "ForwardCorrection",
    "GeneralizedCrossEntropy",
    "Huber",
    "LayerPair",
    "NearUniform",
    "NoiseLayer",
    "Objective",
    "ObjectiveLike",
    "Plain",
    "PositionCrossEntropy",
    "Reweighted",
    "SoftBootstrap",
    "SquaredError",
    "Variational",
    "as_objective",
    "contrastive",
    "cross_correlation",
    "huber",
    "near_uniform",
    "smoothed_confusion",
    "smoothed_identity",
    "transition_from_anchors",
]
