"""Bootstrapping: the model's own prediction as part of the label (Reed et al. 2014)."""

from typing import ClassVar

from torch import Tensor
from torch.nn import functional

from thresher.core.errors import ThresherError
from thresher.core.evidence import Evidence
from thresher.core.objective import Objective


class Bootstrap(Objective):
    """ℓᵢ = beta · CE(outputsᵢ, targetᵢ) + (1 - beta) · CE(outputsᵢ, the predicted class): the hard form, Eq. 7.

    beta = 1 is plain cross entropy.
    """

    tasks: ClassVar[tuple[str, ...]] = ("classification",)
    timeless: ClassVar[bool] = True

    def __init__(self, beta: float = 0.8):
        super().__init__()
        if not 0 <= beta <= 1:
            raise ThresherError(f"beta={beta} is not a share of the given label: give a number from 0 to 1.")
        self.beta = beta

    def forward(self, evidence: Evidence) -> Tensor:
        outputs = evidence.outputs
        given = functional.cross_entropy(outputs, evidence.targets, reduction="none")
        return self.beta * given + (1 - self.beta) * self.own(outputs)

    def own(self, outputs: Tensor) -> Tensor:
        """The term of the model's own prediction [n]."""
        return functional.cross_entropy(outputs, outputs.argmax(1), reduction="none")

    def extra_repr(self) -> str:
        return f"beta={self.beta:g}"


class SoftBootstrap(Bootstrap):
    """ℓᵢ = beta · CE(outputsᵢ, targetᵢ) + (1 - beta) · entropy(softmax(outputsᵢ)): the soft form, Eq. 6.

    As in the paper, the gradient goes through both sides of the entropy, which makes predictions more confident.
    """

    def __init__(self, beta: float = 0.95):
        super().__init__(beta)

    def own(self, outputs: Tensor) -> Tensor:
        logs = outputs.log_softmax(1)
        return -(logs.exp() * logs).sum(1)
