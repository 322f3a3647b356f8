"""F-correction: estimate the transition of labels by a first training, then train through it."""

import torch
from torch import Tensor

from thresher.core.errors import ThresherError
from thresher.core.examples import Examples
from thresher.core.recipe import Recipe
from thresher.engine.loop.sweeper import Sweeper
from thresher.engine.run import Run
from thresher.methods.method import Trainer
from thresher.objectives import ForwardCorrection, as_objective, transition_from_anchors


def forward_correction(train: Trainer, baseline: Recipe | None = None) -> Run:
    """Train plainly, estimate the transition from the predictions for the surest examples, then train through it.

    Patrini et al. (2017), with the 97th percentile of their released code. A network that has memorised the wrong
    labels would give the identity, so the first training has half the length.
    """
    refuse_regression(train.train, "F-correction")
    first = train(baseline or Recipe(), stage="baseline", **train.part(0.5))
    return train(Recipe(objective=ForwardCorrection(estimated_transition(first, train.train))))


def estimated_transition(run: Run, examples: Examples) -> Tensor:
    """The transition [classes, classes] by the anchors of a trained network, on the CPU."""
    return transition_from_anchors(outputs_of(run, examples).softmax(1))


def outputs_of(run: Run, examples: Examples) -> Tensor:
    """The outputs [n, ...] of a run's first network, on the CPU."""
    placed = examples.to(next(run.model.parameters()).device)
    swept: Tensor = Sweeper()(run.model, as_objective(None, examples.task), placed).outputs
    return swept.to(torch.device("cpu"))


def refuse_regression(examples: Examples, method: str) -> None:
    if examples.classes is None:
        raise ThresherError(f"{method} is defined for classification only: choose another method.")
