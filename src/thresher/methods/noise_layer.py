"""S-Model+Conf: a noise layer that starts from the confusion of a trained baseline."""

import pyarrow.compute as pc
import torch

from thresher.core.errors import ThresherError
from thresher.core.recipe import Recipe
from thresher.engine.run import Run
from thresher.methods.method import Trainer
from thresher.objectives import NoiseLayer, smoothed_confusion


def noise_layer_from_confusion(train: Trainer, baseline: Recipe | None = None) -> Run:
    """Train a baseline, then a noise layer that starts from its confusion with the given labels (S-Model+Conf).

    The confusion is that on the training set in the epoch the baseline is kept from: the last one, or the one that
    early stopping chose (L2RW, section 4.2).
    """
    if train.train.classes is None:
        raise ThresherError("A noise layer is defined for classification only: choose another method.")
    first = train(baseline or Recipe(), stage="baseline")
    kept = first.chosen or first.history[-1]["epoch"]
    rows = first.ledger.table(["prediction", "target"], (pc.field("epoch") == kept) & (pc.field("peer") == 0))
    predicted, given = (torch.from_numpy(rows[name].to_numpy().astype("int64")) for name in ("prediction", "target"))
    start = smoothed_confusion(predicted, given, train.train.outputs)
    return train(Recipe(objective=NoiseLayer(start)))
