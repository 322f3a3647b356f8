"""Values for the slots of a recipe beside rules and objectives: views, mix, relabel, draw, clip, average."""

from thresher.core.recipe import MixFromSet, Pairing, Relabel, Visits, shuffled
from thresher.slots.average import Growing, over
from thresher.slots.clip import Clamped
from thresher.slots.draw import class_balanced, repeated
from thresher.slots.mix import ClusterMixup, Mixup, SameClassMixup
from thresher.slots.relabel import AverageLabels, PredictedLabels, TeacherLabels, VoteLabels, labels_of_peer
from thresher.slots.start_views import CropResize, Grey, Hue, Solarise, Swap, different, sometimes
from thresher.slots.views import Affine, Chain, Colour, Cutout, Flip, PadCrop, Shift, strong, weak

__all__ = [
    "Affine",
    "AverageLabels",
    "Chain",
    "Clamped",
    "ClusterMixup",
    "Colour",
    "CropResize",
    "Cutout",
    "Flip",
    "Grey",
    "Growing",
    "Hue",
    "MixFromSet",
    "Mixup",
    "PadCrop",
    "Pairing",
    "PredictedLabels",
    "Relabel",
    "SameClassMixup",
    "Shift",
    "Solarise",
    "Swap",
    "TeacherLabels",
    "Visits",
    "VoteLabels",
    "class_balanced",
    "different",
    "labels_of_peer",
    "over",
    "repeated",
    "shuffled",
    "sometimes",
    "strong",
    "weak",
]
