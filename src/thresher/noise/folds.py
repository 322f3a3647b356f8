"""The noise rate by cross-validation: networks judge examples they were not trained on."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from thresher.core.errors import ThresherError
from thresher.core.examples import Examples
from thresher.core.recipe import Recipe
from thresher.core.seeding import generator
from thresher.core.signals import loss
from thresher.core.tasks import CLASSES, REAL
from thresher.engine.loop.sweeper import Sweeper
from thresher.engine.train import train_recipe
from thresher.noise.audit_rate import audit_rate
from thresher.noise.estimate import Estimate
from thresher.noise.residual_rate import residual_rate
from thresher.objectives import as_objective
from thresher.rules import KeepSmallest

STOPPED = "Stopped while the noise rate was measured, which begins anew when the same is run again."
TRIMMED = Recipe(each_batch=KeepSmallest(by=loss, fraction=0.5))


def noise_rate_by_folds(
    train: Examples, model: Callable[[], nn.Module], *, folds: int = 4, epochs: int = 10, seed: int = 0, **settings: Any
) -> Estimate:
    """The share of corrupt targets by out-of-fold predictions, for `folds` trainings of `epochs` epochs.

    For classes `audit_rate`; for real targets `residual_rate` of networks that learn from the smaller half of the
    losses, which tolerates half of the targets being wrong. `settings` go to `fit`.
    """
    if not 2 <= folds <= len(train):
        raise ThresherError(f"folds={folds} leaves nothing to train on or to judge: give 2 to {len(train)}.")
    if train.task not in (CLASSES, REAL):
        raise ThresherError(f"Folds cannot find the noise rate of {train.task} targets: give a number as noise_rate=.")
    recipe = TRIMMED if train.is_regression else Recipe()
    try:
        outputs = out_of_fold(recipe, model, train, folds=folds, epochs=epochs, seed=seed, **settings)
    except KeyboardInterrupt as stop:  # whose notes are about a training that is kept nowhere
        raise KeyboardInterrupt(STOPPED) from stop
    if train.is_regression:
        return residual_rate((train.targets.cpu() - outputs).numpy())
    return audit_rate(outputs.softmax(1).numpy(), train.labels.cpu().numpy())


def out_of_fold(
    recipe: Recipe, model: Callable[[], nn.Module], train: Examples, *, folds: int, seed: int = 0, **settings: Any
) -> Tensor:
    """Outputs [n, ...] for every example by a network that was trained without it, on the CPU."""
    order = torch.randperm(len(train), generator=generator(seed, "folds"))
    found: list[Tensor] = []
    for place, held in enumerate(parts := order.tensor_split(folds)):
        rest = torch.cat([part for other, part in enumerate(parts) if other != place])
        run = train_recipe(recipe, model, train.subset(rest), seed=seed, **settings)
        judged = train.subset(held).to(next(run.model.parameters()).device)
        found.append(Sweeper()(run.model, as_objective(None, train.task), judged).outputs.cpu())
    outputs = torch.cat(found)
    return torch.empty_like(outputs).index_copy_(0, order, outputs)


def confident_joint(probabilities: Tensor, labels: Tensor) -> Tensor:
    """How many examples [classes, classes] have label i and confidently belong to class j.

    Confidently: the probability of j is at least its mean over the examples labelled j (Northcutt et al. 2021, Eq. 1);
    of several such classes the likeliest counts; an example without one is left out.

    >>> sure, unsure = [0.9, 0.1], [0.55, 0.45]
    >>> confident_joint(torch.tensor([sure, sure, unsure, sure[::-1], sure]), torch.tensor([0, 0, 0, 1, 1])).tolist()
    [[2, 0], [1, 1]]
    """
    classes = probabilities.shape[1]
    given = torch.nn.functional.one_hot(labels, classes).to(probabilities.dtype)
    mean = (given * probabilities).sum(0) / given.sum(0).clamp_min(1)
    sure = torch.where(probabilities >= mean, probabilities, -1.0)
    best, judged = sure.max(1)
    pairs = (labels * classes + judged)[best >= 0]
    return torch.bincount(pairs, minlength=classes**2).view(classes, classes)
