"""The device to compute on."""

import torch

from thresher.core.errors import ThresherError


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
