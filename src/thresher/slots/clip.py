"""Clipping of gradients other than by their whole norm."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import nn

from thresher.core.errors import ThresherError, refuse_other_fields


@dataclass(frozen=True)
class Clamped:
    """Every entry of the gradient between -bound and bound.

    >>> weight = nn.Parameter(torch.zeros(2))
    >>> weight.grad = torch.tensor([0.05, -3.0])
    >>> Clamped(0.1)([weight])
    >>> weight.grad
    tensor([ 0.0500, -0.1000])
    """

    bound: float

    def __post_init__(self) -> None:
        refuse_other_fields(self)
        if not self.bound > 0:
            raise ThresherError(f"clip=Clamped({self.bound}) clamps everything away: give a number above 0.")

    def __call__(self, parameters: Iterable[nn.Parameter]) -> None:
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        torch._foreach_clamp_min_(gradients, -self.bound)
        torch._foreach_clamp_max_(gradients, self.bound)
