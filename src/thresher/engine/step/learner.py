"""A learner: one network with its objective, its moving average, and an optimizer that can skip a step."""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.hooks import RemovableHandle

from thresher.core.errors import ThresherError
from thresher.core.objective import Objective, Plain
from thresher.core.one_output import OneOutput, adapt
from thresher.core.recipe import Averaging
from thresher.engine.device.placement import as_written, shard_of
from thresher.engine.several.ranks import Ranks
from thresher.engine.step.optimizer import (
    Kernels,
    MakeOptimizer,
    load_optimizer,
    made,
    step_unless,
    take_step,
    without_compiler,
)

LAST_INPUTS = "inputs of the last Linear layer"  # the name under which taps keep them


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
        self.optimizer = made(make_optimizer, trainable)
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
        with without_compiler():
            optimizer = self.optimizer.state_dict()
        return {
            "model": self.model.state_dict(),
            "objective": self.objective.state_dict(),
            "optimizer": optimizer,
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

    def move(self, skip: Tensor | None) -> None:
        """One step of the optimizer and of the average; none where the device scalar `skip` is 1."""
        if not self.kernels.step(skip):
            if skip is None:
                take_step(self.optimizer)
            else:
                step_unless(skip, self.optimizer)
            self.kernels.ready()  # so that the second step does what all later ones do
        self._move_average(skip)

    @torch.no_grad()
    def _move_average(self, skip: Tensor | None) -> None:
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
