"""Drawing: in which order, and how often, an epoch visits the examples."""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from thresher.errors import ThresherError
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


@dataclass(frozen=True)
class repeated:  # noqa: N801  # used like a function: repeated(10)
    """Everyone `times` times, in as many random orders: epochs of a set so small that its own would be a few steps."""

    times: int

    def __post_init__(self) -> None:
        if self.times < 1:
            raise ThresherError(f"repeated({self.times}) draws nobody: give at least 1.")

    def __call__(self, positions: Tensor, examples: Examples, generator: torch.Generator) -> Tensor:
        return torch.cat([shuffled(positions, examples, generator) for _ in range(self.times)])
