"""The base class of objectives: losses [n] from evidence, never reduced."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from thresher.core.errors import checked
from thresher.core.evidence import Evidence
from thresher.core.rule import Reader
from thresher.core.tasks import TASKS

ObjectiveLike = nn.Module | Callable[[Tensor, Tensor], Tensor]


class Objective(nn.Module, Reader, ABC):
    """Losses [n] of the evidence; its own parameters, if any, join the optimizer."""

    tasks: ClassVar[tuple[str, ...]] = TASKS
    of_batch: ClassVar[bool] = False  # a loss depends on the other examples of its batch too
    layers: tuple[str, ...] = ()  # names of the model's layers it reads, by evidence.layer(name)
    teacher_layers: tuple[str, ...] = ()  # and of the teacher's, by evidence.other("teacher").layer(name)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__init__" in vars(cls):
            cls.__init__ = checked(vars(cls)["__init__"])  # type: ignore[method-assign]

    @abstractmethod
    def forward(self, evidence: Evidence) -> Tensor:
        """ℓᵢ for each example; each may depend on its own outputs only, quantities of the batch are detached."""

    def output_gradient(self, evidence: Evidence) -> Tensor:
        """∂ℓᵢ/∂outputsᵢ, computed on a separate leaf, because the graph of the losses may already be freed."""
        with torch.enable_grad():
            leaf = evidence.outputs.detach().requires_grad_()
            return torch.autograd.grad(self(evidence.replace(raw_outputs=leaf)).sum(), leaf)[0]


class Plain(Objective):
    """A plain function `(outputs, targets) -> losses [n]` as an objective.

    Where the model gives one logit for two classes, [n] or [n, 1], the function gets it in that shape.
    """

    timeless: ClassVar[bool] = True

    def __init__(self, function: Callable[[Tensor, Tensor], Tensor]):
        super().__init__()
        self.function = function
        self.shown: Callable[[Tensor], Tensor] | None = None  # outputs as the model gave them

    def forward(self, evidence: Evidence) -> Tensor:
        outputs = evidence.outputs if self.shown is None else self.shown(evidence.outputs)
        return self.function(outputs, evidence.targets)

    def extra_repr(self) -> str:
        return getattr(self.function, "__qualname__", repr(self.function))
