"""Networks whose parameters lie in shards over the processes: FSDP2's `fully_shard`."""

from collections.abc import Mapping

from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.optim import Optimizer


def shard(model: nn.Module, mesh: DeviceMesh) -> None:
    """Shard a network in place, block by block; a backward pass adds gradients up over processes, not their mean.

    A block is a child that holds further layers. Single layers stay what they are, so that formulas know them.
    """
    for block in model.children():
        if any(True for _ in block.children()) and any(True for _ in block.parameters()):
            fully_shard(block, mesh=mesh, reshard_after_forward=True)
    fully_shard(model, mesh=mesh, reshard_after_forward=True)  # also of the root, which a sweep would leave whole
    for part in model.modules():
        if isinstance(part, FSDPModule):
            part.set_gradient_divide_factor(1.0)


def load_shards(network: nn.Module, saved: Mapping[str, Tensor]) -> None:
    """Take over whole tensors, of which each process keeps its shard, or the shards themselves."""
    ours = network.state_dict()
    network.load_state_dict({name: _like(value, ours[name]) for name, value in saved.items()})


def shard_state(optimizer: Optimizer) -> None:
    """Shard what an optimizer has loaded for each parameter as that parameter is."""
    for parameter, state in optimizer.state.items():
        for name, value in state.items():
            if isinstance(value, Tensor) and value.shape == parameter.shape:
                state[name] = _like(value, parameter)


def _like(value: Tensor, other: Tensor) -> Tensor:
    if isinstance(value, DTensor) or not isinstance(other, DTensor):
        return value
    return distribute_tensor(value.to(other.device), other.device_mesh, other.placements)
