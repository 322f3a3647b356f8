"""The noise adaptation layer: what is learnt is the true label, and how it turns into the given one (S-Model)."""

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from thresher.engine.evidence import Evidence
from thresher.errors import ThresherError
from thresher.objectives.objective import Objective


class NoiseLayer(Objective):
    """ℓᵢ = -log Σ_c softmax(outputsᵢ)_c T_c,targetᵢ, with T = softmax of a trained matrix, row by row.

    The simple model of Goldberger & Ben-Reuven (2017); `start` [classes, classes] is what T is at first: row c says how
    often class c is given each label. The model's own outputs are what predicts.
    """

    tasks: ClassVar[tuple[str, ...]] = ("classification",)

    def __init__(self, start: Tensor):
        super().__init__()
        start = torch.as_tensor(start, dtype=torch.float32)
        square = start.ndim == 2 and start.shape[0] == start.shape[1]
        if not square or not (start > 0).all() or not torch.allclose(start.sum(1), torch.ones(len(start)), atol=1e-4):
            raise ThresherError(
                "NoiseLayer starts from probabilities [classes, classes]: make each row positive, sum 1."
            )
        self.logits = nn.Parameter(start.log())

    @property
    def transition(self) -> Tensor:
        """T [classes, classes]."""
        return self.logits.softmax(1)

    def forward(self, evidence: Evidence) -> Tensor:
        classes = evidence.outputs.shape[1]
        if classes != len(self.logits):
            raise ThresherError(f"NoiseLayer has {len(self.logits)} classes and the model {classes}: make them equal.")
        logs = (evidence.outputs.softmax(1) @ self.transition).clamp_min(torch.finfo(torch.float32).tiny).log()
        if evidence.targets.ndim == 2:
            return -(evidence.targets * logs).sum(1)
        return functional.nll_loss(logs, evidence.targets, reduction="none")

    def extra_repr(self) -> str:
        return f"start={[[round(value, 4) for value in row] for row in self.transition.tolist()]}"


def smoothed_identity(classes: int, smoothing: float = 0.1) -> Tensor:
    """T = (1 - smoothing) · I + smoothing / (classes - 1) elsewhere.

    >>> smoothed_identity(3, 0.2)[1].tolist()
    [0.10000000149011612, 0.800000011920929, 0.10000000149011612]
    """
    if classes < 2:
        return torch.ones(1, 1)
    return torch.full((classes, classes), smoothing / (classes - 1)).fill_diagonal_(1 - smoothing)


def smoothed_confusion(predicted: Tensor, given: Tensor, classes: int, smoothing: float = 0.01) -> Tensor:
    """How often a trained model's class goes with each given label: rows are predicted classes, made positive.

    >>> smoothed_confusion(torch.tensor([0, 0, 1]), torch.tensor([0, 1, 1]), 2, smoothing=0.0).tolist()
    [[0.5, 0.5], [0.0, 1.0]]
    """
    counts = torch.bincount(predicted.long() * classes + given.long(), minlength=classes**2).view(classes, classes)
    rows = counts.sum(1, keepdim=True)
    shares = torch.where(
        rows > 0, counts / rows.clamp_min(1), torch.eye(classes)
    )  # a class nobody predicts stays itself
    return (1 - smoothing) * shares + smoothing / classes
