"""The state of an optimizer: taken over from a checkpoint, or put back after a step that was to be skipped."""

from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from thresher.engine.device.placement import shard_of

STARTS = {"mu_product": 1.0}  # what an optimizer creates at its first step and does not start from zero
ABOUT_DEVICE = ("fused", "foreach", "capturable")  # options that say how a device computes, and not what
Copies = tuple[dict[Tensor, Tensor], dict[Tensor, dict[str, Tensor]]]  # of parameters, and of what is kept of each


def load_optimizer(optimizer: Optimizer, saved: dict[str, Any]) -> None:
    """Take over a saved state; how this device computes stays as it is, wherever the state was saved."""
    here = [{name: group[name] for name in ("lr", *ABOUT_DEVICE) if name in group} for group in optimizer.param_groups]
    for ours, theirs in zip(optimizer.param_groups, saved["param_groups"], strict=True):
        known = [name for name in ours if name in theirs and name not in ("lr", *ABOUT_DEVICE)]
        if other := [name for name in known if type(ours[name]) is not type(theirs[name])]:
            raise TypeError(f"{other[0]} of the optimizer is a {type(theirs[other[0]]).__name__}")
    optimizer.load_state_dict(saved)
    for parameter, state in optimizer.state.items():
        for name, value in state.items():
            if not isinstance(value, Tensor) or value.shape not in (parameter.shape, torch.Size([])):
                raise ValueError(f"{name} of the optimizer fits no parameter")
    for group, own in zip(optimizer.param_groups, here, strict=True):
        if len({frozenset(optimizer.state[each]) for each in group["params"] if each in optimizer.state}) > 1:
            raise ValueError("the optimizer knows less of one parameter than of others")
        rate = float(group["lr"])
        group.update(own)
        group["lr"] = own["lr"].fill_(rate) if isinstance(own["lr"], Tensor) else rate


def copied(optimizer: Optimizer) -> Copies:
    """Copies of the parameters of an optimizer and of its state, for `put_back`."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    values = {parameter: shard_of(parameter.detach()).clone() for parameter in parameters}
    states = {
        parameter: {
            name: shard_of(value).clone()
            for name, value in optimizer.state[parameter].items()
            if torch.is_tensor(value)
        }
        for parameter in parameters
    }
    return values, states


@torch.no_grad()
def put_back(optimizer: Optimizer, before: Copies, skip: Tensor) -> None:
    """Undo the step since these copies were made, where the device scalar `skip` is 1."""
    undo, (values, states) = skip.bool(), before
    for parameter, value in values.items():
        own = shard_of(parameter.detach())
        own.copy_(torch.where(undo, value, own))
        for name, state in optimizer.state[parameter].items():
            if torch.is_tensor(state):
                now, start = shard_of(state), states[parameter].get(name)
                old = torch.full_like(now, STARTS.get(name, 0.0)) if start is None else start
                now.copy_(torch.where(undo.to(now.device), old, now))
