"""What an objective is: losses [n] from evidence, never reduced."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

from torch import Tensor, nn

from thresher.engine.evidence import Evidence


class Objective(nn.Module, ABC):
    """Losses [n] of the evidence; its own parameters, if any, join the optimizer."""

    tasks: ClassVar[tuple[str, ...]] = ("classification", "regression")
    layers: tuple[str, ...] = ()  # names of the model's layers it looks at, by evidence.layer(name)

    @abstractmethod
    def forward(self, evidence: Evidence) -> Tensor:
        """ℓᵢ for each example; each may depend on its own outputs only, anything of the batch is detached."""


class Plain(Objective):
    """A plain function `(outputs, targets) -> losses [n]` as an objective."""

    def __init__(self, function: Callable[[Tensor, Tensor], Tensor]):
        super().__init__()
        self.function = function

    def forward(self, evidence: Evidence) -> Tensor:
        return self.function(evidence.outputs, evidence.targets)

    def extra_repr(self) -> str:
        return getattr(self.function, "__qualname__", repr(self.function))
