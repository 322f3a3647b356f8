"""Losses through a transition T [classes, classes]: row c holds the probabilities of given labels for true class c."""

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from thresher.core.errors import ThresherError
from thresher.core.evidence import Evidence
from thresher.core.objective import Objective
from thresher.core.targets import one_hot_if_ids


class ForwardCorrection(Objective):
    """ℓᵢ = -log Σ_c softmax(outputsᵢ)_c T_c,targetᵢ with a fixed T (Patrini et al. 2017, Theorem 2).

    T = identity is plain cross entropy. Predictions are the model's own outputs.
    """

    tasks: ClassVar[tuple[str, ...]] = ("classification",)
    timeless: ClassVar[bool] = True
    transition: Tensor

    def __init__(self, transition: Tensor):
        super().__init__()
        self.register_buffer("transition", checked_transition(transition))

    def forward(self, evidence: Evidence) -> Tensor:
        return transition_losses(evidence.outputs, self.transition, evidence.targets)

    def extra_repr(self) -> str:
        return f"transition={rounded_rows(self.transition)}"


class Reweighted(Objective):
    """ℓᵢ = βᵢ CE(outputsᵢ, targetᵢ) with βᵢ = p_target / (Tᵀp)_target, p = softmax(outputsᵢ) (Liu & Tao 2016).

    With `revised`, T + ΔT replaces T, ΔT is learnt with the model, and the gradient goes through β too; without it β is
    a constant weight (T-Revision, Xia et al. 2019, and its released code).
    """

    tasks: ClassVar[tuple[str, ...]] = ("classification",)
    timeless: ClassVar[bool] = True
    transition: Tensor

    def __init__(self, transition: Tensor, revised: bool = False):
        super().__init__()
        self.register_buffer("transition", checked_transition(transition))
        self.change = nn.Parameter(torch.zeros_like(self.transition)) if revised else None

    def forward(self, evidence: Evidence) -> Tensor:
        outputs, targets = evidence.outputs, evidence.targets
        transition = self.transition if self.change is None else self.transition + self.change
        given = one_hot_if_ids(targets, len(transition))
        share = (outputs.softmax(1) * given).sum(1) / (given_probabilities(outputs, transition) * given).sum(1)
        losses = functional.cross_entropy(outputs, targets, reduction="none")
        return (share.detach() if self.change is None else share) * losses

    def extra_repr(self) -> str:
        return f"transition={rounded_rows(self.transition)}, revised={self.change is not None}"


def given_probabilities(outputs: Tensor, transition: Tensor) -> Tensor:
    """The probabilities [n, classes] of given labels: softmax(outputs) @ transition.

    >>> given_probabilities(torch.tensor([[0.0, 0.0]]), torch.tensor([[1.0, 0.0], [0.5, 0.5]])).tolist()
    [[0.75, 0.25]]
    """
    if outputs.shape[1] != len(transition):
        sizes = f"{len(transition)} classes and the model {outputs.shape[1]}"
        raise ThresherError(f"The transition has {sizes}: make them equal.")
    return (outputs.softmax(1) @ transition).clamp_min(torch.finfo(torch.float32).tiny)


def transition_losses(outputs: Tensor, transition: Tensor, targets: Tensor) -> Tensor:
    """-Σ_c target_c log (Tᵀ softmax(outputs))_c [n], for class ids and for soft labels."""
    logs = given_probabilities(outputs, transition).log()
    if targets.ndim == 2:
        return -(targets * logs).sum(1)
    return functional.nll_loss(logs, targets, reduction="none")


def transition_from_anchors(probabilities: Tensor, percentile: float = 97.0) -> Tensor:
    """T from predicted probabilities [n, classes]: row c is the prediction for the anchor of class c.

    The anchor is the example with the largest p_c below the percentile, because the very largest may be an outlier, as
    in the released code of Patrini et al. (2017); a percentile of 100 takes the largest itself. Rows sum to 1.

    >>> transition_from_anchors(torch.tensor([[0.8, 0.2], [0.4, 0.6], [0.3, 0.7]]), 100.0)[1].tolist()
    [0.30000001192092896, 0.699999988079071]
    """
    if not 0 < percentile <= 100:
        raise ThresherError(f"percentile={percentile} is out of range: give a number above 0 and at most 100.")
    bounds = torch.quantile(probabilities.double(), percentile / 100, dim=0, interpolation="higher")
    if percentile == 100:
        bounds = torch.full_like(bounds, torch.inf)
    below = probabilities.double().where(probabilities.double() < bounds, -1.0)
    rows = probabilities[below.argmax(0)]
    return rows / rows.sum(1, keepdim=True)


def checked_transition(transition: Tensor) -> Tensor:
    """The transition in float32, refused where its rows are not probabilities."""
    transition = torch.as_tensor(transition, dtype=torch.float32)
    square = transition.ndim == 2 and transition.shape[0] == transition.shape[1]
    if not square or not (transition >= 0).all() or not (transition.sum(1) - 1).abs().max() < 1e-4:
        raise ThresherError(
            "A transition is [classes, classes] probabilities: make each row non-negative and sum to 1."
        )
    return transition


def rounded_rows(transition: Tensor) -> list[list[float]]:
    """The transition rounded, for the description of a run."""
    return [[round(value, 4) for value in row] for row in transition.tolist()]
