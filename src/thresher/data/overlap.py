"""Examples that two sets share under different ids, found by checksums of their inputs."""

from collections import defaultdict
from hashlib import blake2b
from pathlib import Path

import torch
from torch import Tensor

from thresher.core.examples import Examples
from thresher.core.trees import Tree, leaves
from thresher.data.image_files import files_of


def overlapping(examples: Examples, others: Examples) -> Tensor:
    """Which examples have an input that is also one of the others [n]; none where inputs are neither tensors nor files.

    >>> labels = torch.tensor([0, 1])
    >>> others = Examples(torch.tensor([[3.0], [2.0]]), labels)
    >>> overlapping(Examples(torch.tensor([[1.0], [2.0]]), labels), others).tolist()
    [False, True]
    """
    if examples.in_memory and others.in_memory:
        marks, known = _row_digests(examples.inputs), set(_row_digests(others.inputs))
    else:
        marks, known = _file_digests(files_of(examples.inputs), files_of(others.inputs))
    return torch.tensor([mark in known for mark in marks] or [False] * len(examples))


def _row_digests(inputs: Tree) -> list[bytes]:
    blocks = [leaf.cpu().reshape(len(leaf), -1).contiguous().view(torch.uint8).numpy() for leaf in leaves(inputs)]
    return [digest(b"".join(row.tobytes() for row in rows)) for rows in zip(*blocks, strict=True)]


def _file_digests(files: list[Path], others: list[Path]) -> tuple[list[bytes], set[bytes]]:
    """Checksums of the files and of the others; a file is only opened if one of the others has its size."""
    sizes, other_sizes = ([file.stat().st_size for file in each] for each in (files, others))
    shared = set(sizes) & set(other_sizes)
    ours = [digest(file.read_bytes()) if size in shared else b"" for file, size in zip(files, sizes, strict=True)]
    theirs = {digest(file.read_bytes()) for file, size in zip(others, other_sizes, strict=True) if size in shared}
    return ours, theirs


def same_files(files: list[Path]) -> list[list[int]]:
    """The positions of files with the same bytes, a group each; a file is only opened if another has its size."""
    by_size: dict[int, list[int]] = defaultdict(list)
    for place, file in enumerate(files):
        by_size[file.stat().st_size].append(place)
    by_content: dict[bytes, list[int]] = defaultdict(list)
    for size, places in by_size.items():
        for place in places if len(places) > 1 and size else []:
            by_content[digest(files[place].read_bytes())].append(place)
    return sorted(group for group in by_content.values() if len(group) > 1)


def digest(content: bytes) -> bytes:
    """A checksum of 16 bytes."""
    return blake2b(content, digest_size=16).digest()
