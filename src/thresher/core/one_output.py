"""Models that give a single number an example: how it is read as columns."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from thresher.core.tasks import CLASSES, LABELS, REAL
from thresher.core.trees import one_tensor


@dataclass(frozen=True)
class OneOutput:
    """A single output an example, [n] or [n, 1], as columns: [0, logit] for two classes, whose softmax is the sigmoid.

    >>> OneOutput(two_classes=True)(torch.tensor([2.0])).tolist()
    [[0.0, 2.0]]
    """

    two_classes: bool
    flat: bool = False

    def __call__(self, outputs: Tensor) -> Tensor:
        column = outputs.reshape(len(outputs), 1)
        return torch.cat([torch.zeros_like(column), column], 1) if self.two_classes else column

    def undo(self, columns: Tensor) -> Tensor:
        """The output as the model gave it."""
        return columns[:, -1] if self.flat else columns[:, -1:]


def one_output(outputs: Tensor, task: str, classes: int | None) -> OneOutput | None:
    """How to read outputs that are one number an example where there are two classes, or one real target or label."""
    flat = outputs.ndim == 1
    if task == CLASSES and classes == 2 and (flat or tuple(outputs.shape[1:]) == (1,)):
        return OneOutput(two_classes=True, flat=flat)
    return OneOutput(two_classes=False, flat=True) if flat and task in (REAL, LABELS) else None


def adapt(model: nn.Module, adapter: OneOutput) -> RemovableHandle:
    """Let the model give columns, until the hook is removed."""
    return model.register_forward_hook(lambda module, given, outputs: adapter(one_tensor(outputs)))  # noqa: ARG005


@contextmanager
def adapted(model: nn.Module | None, adapter: OneOutput | None) -> Iterator[None]:
    """The model giving columns inside, where there is an adapter."""
    handle = None if adapter is None or model is None else adapt(model, adapter)
    try:
        yield
    finally:
        if handle is not None:
            handle.remove()
