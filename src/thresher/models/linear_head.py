"""Models of one linear layer: on embeddings, kept from memorising labels by dropout, and on inputs as they are."""

import math

from torch import Tensor, nn

from thresher.core.errors import ThresherError


class LinearHead(nn.Module):
    """One linear layer on inputs that are standardised each by themselves, of which `dropout` is left out at random.

    Standardising makes it indifferent to the scale of embeddings; the dropout is its regularisation.

    >>> LinearHead((512,), 10).head
    Linear(in_features=512, out_features=10, bias=True)
    """

    def __init__(self, input_shape: tuple[int, ...], outputs: int, dropout: float = 0.5):
        super().__init__()
        if not 0 <= dropout < 1:
            raise ThresherError(f"The dropout of head must be at least 0 and below 1, not {dropout}: write head:0.5.")
        numbers = math.prod(input_shape)
        self.body = nn.Sequential(nn.Flatten(), nn.LayerNorm(numbers, elementwise_affine=False), nn.Dropout(dropout))
        self.head = nn.Linear(numbers, outputs)

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.head(self.body(inputs))
        return outputs


class LinearModel(nn.Module):
    """One linear layer on the inputs as they are: logistic regression where targets are classes.

    >>> LinearModel((14,), 2).head
    Linear(in_features=14, out_features=2, bias=True)
    """

    def __init__(self, input_shape: tuple[int, ...], outputs: int):
        super().__init__()
        self.body = nn.Flatten()
        self.head = nn.Linear(math.prod(input_shape), outputs)

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.head(self.body(inputs))
        return outputs
