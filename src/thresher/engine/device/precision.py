"""In which precision a device computes."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

Precision = torch.dtype | None


def autocast(device: torch.device, precision: Precision) -> AbstractContextManager[Any]:
    return nullcontext() if precision is None else torch.autocast(device.type, dtype=precision, cache_enabled=False)


def precision_on(wanted: Precision, device: torch.device) -> Precision:
    """bfloat16 on CUDA unless something else is wanted; None stands for plain float32."""
    if wanted is None and device.type == "cuda":
        return torch.bfloat16
    return None if wanted == torch.float32 else wanted
