"""Draws: the order in which, and how often, an epoch visits the examples."""

from dataclasses import dataclass

import torch
from torch import Tensor

from thresher.core.errors import ThresherError, refuse_other_fields
from thresher.core.examples import Examples
from thresher.core.recipe import shuffled


def class_balanced(positions: Tensor, examples: Examples, generator: torch.Generator) -> Tensor:
    """As many visits as there are examples, with every class equally likely: drawn with replacement."""
    if examples.classes is None:
        raise ThresherError("class_balanced draws by class, and real targets have none: choose another draw.")
    labels = examples.labels.cpu()[positions]
    share = 1.0 / torch.bincount(labels).double()[labels]
    return positions[torch.multinomial(share, len(positions), replacement=True, generator=generator)]


@dataclass(frozen=True)
class repeated:  # noqa: N801  # used like a function: repeated(10)
    """Every example `times` times, each time in another random order: longer epochs for a small set."""

    times: int

    def __post_init__(self) -> None:
        refuse_other_fields(self)
        if self.times < 1:
            raise ThresherError(f"repeated({self.times}) draws nothing: give at least 1.")

    def __call__(self, positions: Tensor, examples: Examples, generator: torch.Generator) -> Tensor:
        return torch.cat([shuffled(positions, examples, generator) for _ in range(self.times)])
