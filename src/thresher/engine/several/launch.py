"""Joining the processes that torchrun has started."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import distributed

from thresher.engine.several.ranks import Ranks


@contextmanager
def joined() -> Iterator[Ranks]:
    """This process in the group of torchrun: NCCL on GPUs, one each, else gloo."""
    on_gpu = torch.cuda.is_available()
    if on_gpu:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    distributed.init_process_group("nccl" if on_gpu else "gloo")
    try:
        yield Ranks(torch.device("cuda", torch.cuda.current_device()) if on_gpu else torch.device("cpu"))
        distributed.barrier()  # so that no process ends while another still writes
    finally:
        distributed.destroy_process_group()
