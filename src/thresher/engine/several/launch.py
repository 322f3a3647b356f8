"""Joining the processes that torchrun has started."""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import distributed

from thresher.engine.several.ranks import Ranks


@contextmanager
def joined() -> Iterator[Ranks]:
    """This process in the group of torchrun: NCCL on GPUs, one each, else gloo, also where processes share GPUs."""
    on_gpu, gpus = torch.cuda.is_available(), torch.cuda.device_count()
    here, local = (int(os.environ.get(name, "0")) for name in ("LOCAL_WORLD_SIZE", "LOCAL_RANK"))
    if on_gpu:
        torch.cuda.set_device(local % gpus)
        if here > gpus and local == 0:
            warnings.warn(f"{here} processes share {gpus} GPUs, and talk by gloo: NCCL wants one each.", stacklevel=2)
    distributed.init_process_group("nccl" if on_gpu and here <= gpus else "gloo")
    try:
        yield Ranks(torch.device("cuda", torch.cuda.current_device()) if on_gpu else torch.device("cpu"))
        distributed.barrier()  # so that no process ends while another still writes
    finally:
        distributed.destroy_process_group()
