"""Drawing: in which order, and how often, an epoch visits the examples."""

from typing import Protocol

import torch
from torch import Tensor

from thresher.examples import Examples


class Draw(Protocol):
    """`draw(positions, examples, generator)`: the positions of an epoch, in the order they are visited."""

    def __call__(self, positions: Tensor, examples: Examples, generator: torch.Generator, /) -> Tensor: ...


def shuffled(positions: Tensor, examples: Examples, generator: torch.Generator) -> Tensor:  # noqa: ARG001
    """Everyone once, in random order."""
    return positions[torch.randperm(len(positions), generator=generator)]


def class_balanced(positions: Tensor, examples: Examples, generator: torch.Generator) -> Tensor:
    """As many visits as there are examples, every class equally often: drawn with replacement, rare classes repeat."""
    labels = examples.labels.cpu()[positions]
    share = 1.0 / torch.bincount(labels).double()[labels]
    return positions[torch.multinomial(share, len(positions), replacement=True, generator=generator)]
