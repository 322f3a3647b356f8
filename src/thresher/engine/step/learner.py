"""A learner: one network with its objective, its moving average, and an optimizer that can skip a step."""

import copy
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.optim import SGD, Adam, AdamW, Optimizer
from torch.optim import optimizer as of_all
from torch.utils.hooks import RemovableHandle

from thresher.core.errors import ThresherError
from thresher.core.objective import Objective, Plain
from thresher.core.one_output import OneOutput, adapt
from thresher.core.recipe import Averaging
from thresher.engine.device.placement import as_written, shard_of
from thresher.engine.several.ranks import Ranks
from thresher.engine.step.optimizer_state import copied, load_optimizer, put_back

LAST_INPUTS = "inputs of the last Linear layer"  # the name under which taps keep them
MakeOptimizer = Callable[[Iterable[nn.Parameter]], Optimizer]


class Taps:
    """Hooks that keep, of the latest pass, the outputs of named layers and the inputs of the last Linear one."""

    def __init__(self, model: nn.Module, layers: Sequence[str] = (), head: str | None = None):
        self.seen: dict[str, Tensor] = {}
        self.for_objective = bool(layers)
        modules = dict(model.named_modules())
        self.head = None if head is None else modules[head]
        self.handles = [modules[name].register_forward_hook(self._keep_output(name)) for name in layers]
        if head is not None:
            self.handles.append(modules[head].register_forward_pre_hook(self._keep_input()))

    def _keep_output(self, name: str) -> Callable[[nn.Module, object, Tensor], None]:
        def keep(module: nn.Module, inputs: object, output: Tensor) -> None:  # noqa: ARG001
            self.seen[name] = output

        return keep

    def _keep_input(self) -> Callable[[nn.Module, tuple[Tensor, ...]], None]:
        def keep(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:  # noqa: ARG001
            self.seen[LAST_INPUTS] = inputs[0]

        return keep

    def watching(self, last_inputs: bool = False) -> AbstractContextManager[object]:
        """What a forward pass must run inside so that the hooks that are needed are called."""
        return as_written() if self.for_objective or last_inputs else nullcontext()

    def through_head(self, gradients: Tensor) -> Tensor:
        """Gradients with respect to the inputs of the last Linear layer [n, width], from those of its outputs."""
        assert isinstance(self.head, nn.Linear)
        weight = self.head.weight.detach().to(gradients.dtype)  # [outputs, width]
        if gradients.shape[1] != len(weight):
            raise ThresherError("feature_gradient needs a model with one output for each class: give it a Linear head.")
        return gradients @ weight

    def take(self) -> dict[str, Tensor]:
        """What the latest forward pass left, handed over so that nothing keeps its graph alive."""
        seen, self.seen = self.seen, {}
        return seen

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()


def _made(make_optimizer: MakeOptimizer, trainable: list[nn.Parameter]) -> Optimizer:
    """The optimizer, refused where it would not move these parameters."""
    try:
        made = make_optimizer(trainable)
    except ThresherError:
        raise
    except (TypeError, ValueError) as error:
        raise ThresherError(
            f"The optimizer cannot be made ({error}): pass lambda parameters: torch.optim.SGD(parameters, lr=0.1)."
        ) from error
    if isinstance(made, Optimizer):
        ours = set(map(id, trainable))
        if any(id(each) not in ours for group in made.param_groups for each in group["params"]):
            raise ThresherError(
                "The optimizer moves other parameters than the model's: make it of the parameters that it is given."
            )
        if not all(math.isfinite(float(group["lr"])) for group in made.param_groups):
            raise ThresherError("The optimizer has a learning rate that is not finite: give it a number.")
    return made


class Learner:
    """One network in training."""

    def __init__(
        self,
        model: nn.Module,
        objective: Objective,
        make_optimizer: MakeOptimizer,
        average: float | Averaging | None,
        ranks: Ranks | None = None,
    ):
        self.text = repr(model)  # before several processes change what its layers are called
        if ranks is not None:
            model = ranks.synchronised(model)
        self.model, self.objective, self.rate = model, objective, average
        if not model.training:
            model.train()  # a model whose root is in training mode keeps the layers its owner froze
        self.average = copy.deepcopy(model).eval().requires_grad_(False) if average is not None else None
        self.sharded = ranks is not None and ranks.sharded
        if ranks is not None and ranks.sharded:
            from thresher.engine.several.sharding import shard

            shard(model, ranks.mesh)
            if self.average is not None:
                shard(self.average, ranks.mesh)
        trainable = [p for p in [*model.parameters(), *objective.parameters()] if p.requires_grad]
        if not trainable:
            raise ThresherError("The model has no trainable parameter: call requires_grad_() on what should learn.")
        self.optimizer = fused_where_possible(_made(make_optimizer, trainable))
        self.kernels = Kernels(self.optimizer)
        self.base_rates = [float(group["lr"]) for group in self.optimizer.param_groups]
        self.has_statistics = any(isinstance(layer, _BatchNorm) for layer in model.modules())
        self.batch_memory: dict[str, Tensor] = {}
        self.epoch_memory: dict[str, Tensor] = {}
        self.moves = torch.zeros((), device=trainable[0].device)  # how often the average has moved
        self.through: nn.Module | None = None  # what training passes call in the model's place: DDP around it
        self.taps = Taps(model)
        self.average_taps: Taps | None = None
        self.adapters: list[RemovableHandle] = []

    def watch_layers(self, layers: Sequence[str], head: str | None) -> None:
        """Keep these layers of the model, and of its average, at every forward pass."""
        self.taps = Taps(self.model, layers, head)
        if self.average is not None:
            self.average_taps = Taps(self.average, layers, head)

    def adapt(self, adapter: OneOutput) -> None:
        """Let the networks give columns where they have a single output, and the objective get it as it is."""
        networks = [self.model, *([] if self.average is None else [self.average])]
        self.adapters = [adapt(network, adapter) for network in networks]
        if isinstance(self.objective, Plain):
            self.objective.shown = adapter.undo

    def remove_hooks(self) -> None:
        self.through = None
        for handle in self.adapters:
            handle.remove()
        self.taps.remove()
        if self.average_taps is not None:
            self.average_taps.remove()

    def add_up_gradients(self, ranks: Ranks) -> None:
        """Bring together the gradients that no wrapper has added up over processes during the backward pass."""
        done = set(self.model.parameters()) if self.through is not None or ranks.sharded else set()
        missing = [p for group in self.optimizer.param_groups for p in group["params"] if p not in done]
        ranks.add_up([p.grad for p in missing if p.grad is not None])
        if self.has_statistics:
            ranks.average_buffers(self.model)

    def remember(self, memory: Mapping[str, Tensor]) -> None:
        """Keep the batch rule's memory, in the same tensors as before, which a captured step reads."""
        for name, value in memory.items():
            if name in self.batch_memory:
                self.batch_memory[name].copy_(value)
            else:
                self.batch_memory[name] = value.detach().clone()

    def set_learning_rate(self, factor: float) -> None:
        for group, base in zip(self.optimizer.param_groups, self.base_rates, strict=True):
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(base * factor)
            else:
                group["lr"] = base * factor

    def state(self) -> dict[str, Any]:
        """Everything the next step depends on."""
        return {
            "model": self.model.state_dict(),
            "objective": self.objective.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "average": None if self.average is None else self.average.state_dict(),
            "moves": self.moves,
            "batch_memory": self.batch_memory,
            "epoch_memory": self.epoch_memory,
        }

    def load_state(self, saved: Mapping[str, Any], device: torch.device) -> None:
        load: Callable[[nn.Module, Mapping[str, Tensor]], object] = nn.Module.load_state_dict
        if self.sharded:
            from thresher.engine.several.sharding import load_shards as load
        load(self.model, saved["model"])
        self.objective.load_state_dict(saved["objective"])
        load_optimizer(self.optimizer, saved["optimizer"])
        if self.sharded:
            from thresher.engine.several.sharding import shard_state

            shard_state(self.optimizer)
        if self.average is not None:
            load(self.average, saved["average"])
        self.moves.copy_(saved["moves"])
        self.batch_memory = {name: value.to(device) for name, value in saved["batch_memory"].items()}
        self.epoch_memory = {name: value.to(device) for name, value in saved["epoch_memory"].items()}

    @torch.no_grad()
    def move_average(self, skip: Tensor | None) -> None:
        """average ← rate · average + (1 - rate) · model, for parameters and buffers, unless the step was skipped."""
        if self.average is None or self.rate is None:
            return
        ours = [*self.average.parameters(), *self.average.buffers()]
        theirs = [*self.model.parameters(), *self.model.buffers()]
        if self.sharded:
            ours, theirs = ([shard_of(each) for each in tensors] for tensors in (ours, theirs))
        moving = [(mine, other) for mine, other in zip(ours, theirs, strict=True) if mine.is_floating_point()]
        difference = torch._foreach_sub([other for _, other in moving], [mine for mine, _ in moving])
        torch._foreach_mul_(difference, self._pace() if skip is None else self._pace() * (1 - skip))
        self.moves += 1 if skip is None else 1 - skip
        torch._foreach_add_([mine for mine, _ in moving], difference)
        counters = [(mine, other) for mine, other in zip(ours, theirs, strict=True) if not mine.is_floating_point()]
        if counters:
            undo = None if skip is None else skip.bool()
            now = [other if undo is None else torch.where(undo, mine, other) for mine, other in counters]
            torch._foreach_copy_([mine for mine, _ in counters], now)

    def _pace(self) -> float | Tensor:
        """1 - rate, which may depend on how often the average has moved."""
        assert self.rate is not None
        return 1 - self.rate if isinstance(self.rate, int | float) else self.rate.pace(self.moves)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """The model in evaluation mode, every layer afterwards in the mode it had."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


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
        optimizer.step()
        return
    before = copied(optimizer)
    optimizer.step()
    put_back(optimizer, before, skip)


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
        if type(self.optimizer) not in (Adam, AdamW, SGD) or self._does_more():
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
        one = self.optimizer
        hooks = one._optimizer_step_pre_hooks or one._optimizer_step_post_hooks
        hooks = hooks or of_all._global_optimizer_pre_hooks or of_all._global_optimizer_post_hooks
        return bool(hooks) or "step" in vars(one) or len(one.param_groups) != len(self.lists or one.param_groups)

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
    if type(optimizer) not in (Adam, AdamW, SGD) or group.get("differentiable") or group.get("foreach"):
        return False
    if group.get("fused") is False:
        return False
    return all(p.is_floating_point() and shard_of(p) is p for p in group["params"])  # type: ignore[attr-defined]
