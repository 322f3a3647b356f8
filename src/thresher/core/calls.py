"""How a model is called with inputs, and what of its answer are the outputs."""

import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.utils.hooks import RemovableHandle

from thresher.core.errors import ThresherError
from thresher.core.tasks import CLASSES, LABELS, REAL
from thresher.core.trees import Tree

_KNOWN: WeakKeyDictionary[nn.Module, inspect.Signature] = WeakKeyDictionary()


def call(model: nn.Module, inputs: Tree, through: nn.Module | None = None) -> Tensor:
    """The outputs of a model: a tensor goes in as it is, a mapping by keyword, a tuple by position.

    A model whose `forward` has no argument of any of the mapping's names, or one argument only for a tuple, gets the
    mapping or the tuple whole. `through` is what is called in its place where something has wrapped it.
    """
    called = model if through is None else through
    if isinstance(inputs, Tensor):
        return one_tensor(called(inputs))
    given, named = arguments(model, inputs)
    return one_tensor(called(*given, **named))


def call_with(model: nn.Module, values: Any, inputs: Tree) -> Tensor:
    """The same with these values in place of its parameters and buffers."""
    given, named = arguments(model, inputs)
    return one_tensor(functional_call(model, values, given, named))


def arguments(model: nn.Module, inputs: Tree) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What a model is called with for these inputs: arguments by position and by keyword."""
    if isinstance(inputs, Tensor):
        return (inputs,), {}
    if isinstance(inputs, Mapping):
        return ((), dict(inputs)) if _takes_names(model, inputs) else ((inputs,), {})
    return (tuple(inputs), {}) if _takes_several(model) else ((inputs,), {})


def _takes_names(model: nn.Module, inputs: Mapping[str, Any]) -> bool:
    parameters = _signature(model).parameters.values()
    return any(each.kind is each.VAR_KEYWORD or each.name in inputs for each in parameters)


def _takes_several(model: nn.Module) -> bool:
    parameters = _signature(model).parameters.values()
    placed = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    return len(placed) > 1 or any(each.kind is each.VAR_POSITIONAL for each in parameters)


def _signature(model: nn.Module) -> inspect.Signature:
    inner = getattr(model, "_orig_mod", model)  # which torch.compile has wrapped
    if inner not in _KNOWN:
        _KNOWN[inner] = inspect.signature(inner.forward)
    return _KNOWN[inner]


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


def one_tensor(outputs: object) -> Tensor:
    """What a model returned, or its `logits` where it returned more; refused where there is no one tensor in it."""
    if isinstance(outputs, Tensor):
        return _real(outputs)
    logits = outputs.get("logits") if isinstance(outputs, Mapping) else getattr(outputs, "logits", None)
    if isinstance(logits, Tensor):
        return _real(logits)
    kind = type(outputs).__name__
    raise ThresherError(
        f"The model returns a {kind}: let it return its outputs alone, as one tensor [n, ...], or an object with "
        "them as .logits."
    )


def _real(outputs: Tensor) -> Tensor:
    if not outputs.is_floating_point():
        kind = "complex" if outputs.is_complex() else str(outputs.dtype)
        raise ThresherError(f"The model gives outputs that are {kind} numbers: let it give real ones, as floats.")
    return outputs
