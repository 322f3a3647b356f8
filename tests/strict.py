"""Steps in which nothing may make the host wait."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from thresher.engine.step.step import Step

WAITING = {
    "_local_scalar_dense",
    "nonzero",
    "masked_select",
    "_unique2",
    "unique_dim",
    "bincount",
    "is_nonzero",
    "equal",
}


class Strict(TorchDispatchMode):
    """Fails on operations whose result the host must wait for; notes what is done, with shapes."""

    def __init__(self) -> None:
        super().__init__()
        self.done: list[tuple[str, Any]] = []

    def __torch_dispatch__(self, function: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = function.overloadpacket.__name__
        if name in WAITING:
            raise AssertionError(f"{name} makes the host wait")
        if name in ("index", "index_put", "index_put_"):
            picks = [pick for pick in args[1] if pick is not None]
            if any(pick.dtype in (torch.bool, torch.uint8) for pick in picks):
                raise AssertionError("a boolean index makes the host wait")
        result = function(*args, **(kwargs or {}))
        several = result if isinstance(result, (list, tuple)) else [result]
        self.done.append((str(function), [list(each.shape) for each in several if isinstance(each, Tensor)]))
        return result


def _made_there(make: Callable[..., Tensor], data: Any, **kwargs: Any) -> Tensor:
    """A tensor of host numbers on a named device is a copy, which no CUDA graph can hold."""
    if not isinstance(data, Tensor) and kwargs.get("device") is not None:
        raise AssertionError("a copy from the host makes it wait")
    return make(data, **kwargs)


@contextmanager
def strictly(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[list[tuple[str, Any]]]]:
    """Every step inside is strict; gives what each did."""
    notes: list[list[tuple[str, Any]]] = []
    original = Step.__call__

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a copy to the host makes it wait")

    def call(self: Step, *args: Any, **named: Any) -> None:
        self.is_first = False  # the first step of a run is looked at, which waits
        with Strict() as mode, pytest.MonkeyPatch.context() as patch:
            for name in ("tensor", "as_tensor"):
                patch.setattr(torch, name, partial(_made_there, getattr(torch, name)))
            for name in ("cpu", "numpy", "tolist", "item", "__bool__", "__float__", "__int__", "__array__"):
                patch.setattr(Tensor, name, refuse)
            original(self, *args, **named)
        notes.append(mode.done)

    monkeypatch.setattr(Step, "__call__", call)
    yield notes
