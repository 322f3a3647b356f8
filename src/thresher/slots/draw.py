"""Drawing: in which order, and how often, an epoch visits the examples."""

from dataclasses import dataclass

import torch
from torch import Tensor

from thresher.core.errors import ThresherError
from thresher.core.examples import Examples
from thresher.core.slots import shuffled


def class_balanced(positions: Tensor, examples: Examples, generator: torch.Generator) -> Tensor:
    """As many visits as there are examples, every class equally often: drawn with replacement, rare classes repeat."""
    if examples.is_regression:
        raise ThresherError("class_balanced draws by class, which real targets do not have: choose another draw.")
    labels = examples.labels.cpu()[positions]
    share = 1.0 / torch.bincount(labels).double()[labels]
    return positions[torch.multinomial(share, len(positions), replacement=True, generator=generator)]


@dataclass(frozen=True)
class repeated:  # noqa: N801  # used like a function: repeated(10)
    """Every example `times` times, in as many random orders: longer epochs for a set so small."""

    times: int

    def __post_init__(self) -> None:
        if self.times < 1:
            raise ThresherError(f"repeated({self.times}) draws nothing: give at least 1.")

    def __call__(self, positions: Tensor, examples: Examples, generator: torch.Generator) -> Tensor:
        return torch.cat([shuffled(positions, examples, generator) for _ in range(self.times)])
