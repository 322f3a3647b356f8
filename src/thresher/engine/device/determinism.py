"""The same result bit for bit on a GPU too."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def determinism() -> Iterator[None]:
    """Inside, torch uses only kernels that give the same numbers every time, though some are slower."""
    before = torch.are_deterministic_algorithms_enabled()
    warns = torch.is_deterministic_algorithms_warn_only_enabled()
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before, warn_only=warns)
