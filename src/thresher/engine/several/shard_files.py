"""Shards of a saved training in files, by torch.distributed.checkpoint: each process writes its own, without pickle."""

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader, HuggingFaceStorageWriter
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Shard, zeros

from thresher.core.errors import ThresherError


def save_shards(state: Any, folder: Path) -> Any:
    """Write the shards inside a state, together with all processes; in their places it has tensors without numbers.

    Every process fills a file of its own (safetensors). They count once a checkpoint names this folder.
    """
    shards: dict[str, Any] = {}

    def noted(value: Any, name: str) -> Any:
        if not isinstance(value, DTensor):
            return value
        shards[name] = value
        return torch.empty(value.shape, dtype=value.dtype, device="meta")

    left = _mapped(noted, state)
    try:
        save(shards, storage_writer=HuggingFaceStorageWriter(str(folder), save_distributed=True))
    except CheckpointException as error:  # which is no Exception
        reason = "; ".join(str(why) for why, _ in error.failures.values())
        raise ThresherError(
            f"The shards of an epoch cannot be written to {folder} ({reason}): free some space, or choose another "
            "folder, and run the same command again; everything saved before is intact."
        ) from error
    return left


def filled(state: Any, folder: Path, mesh: DeviceMesh | None = None) -> Any:
    """A state with its shards in their places again: as whole tensors, or over the processes of a mesh, however many.

    Without a mesh no process group is needed. Raises an OSError where a file is lost or damaged.
    """
    wanted: dict[str, Any] = {}

    def room(value: Any, name: str) -> Any:
        if not (isinstance(value, Tensor) and value.is_meta):
            return value
        wanted[name] = torch.zeros(value.shape, dtype=value.dtype) if mesh is None else _shards_like(value, mesh)
        return wanted[name]

    made = _mapped(room, state)
    if wanted:
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", ".*intent is to load in a single process")
                load(wanted, storage_reader=HuggingFaceStorageReader(str(folder)), no_dist=mesh is None)
        except CheckpointException as error:  # which is no Exception
            raise OSError(str(error)) from error
    return made


def _shards_like(value: Tensor, mesh: DeviceMesh) -> DTensor:
    return zeros(value.shape, dtype=value.dtype, device_mesh=mesh, placements=[Shard(0)])  # as FSDP2 shards


def _mapped(function: Callable[[Any, str], Any], value: Any, name: str = "") -> Any:
    """A tree of dicts and lists with each leaf replaced, by its value and its path."""
    if isinstance(value, Mapping):
        return {key: _mapped(function, each, f"{name}/{key}") for key, each in value.items()}
    if isinstance(value, list):
        return [_mapped(function, each, f"{name}/{place}") for place, each in enumerate(value)]
    return function(value, name)
