"""How much to compute at once: what stays in the cache on the CPU, what fills the device elsewhere."""

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from torch import Tensor

ON_CPU, ELSEWHERE = 2**19, 2**24


def rows_at_once(width: int, beside: Tensor) -> int:
    """How many rows of `width` numbers to compute at once on the device of `beside`; at least one."""
    return max(1, (ON_CPU if on_host(beside) else ELSEWHERE) // width)


def on_host(values: Tensor) -> bool:
    """Whether numpy sees the same memory, for the few operations in which it is quicker or more exact."""
    return values.device.type == "cpu"


def one_thread() -> AbstractContextManager[Any]:
    """Let the libraries compute in one thread: blocks are so small that several would mostly wait for each other."""
    limited: AbstractContextManager[Any] = _libraries().limit(limits=1)
    return limited


@cache
def _libraries() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
