"""A multilayer perceptron on flattened inputs."""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

from torch import Tensor, nn

from thresher.core.errors import ThresherError


class MLP(nn.Module):
    """Linear layers with an activation after each but the last.

    >>> [list(p.shape) for p in MLP((1, 8, 8), 10, hidden=(32,)).parameters()]
    [[32, 64], [32], [10, 32], [10]]
    """

    def __init__(
        self,
        input_shape: tuple[int, ...],
        outputs: int,
        hidden: Sequence[int] = (256, 256),
        activation: Callable[[], nn.Module] = nn.ReLU,
    ):
        super().__init__()
        if not hidden or min(hidden) < 1:
            raise ThresherError(f"mlp needs hidden layers of at least one unit, not {list(hidden)}: write mlp:256x256.")
        sizes = [math.prod(input_shape), *hidden]
        layers = [layer for size, following in pairwise(sizes) for layer in (nn.Linear(size, following), activation())]
        self.body = nn.Sequential(nn.Flatten(), *layers)
        self.head = nn.Linear(sizes[-1], outputs)

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.head(self.body(inputs))
        return outputs
