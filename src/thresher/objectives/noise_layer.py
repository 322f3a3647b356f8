"""The noise adaptation layer: the true class, and the transition to the given one, are learnt together (S-Model)."""

from typing import ClassVar

import torch
from torch import Tensor, nn

from thresher.core.errors import ThresherError
from thresher.core.evidence import Evidence
from thresher.core.objective import Objective
from thresher.objectives.transition import checked_transition, rounded_rows, transition_losses


class NoiseLayer(Objective):
    """ℓᵢ = -log Σ_c softmax(outputsᵢ)_c T_c,targetᵢ, with T = softmax of a trained matrix, row by row.

    The simple model of Goldberger & Ben-Reuven (2017); `start` [classes, classes] is the initial T: row c holds how
    often class c is given each label. Predictions are the model's own outputs.
    """

    tasks: ClassVar[tuple[str, ...]] = ("classification",)
    timeless: ClassVar[bool] = True

    def __init__(self, start: Tensor):
        super().__init__()
        start = checked_transition(start)
        if not (start > 0).all():
            raise ThresherError("NoiseLayer cannot move from a probability of 0: make each row positive.")
        self.logits = nn.Parameter(start.log())

    @property
    def transition(self) -> Tensor:
        """T [classes, classes]."""
        return self.logits.softmax(1)

    def forward(self, evidence: Evidence) -> Tensor:
        return transition_losses(evidence.outputs, self.transition, evidence.targets)

    def extra_repr(self) -> str:
        return f"start={rounded_rows(self.transition)}"


def smoothed_identity(classes: int, smoothing: float = 0.1) -> Tensor:
    """T = (1 - smoothing) · I + smoothing / (classes - 1) elsewhere.

    >>> smoothed_identity(3, 0.2)[1].tolist()
    [0.10000000149011612, 0.800000011920929, 0.10000000149011612]
    """
    if classes < 2:
        return torch.ones(1, 1)
    return torch.full((classes, classes), smoothing / (classes - 1)).fill_diagonal_(1 - smoothing)


def smoothed_confusion(predicted: Tensor, given: Tensor, classes: int, smoothing: float = 0.01) -> Tensor:
    """The share of each given label among the examples of each predicted class (rows), made positive.

    >>> smoothed_confusion(torch.tensor([0, 0, 1]), torch.tensor([0, 1, 1]), 2, smoothing=0.0).tolist()
    [[0.5, 0.5], [0.0, 1.0]]
    """
    counts = torch.bincount(predicted.long() * classes + given.long(), minlength=classes**2).view(classes, classes)
    rows = counts.sum(1, keepdim=True)
    shares = torch.where(
        rows > 0, counts / rows.clamp_min(1), torch.eye(classes)
    )  # a class that is never predicted keeps its label
    return (1 - smoothing) * shares + smoothing / classes
