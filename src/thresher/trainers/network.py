"""A network in a training loop that is not ours: what is remembered of it, and how it is called."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DataParallel, DistributedDataParallel

from thresher.core.errors import ThresherError
from thresher.core.evidence import OTHER_EXAMPLES, Evidence
from thresher.core.trees import arguments, one_tensor
from thresher.engine.device.placement import plain
from thresher.trainers import state
from thresher.trainers.epoch_notes import EpochNotes
from thresher.trainers.sweeps import EpochWeights


@dataclass
class Network:
    """What is remembered of one network between its steps."""

    place: int
    notes: EpochNotes = field(default_factory=EpochNotes)
    memory: dict[str, Tensor] = field(default_factory=dict)
    epoch_memory: dict[str, Tensor] = field(default_factory=dict)
    epoch: EpochWeights | None = None

    def state(self) -> dict[str, Any]:
        weights = None if self.epoch is None else {"ids": self.epoch.ids, "weights": self.epoch.weights}
        memories = {"memory": dict(self.memory), "epoch_memory": dict(self.epoch_memory)}
        return {"notes": state.of_notes(self.notes), "epoch": weights, **memories}

    @classmethod
    def of_state(cls, place: int, saved: Mapping[str, Any], rule: Any) -> "Network":
        made = cls(place, state.into_notes(saved["notes"]), dict(saved["memory"]), dict(saved["epoch_memory"]))
        if saved["epoch"] is not None:
            made.epoch = EpochWeights(rule, made.epoch_memory, **saved["epoch"])
        return made

    def move(self, device: torch.device) -> None:
        """Bring what was saved to the device on which the network is now."""
        for memory in (self.memory, self.epoch_memory):
            memory.update({name: value.to(device) for name, value in memory.items()})
        if self.epoch is not None:
            self.epoch.ids, self.epoch.weights = self.epoch.ids.to(device), self.epoch.weights.to(device)


def with_ids(evidence: Evidence, ids: Tensor) -> Evidence:
    if ids.is_floating_point() or ids.is_complex():
        raise ThresherError(f"The ids are {str(ids.dtype).removeprefix('torch.')}: give whole numbers, one each.")
    if ids.shape != evidence.ids.shape:
        raise ThresherError(f"There are {len(evidence)} examples and ids of shape {list(ids.shape)}: give one id each.")
    others = {
        name: other if name in OTHER_EXAMPLES else other.replace(ids=ids) for name, other in evidence.others.items()
    }
    return evidence.replace(ids=ids, others=others)


def called(model: nn.Module, inputs: Any) -> Tensor:
    given, named = arguments(unwrapped(model), inputs)
    return one_tensor(model(*given, **named))


def unwrapped(model: nn.Module) -> nn.Module:
    """The model itself, inside torch.compile and what sends it to several devices or processes."""
    inner = plain(model)
    return unwrapped(inner.module) if isinstance(inner, DistributedDataParallel | DataParallel) else inner
