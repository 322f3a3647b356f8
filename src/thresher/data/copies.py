"""Examples that are in two sets under different ids, which their inputs betray."""

from hashlib import blake2b
from pathlib import Path

import torch
from torch import Tensor

from thresher.core.examples import Examples
from thresher.data.folders import files_of


def among(examples: Examples, others: Examples) -> Tensor:
    """Whose very inputs are among those of the others [n]; nobody's where inputs are neither in memory nor files.

    >>> labels = torch.tensor([0, 1])
    >>> others = Examples(torch.tensor([[3.0], [2.0]]), labels)
    >>> among(Examples(torch.tensor([[1.0], [2.0]]), labels), others).tolist()
    [False, True]
    """
    if isinstance(examples.inputs, Tensor) and isinstance(others.inputs, Tensor):
        marks, known = _rows(examples.inputs), set(_rows(others.inputs))
    else:
        marks, known = _contents(files_of(examples.inputs), files_of(others.inputs))
    return torch.tensor([mark in known for mark in marks] or [False] * len(examples))


def _rows(inputs: Tensor) -> list[bytes]:
    rows = inputs.cpu().reshape(len(inputs), -1).contiguous().view(torch.uint8).numpy()
    return [_digest(row.tobytes()) for row in rows]


def _contents(files: list[Path], others: list[Path]) -> tuple[list[bytes], set[bytes]]:
    """What is in the files and in the others; those of a size that none of the others has need not be opened."""
    sizes, other_sizes = ([file.stat().st_size for file in each] for each in (files, others))
    shared = set(sizes) & set(other_sizes)
    ours = [_digest(file.read_bytes()) if size in shared else b"" for file, size in zip(files, sizes, strict=True)]
    theirs = {_digest(file.read_bytes()) for file, size in zip(others, other_sizes, strict=True) if size in shared}
    return ours, theirs


def _digest(content: bytes) -> bytes:
    return blake2b(content, digest_size=16).digest()
