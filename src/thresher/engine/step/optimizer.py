"""An optimizer step that can be skipped without asking the host."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, AdamW, Optimizer

from thresher.core.errors import ThresherError

ABOUT_DEVICE = ("fused", "foreach", "capturable")  # options that say how a device computes, and not what
MakeOptimizer = Callable[[Iterable[nn.Parameter]], Optimizer]


def fused_where_possible(optimizer: Optimizer) -> Optimizer:
    """Use the fused kernels where the optimizer has them and the caller did not choose otherwise: they can skip a step.

    On CUDA the learning rate becomes a device scalar, which a captured step reads anew each time.
    """
    if not isinstance(optimizer, Optimizer):
        raise ThresherError("optimizer= must be a function of the parameters that returns a torch.optim.Optimizer.")
    if isinstance(optimizer, torch.optim.LBFGS | torch.optim.ASGD | torch.optim.Rprop | torch.optim.SparseAdam):
        raise ThresherError(f"{type(optimizer).__name__} cannot skip a step: choose Adam, AdamW, SGD or RMSprop.")
    if isinstance(optimizer, SGD) and any(group["momentum"] and group["dampening"] for group in optimizer.param_groups):
        raise ThresherError("SGD with dampening cannot skip its first step: leave dampening out.")
    for group in optimizer.param_groups:
        if _can_fuse(optimizer, group):
            group["fused"] = True
            device = group["params"][0].device
            if device.type == "cuda":
                group["lr"] = torch.tensor(float(group["lr"]), device=device)
                if "capturable" in group:
                    group["capturable"] = True
            if isinstance(optimizer, SGD) and group["momentum"]:
                # A skipped first step would otherwise leave the buffers uninitialised.
                for parameter in group["params"]:
                    optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
    return optimizer


def load_optimizer(optimizer: Optimizer, saved: dict[str, Any]) -> None:
    """Take over a saved state; how this device computes stays as it is, wherever the state was saved."""
    here = [{name: group[name] for name in ("lr", *ABOUT_DEVICE) if name in group} for group in optimizer.param_groups]
    optimizer.load_state_dict(saved)
    for group, own in zip(optimizer.param_groups, here, strict=True):
        rate = float(group["lr"])
        group.update(own)
        group["lr"] = own["lr"].fill_(rate) if isinstance(own["lr"], Tensor) else rate


def _can_fuse(optimizer: Optimizer, group: dict[str, object]) -> bool:
    if type(optimizer) not in (Adam, AdamW, SGD) or group.get("differentiable") or group.get("foreach"):
        return False
    if group.get("fused") is False:
        return False
    return all(p.is_floating_point() for p in group["params"])  # type: ignore[attr-defined]
