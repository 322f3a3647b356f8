"""Seeds for every random number of a run: from its seed and the place in the run, never from the global state."""

import hashlib
import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


def derive(*parts: int | str) -> int:
    """A 63-bit seed that depends on every part and on their order.

    >>> derive(0, 1) == derive(0, 1), derive(0, 1) == derive(1, 0)
    (True, False)
    """
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def generator(*parts: int | str, device: torch.device | str = "cpu") -> torch.Generator:
    """A fresh generator seeded by `derive(*parts)`."""
    return torch.Generator(device).manual_seed(derive(*parts))


def seed_global(device: torch.device, *parts: int | str) -> None:
    """Seed torch's global generator of the CPU and of `device`, for layers that take no generator (dropout)."""
    seed = derive(*parts)
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.default_generators[device.index or 0].manual_seed(seed)


@contextmanager
def preserved(device: torch.device | None = None) -> Iterator[None]:
    """Restore torch's global random state afterwards."""
    state = torch.get_rng_state()
    cuda_state = torch.cuda.get_rng_state(device) if device is not None and device.type == "cuda" else None
    try:
        yield
    finally:
        torch.set_rng_state(state)
        if cuda_state is not None:
            torch.cuda.set_rng_state(cuda_state, device or "cuda")


@contextmanager
def everything_seeded(*parts: int | str) -> Iterator[None]:
    """Seed torch, numpy and random (whose global state a dataset's transforms use), and restore them afterwards."""
    seed = derive(*parts)
    states = torch.get_rng_state(), np.random.get_state(), random.getstate()  # noqa: NPY002
    torch.default_generator.manual_seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002
    random.seed(seed)
    try:
        yield
    finally:
        torch.set_rng_state(states[0])
        np.random.set_state(states[1])  # noqa: NPY002
        random.setstate(states[2])
