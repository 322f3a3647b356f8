"""Examples that are alike: equal to the byte, or nearer to each other than examples of this set usually are."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from thresher.auditing.neighbours import Nearest
from thresher.core.examples import Examples
from thresher.data.image_files import files_of
from thresher.data.overlap import digest

Array = NDArray[Any]
NEAR = 0.05  # of the median distance to the nearest neighbour


@dataclass(frozen=True)
class Alike:
    """The places of examples that are alike, and whether they are equal to the byte."""

    places: list[int]
    exact: bool


def digests(examples: Examples) -> list[bytes]:
    """A checksum of each input [n]: of its file, or of its bytes."""
    if not examples.in_memory and (files := files_of(examples.inputs)):
        return [digest(file.read_bytes()) for file in files]
    return [digest(row.numpy().tobytes()) for batch in _each(examples) for row in batch]


def equal(marks: Sequence[bytes]) -> list[Alike]:
    """Groups of examples with the same checksum."""
    groups: dict[bytes, list[int]] = defaultdict(list)
    for place, mark in enumerate(marks):
        groups[mark].append(place)
    return [Alike(places, exact=True) for places in groups.values() if len(places) > 1]


def similar(near: Nearest, known: Sequence[Alike]) -> list[Alike]:
    """Pairs that are no copies of each other but lie within a twentieth of the usual distance to a neighbour."""
    copies = {place: number for number, group in enumerate(known) for place in group.places}
    first, rank = np.nonzero(near.distances <= NEAR * _usual(near))
    pairs = {(min(a, b), max(a, b)) for a, b in zip(first.tolist(), near.places[first, rank].tolist(), strict=True)}
    return [Alike([a, b], exact=False) for a, b in sorted(pairs) if a not in copies or copies[a] != copies.get(b)]


def copies_in(marks: Sequence[bytes], others: Sequence[bytes]) -> list[Alike]:
    """Each example whose checksum another set has as well."""
    known = set(others)
    return [Alike([place], exact=True) for place, mark in enumerate(marks) if mark in known]


def similar_in(others: Nearest, near: Nearest, known: Sequence[Alike]) -> list[Alike]:
    """Each example that is no copy but lies as near to one of another set as `similar` asks of two of its own."""
    copies = {place for group in known for place in group.places}
    close = np.flatnonzero(others.distances[:, 0] <= NEAR * _usual(near))
    return [Alike([place], exact=False) for place in close.tolist() if place not in copies]


def _usual(near: Nearest) -> float:
    """The median distance to the nearest neighbour that is no copy."""
    nearest = near.distances[:, 0]
    return float(np.median(nearest[nearest > 0])) if near.distances.any() else 0.0


def contradicting(groups: Sequence[Alike], labels: Array, trust: Array) -> Array:
    """Which examples [n] have a more trusted double with another label."""
    found = np.zeros(len(labels), bool)
    for group in groups:
        places = np.array(group.places)
        best = labels[places[trust[places].argmax()]]
        found[places[labels[places] != best]] = True
    return found


def across_labels(group: Alike, labels: Array) -> bool:
    return len(set(labels[group.places].tolist())) > 1


def _each(examples: Examples) -> Iterator[Tensor]:
    import torch

    return examples.to("cpu").batches(torch.split(torch.arange(len(examples)), 256))
