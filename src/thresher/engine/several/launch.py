"""Joining the processes that torchrun has started."""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import distributed

from thresher.core.errors import ThresherError
from thresher.engine.several.ranks import Ranks

FIX = "start them by torchrun, or unset RANK and WORLD_SIZE for one process alone"


def _refuse_no_launch() -> None:
    """Refuse variables that torchrun does not set so, with which a process would wait for others, or fail."""
    usual = {"RANK": "", "WORLD_SIZE": "", "MASTER_PORT": "", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "0"}
    told = {name: os.environ.get(name, value) for name, value in usual.items()}
    odd = [name for name, value in told.items() if not value.isdecimal()]
    if odd or not os.environ.get("MASTER_ADDR"):
        name = [*odd, "MASTER_ADDR"][0]
        raise ThresherError(f"{name}={os.environ.get(name, '')!r} is not what torchrun sets: {FIX}.")
    if int(told["RANK"]) >= int(told["WORLD_SIZE"]):
        raise ThresherError(f"RANK={told['RANK']} is not among WORLD_SIZE={told['WORLD_SIZE']} processes: {FIX}.")


@contextmanager
def joined() -> Iterator[Ranks]:
    """This process in the group of torchrun: NCCL on GPUs, one each, else gloo, also where processes share GPUs."""
    _refuse_no_launch()
    on_gpu, gpus = torch.cuda.is_available(), torch.cuda.device_count()
    here, local = (int(os.environ.get(name, "0")) for name in ("LOCAL_WORLD_SIZE", "LOCAL_RANK"))
    if on_gpu:
        torch.cuda.set_device(local % gpus)
        if here > gpus and local == 0:
            warnings.warn(f"{here} processes share {gpus} GPUs, and talk by gloo: NCCL wants one each.", stacklevel=2)
    try:
        distributed.init_process_group("nccl" if on_gpu and here <= gpus else "gloo")
    except (ValueError, RuntimeError) as error:
        raise ThresherError(f"The processes do not find each other ({error!s:.200}): {FIX}.") from error
    try:
        yield Ranks(torch.device("cuda", torch.cuda.current_device()) if on_gpu else torch.device("cpu"))
        distributed.barrier()  # so that no process ends while another still writes
    finally:
        distributed.destroy_process_group()
