"""Where and in which precision a run computes."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import torch

from thresher.core.errors import ThresherError

Precision = torch.dtype | None
Autocast = Callable[[], AbstractContextManager[Any]]  # gives what a forward pass runs inside


def find_device(wanted: torch.device | str | None) -> torch.device:
    """The device that is wanted, or CUDA where there is one."""
    name = wanted or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise ThresherError(f"There is no device '{name}' here ({reason}): choose another, such as cpu.") from error
    return device


def precision_on(wanted: Precision, device: torch.device) -> Precision:
    """bfloat16 on CUDA unless something else is wanted; None stands for plain float32."""
    if wanted is None and device.type == "cuda":
        return torch.bfloat16
    return None if wanted == torch.float32 else wanted


def autocast_on(device: torch.device, precision: Precision) -> Autocast:
    """What gives the context in which this device computes in this precision."""
    if precision is None:
        return nullcontext
    return partial(torch.autocast, device.type, dtype=precision, cache_enabled=False)
