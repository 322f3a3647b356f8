"""This process among those that train one run together, and what they tell each other (torch.distributed)."""

import hashlib
import warnings
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, TypeVar

import torch
from torch import Tensor, distributed, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parallel import DistributedDataParallel

from thresher.core.errors import ThresherError

Value = TypeVar("Value")


class Ranks:
    """Process `rank` of `count`, on this device; every method is called by all of them, in the same order."""

    def __init__(self, device: torch.device, sharded: bool = False):
        self.rank, self.count, self.device = distributed.get_rank(), distributed.get_world_size(), device
        self.sharded = sharded

    @property
    def is_first(self) -> bool:
        """Whether this is the process that writes files."""
        return self.rank == 0

    def part(self, n: int) -> slice:
        """The rows of n that are this process's: as many as the others', or one more or less."""
        return part_of(n, self.rank, self.count)

    def own(self, rows: Tensor) -> Tensor:
        """This process's part of rows [n, ...]."""
        return rows[self.part(len(rows))]

    def whole(self, own: Tensor, n: int) -> Tensor:
        """All n rows, of which every process brings its own part."""
        kind = own.dtype
        longest = -(-n // self.count)
        sent = own.detach().to(torch.uint8) if kind == torch.bool else own.detach()
        if len(sent) < longest:
            sent = torch.cat([sent, sent.new_zeros(longest - len(sent), *sent.shape[1:])])
        found = sent.new_empty(self.count * longest, *sent.shape[1:])
        distributed.all_gather_into_tensor(found, sent.contiguous())
        if n % self.count:
            parts = [part_of(n, rank, self.count) for rank in range(self.count)]
            found = torch.cat([found[r * longest :][: p.stop - p.start] for r, p in enumerate(parts)])
        return found.to(kind)

    def each(self, own: Tensor) -> Tensor:
        """The tensor of each process [count, ...], which all have the same shape."""
        return self.whole(own[None], self.count)

    def attached(self, own: Tensor, n: int) -> Tensor:
        """The same with this process's rows as they are, so that gradients flow into them."""
        found, part = self.whole(own, n), self.part(n)
        return torch.cat([found[: part.start], own, found[part.stop :]])

    def add_up(self, tensors: Sequence[Tensor]) -> None:
        """Put the sum over all processes into these tensors, by one message for each type."""
        for kind in dict.fromkeys(each.dtype for each in tensors):
            some = [each for each in tensors if each.dtype == kind]
            flat = torch.cat([each.flatten() for each in some])
            distributed.all_reduce(flat)
            for each, total in zip(some, torch.split(flat, [each.numel() for each in some]), strict=True):
                each.copy_(total.view_as(each))

    def from_first(self, value: Value) -> Value:
        """The first process's value, in every process."""
        held: list[Any] = [value]
        distributed.broadcast_object_list(held, device=self.device)
        shared: Value = held[0]
        return shared

    def check_same(self, what: str, *parts: bytes) -> None:
        """Refuse to go on where processes have come to different values: they would not train one run any more."""
        digest = hashlib.blake2b(b"".join(parts), digest_size=7).digest()
        found = self.each(torch.tensor(int.from_bytes(digest, "little"), device=self.device))
        if bool((found != found[0]).any()):
            raise ThresherError(
                f"The processes differ in {what}: give all of them the same data, settings and code, and let views and "
                "rules draw by the generator that they are given."
            )

    def like_first(self, model: nn.Module) -> None:
        """Give the model the first process's parameters and buffers."""
        with torch.no_grad():
            for tensor in [*model.parameters(), *model.buffers()]:
                distributed.broadcast(tensor.detach(), 0)

    def synchronised(self, model: nn.Module) -> nn.Module:
        """The model with BatchNorm over all processes; on a CPU, where PyTorch has none, a warning says so."""
        if not any(isinstance(layer, _BatchNorm) for layer in model.modules()):
            return model
        if self.device.type == "cuda":
            synced: nn.Module = nn.SyncBatchNorm.convert_sync_batchnorm(model)  # type: ignore[no-untyped-call]
            return synced
        warnings.warn(
            "BatchNorm normalises by each process's part of a batch, because SyncBatchNorm needs CUDA: results depend "
            "on the number of processes; GroupNorm or LayerNorm do not.",
            stacklevel=2,
        )
        return model

    @torch.no_grad()
    def average_buffers(self, model: nn.Module) -> None:
        """Give all processes the mean of the statistics that BatchNorm took of its parts of a batch."""
        found = [b for b in model.buffers() if b.is_floating_point()]
        if self.device.type != "cuda" and found:
            self.add_up(found)
            for buffer in found:
                buffer /= self.count

    @cached_property
    def mesh(self) -> DeviceMesh:
        """The processes in a row, over which parameters are sharded."""
        return init_device_mesh(self.device.type, (self.count,))

    def reducing(self, model: nn.Module, unused: bool) -> nn.Module:
        """The model wrapped so that a backward pass adds up gradients over processes while it goes on (DDP)."""
        wrapped = DistributedDataParallel(model, broadcast_buffers=False, find_unused_parameters=unused)
        wrapped.register_comm_hook(None, _sum_of_bucket)
        return wrapped


def agreed(ranks: Ranks | None, found: Callable[[], Value]) -> Value:
    """What the first process finds, or its refusal, in every process."""
    if ranks is None:
        return found()
    value, refused = None, None
    if ranks.is_first:
        try:
            value = found()
        except ThresherError as error:
            refused = error
    value, refused = ranks.from_first((value, refused))
    if refused is not None:
        raise refused
    return value  # type: ignore[return-value]


def part_of(n: int, rank: int, count: int) -> slice:
    """The rows of n that belong to this rank: contiguous, and of equal number up to one.

    >>> [part_of(10, rank, 4) for rank in range(4)]
    [slice(0, 3, None), slice(3, 6, None), slice(6, 8, None), slice(8, 10, None)]
    """
    size, more = divmod(n, count)
    start = rank * size + min(rank, more)
    return slice(start, start + size + (rank < more))


def _sum_of_bucket(  # DDP looks at the annotation
    state: None,  # noqa: ARG001
    bucket: distributed.GradBucket,  # type: ignore[name-defined]
) -> torch.futures.Future[Tensor]:
    """Gradients are parts of one total, so they are added; DDP by itself takes their mean."""
    work = distributed.all_reduce(bucket.buffer(), async_op=True)
    assert work is not None
    total: torch.futures.Future[Tensor] = work.get_future().then(lambda done: done.value()[0])
    return total
