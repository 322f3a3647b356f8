"""Computing on large arrays: how many rows at once, in which type, and by which library on the host.

Rules never ask which device they run on; what depends on it for speed or precision is here and changes no result.
"""

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

HOST_NUMBERS, DEVICE_NUMBERS = 2**19, 2**24  # what stays in the cache of a CPU, what fills another device


def rows_at_once(width: int, beside: Tensor) -> int:
    """How many rows of `width` numbers to compute at once in the memory of `beside`; at least one."""
    return max(1, (HOST_NUMBERS if _on_host(beside) else DEVICE_NUMBERS) // width)


def product_type(beside: Tensor) -> torch.dtype:
    """The quickest type in which `multiply` keeps all its digits: double where torch may round single precision."""
    return torch.float32 if _on_host(beside) else torch.float64


def multiply(left: Tensor, right: Tensor, out: Tensor) -> None:
    """out = left @ right; on the host by numpy, because torch may be set to round single precision."""
    if _on_host(out):
        np.matmul(left.numpy(), right.numpy(), out=out.numpy())
    else:
        torch.matmul(left, right, out=out)


def places_below(values: Tensor, limit: Tensor) -> Tensor:
    """Where values [m, n] are below limit [n], counted through the rows; numpy is several times as quick as torch."""
    if _on_host(values):
        return torch.from_numpy(_places_of_few((values.numpy() < limit.numpy()).reshape(-1)))
    return (values < limit).flatten().nonzero()[:, 0]


def _places_of_few(true: NDArray[np.bool_]) -> NDArray[np.int64]:
    """np.flatnonzero, which takes a third of the time for few places if it looks at eight at once first."""
    whole = len(true) // 8 * 8
    eights = true[:whole].view(np.uint64)
    some = np.flatnonzero(eights != 0)
    if 4 * len(some) > len(eights):
        return np.flatnonzero(true)
    inside = np.flatnonzero(eights.take(some).view(np.bool_))
    return np.append(8 * some.take(inside >> 3) + (inside & 7), whole + np.flatnonzero(true[whole:]))


def places_of_least(values: Tensor) -> Tensor:
    """The column of the least value of each row of values [m, n], the first of equal ones."""
    if _on_host(values):
        return torch.from_numpy(np.argmin(values.numpy(), 1))
    return values.argmin(1)


def one_thread() -> AbstractContextManager[Any]:
    """Let the libraries compute in one thread, because threads would mostly wait for each other on small blocks."""
    limited: AbstractContextManager[Any] = _libraries().limit(limits=1)
    return limited


def _on_host(values: Tensor) -> bool:
    return values.device.type == "cpu"


@cache
def _libraries() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
