"""Algorithm 1 of "Learning to reweight examples" as printed: a look-ahead step, and backward on backward."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.func import functional_call

Loss = Callable[[Tensor, Tensor], Tensor]  # (outputs, targets) -> [n]
Pair = tuple[Tensor, Tensor]


def meta_gradient(model: nn.Module, loss: Loss, train: Pair, clean: Pair, rate: float = 1.0) -> Tensor:
    """-∇ε of the clean loss after the look-ahead step, lines 4 to 10, divided by the step size `rate`."""
    values = {name: value for name, value in model.named_parameters() if value.requires_grad}
    buffers = [{name: value.clone() for name, value in model.named_buffers()} for _ in range(2)]
    outputs = functional_call(model, {**values, **buffers[0]}, (train[0],))
    epsilon = torch.zeros(len(outputs), requires_grad=True)
    weighted = (epsilon * loss(outputs, train[1])).sum()
    gradients = torch.autograd.grad(weighted, list(values.values()), create_graph=True, allow_unused=True)
    ahead = {
        name: value if gradient is None else value - rate * gradient
        for (name, value), gradient in zip(values.items(), gradients, strict=True)
    }
    clean_outputs = functional_call(model, {**ahead, **buffers[1]}, (clean[0],))
    return -torch.autograd.grad(loss(clean_outputs, clean[1]).mean(), epsilon)[0] / rate


def weights(meta: Tensor) -> Tensor:
    """Line 11: rectify, and normalise with δ for the batch where nothing is positive."""
    rectified = [max(float(u), 0.0) for u in meta]
    total = sum(rectified)
    return torch.tensor([w / (total + (1.0 if total == 0 else 0.0)) for w in rectified])
