"""Optimizers: made and checked, a step that a device scalar can skip, and their state from a checkpoint."""

import inspect
import math
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, AdamW, Optimizer
from torch.optim import optimizer as of_all

from thresher.core.errors import ThresherError
from thresher.engine.device.placement import shard_of

MakeOptimizer = Callable[[Iterable[nn.Parameter]], Optimizer]
STARTS = {"mu_product": 1.0}  # what an optimizer creates at its first step and does not start from zero
ABOUT_DEVICE = ("fused", "foreach", "capturable")  # options that say how a device computes, and not what
KNOWN = (Adam, AdamW, SGD)  # with kernels that can skip a step
NOT_COMPILED = ("add_param_group", "load_state_dict", "state_dict", "zero_grad")  # as torch marks them
Copies = tuple[dict[Tensor, Tensor], dict[Tensor, dict[str, Tensor]]]  # of parameters, and of what is kept of each


def made(make_optimizer: MakeOptimizer, trainable: list[nn.Parameter]) -> Optimizer:
    """The optimizer, its kernels fused where possible; refused where it would not move these parameters."""
    try:
        with without_compiler():
            optimizer = make_optimizer(trainable)
    except ThresherError:
        raise
    except (TypeError, ValueError) as error:
        raise ThresherError(
            f"The optimizer cannot be made ({error}): pass lambda parameters: torch.optim.SGD(parameters, lr=0.1)."
        ) from error
    if isinstance(optimizer, Optimizer):
        ours = set(map(id, trainable))
        if any(id(each) not in ours for group in optimizer.param_groups for each in group["params"]):
            raise ThresherError(
                "The optimizer moves other parameters than the model's: make it of the parameters that it is given."
            )
        if not all(math.isfinite(float(group["lr"])) for group in optimizer.param_groups):
            raise ThresherError("The optimizer has a learning rate that is not finite: give it a number.")
    return fused_where_possible(optimizer)


@contextmanager
def without_compiler() -> Iterator[None]:
    """Inside, methods of optimizers do not import torch's compiler, which takes a second.

    They would only to mark themselves as not to be compiled, and where it is not imported nothing is compiled.
    """
    marked = {} if "torch._dynamo" in sys.modules else {name: vars(Optimizer)[name] for name in NOT_COMPILED}
    try:
        for name, method in marked.items():
            setattr(Optimizer, name, inspect.unwrap(method))
        yield
    finally:
        for name, method in marked.items():
            setattr(Optimizer, name, method)


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


def step_unless(skip: Tensor, optimizer: Optimizer) -> None:
    """One optimizer step, undone where the device scalar `skip` is 1: parameters and state stay as they were."""
    if all(group.get("fused") for group in optimizer.param_groups):
        optimizer.found_inf, optimizer.grad_scale = skip, None  # type: ignore[attr-defined]
        take_step(optimizer)
        return
    before = copied(optimizer)
    take_step(optimizer)
    put_back(optimizer, before, skip)


def take_step(optimizer: Optimizer) -> None:
    """`optimizer.step()`; of a known optimizer without its wrapper, which imports torch's compiler."""
    if type(optimizer) not in KNOWN or does_more(optimizer) or "torch._dynamo" in sys.modules:
        optimizer.step()
        return
    with torch.set_grad_enabled(bool(optimizer.defaults["differentiable"])):
        inspect.unwrap(type(optimizer).step)(optimizer)


def does_more(optimizer: Optimizer) -> bool:
    """Whether a step calls more than the optimizer: hooks, or a schedule around it."""
    hooks = optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks
    hooks = hooks or of_all._global_optimizer_pre_hooks or of_all._global_optimizer_post_hooks
    return bool(hooks) or "step" in vars(optimizer)


class Kernels:
    """The fused kernels of an optimizer, on lists of its tensors that are made once instead of in every step.

    The numbers are those of `optimizer.step()`, whose bookkeeping costs as much as the kernels of a small network. It
    makes the first step, and all where it could do more than the kernels: hooks, a schedule around it, `amsgrad`. On
    CUDA it makes all: there a step is captured once, and bookkeeping costs nothing afterwards.
    """

    def __init__(self, optimizer: Optimizer):
        self.optimizer = optimizer
        self.state: Any = None  # of the optimizer, as it was when the lists were made
        self.lists: list[tuple[dict[str, Any], list[Tensor], list[list[Tensor]], Tensor | None]] = []

    def step(self, skip: Tensor | None) -> bool:
        """Make the step, or leave it as it is where the scalar `skip` is 1; False where the optimizer has to."""
        if self.optimizer.state is not self.state and not self.ready():
            return False
        gradients = [[p.grad for p in parameters if p.grad is not None] for _, parameters, _, _ in self.lists]
        found = sum(map(len, gradients))
        if self._does_more() or found < sum(len(parameters) for _, parameters, _, _ in self.lists):
            return False
        with torch.no_grad():
            for (group, parameters, kept, steps), own in zip(self.lists, gradients, strict=True):
                self._call(group, parameters, own, kept, steps, skip)
        return True

    def ready(self) -> bool:
        """Whether there are lists now: of optimizers whose kernels are known, once every parameter has its state."""
        kept = ("momentum_buffer",) if type(self.optimizer) is SGD else ("step", "exp_avg", "exp_avg_sq")
        if type(self.optimizer) not in KNOWN or self._does_more():
            return False
        made = []
        for group in self.optimizer.param_groups:
            parameters = group["params"]
            states = [self.optimizer.state[each] for each in parameters if each in self.optimizer.state]
            names = kept if group.get("momentum") != 0 else ()
            kinds = {(p.device.type, p.dtype) for p in parameters}
            if not group.get("fused") or group.get("amsgrad") or len(kinds) != 1 or kinds.pop()[0] != "cpu":
                return False
            if names and (
                len(states) < len(parameters) or any(name not in state for state in states for name in names)
            ):
                return False
            steps = torch.stack([state["step"] for state in states]) if "step" in names else None
            for state, own in zip(states, () if steps is None else steps.unbind(), strict=False):
                state["step"] = own  # so that one operation counts for all parameters
            made.append((group, parameters, [[state[name] for state in states] for name in names], steps))
        self.lists, self.state = made, self.optimizer.state
        return True

    def _does_more(self) -> bool:
        groups = self.optimizer.param_groups
        return does_more(self.optimizer) or len(groups) != len(self.lists or groups)

    def _call(
        self,
        group: dict[str, Any],
        parameters: list[Tensor],
        gradients: list[Tensor],
        kept: list[list[Tensor]],
        steps: Tensor | None,
        skip: Tensor | None,
    ) -> None:
        how = {name: group[name] for name in ("lr", "weight_decay", "maximize")} | {"found_inf": skip}
        if steps is None:
            momenta = kept[0] if kept else []
            of_sgd = {name: group[name] for name in ("momentum", "dampening", "nesterov")}
            torch._fused_sgd_(parameters, gradients, momenta, is_first_step=False, grad_scale=None, **how, **of_sgd)
            return
        each, means, squares = kept
        (beta1, beta2), kernel = group["betas"], torch._fused_adam_
        if group["decoupled_weight_decay"]:
            kernel = torch._fused_adamw_
        steps += 1 if skip is None else 1 - skip
        kernel(
            parameters, gradients, means, squares, [], each, amsgrad=False, beta1=beta1, beta2=beta2,
            eps=group["eps"], grad_scale=None, **how,
        )  # fmt: skip


def _can_fuse(optimizer: Optimizer, group: dict[str, object]) -> bool:
    if type(optimizer) not in KNOWN or group.get("differentiable") or group.get("foreach"):
        return False
    if group.get("fused") is False:
        return False
    return all(p.is_floating_point() and shard_of(p) is p for p in group["params"])  # type: ignore[attr-defined]


def load_optimizer(optimizer: Optimizer, saved: dict[str, Any]) -> None:
    """Take over a saved state; how this device computes stays as it is, wherever the state was saved."""
    here = [{name: group[name] for name in ("lr", *ABOUT_DEVICE) if name in group} for group in optimizer.param_groups]
    for ours, theirs in zip(optimizer.param_groups, saved["param_groups"], strict=True):
        known = [name for name in ours if name in theirs and name not in ("params", "lr", *ABOUT_DEVICE)]
        if other := [name for name in known if type(ours[name]) is not type(theirs[name])]:
            raise TypeError(f"{other[0]} of the optimizer is a {type(theirs[other[0]]).__name__}")
        of_torch = type(optimizer).__module__.startswith("torch.")  # others may change their numbers as they go
        fixed = [name for name in known if of_torch or isinstance(ours[name], bool)]
        if changed := [name for name in fixed if ours[name] != theirs[name]]:
            raise ValueError(f"{changed[0]} of the optimizer is {theirs[changed[0]]!r:.40}")
    names = [set(group) for group in optimizer.param_groups]
    with without_compiler():
        optimizer.load_state_dict(saved)  # which fills in what older versions of torch did not have
    for group, needed in zip(optimizer.param_groups, names, strict=True):
        if missing := sorted(needed - set(group)):
            raise ValueError(f"{missing[0]} of the optimizer is missing")
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
