"""Gradients of single examples the slow, obvious way: one backward pass for each loss."""

import torch
from torch import Tensor, nn


def gradients(losses: Tensor, parameters: list[nn.Parameter]) -> list[list[Tensor]]:
    """For each example, the gradient of its loss for each parameter (zeros where it does not depend on it)."""
    rows = []
    for loss in losses:
        found = torch.autograd.grad(loss, parameters, retain_graph=True, allow_unused=True)
        rows.append([torch.zeros_like(p) if g is None else g for p, g in zip(parameters, found, strict=True)])
    return rows


def norms(losses: Tensor, parameters: list[nn.Parameter]) -> Tensor:
    """[n]: the norm of each example's gradient over all parameters."""
    return torch.stack([torch.cat([g.flatten() for g in row]).norm() for row in gradients(losses, parameters)])


def weighted(losses: Tensor, weights: Tensor, parameters: list[nn.Parameter]) -> list[Tensor]:
    """For each parameter, the sum of the examples' gradients times their weights."""
    rows = gradients(losses, parameters)
    return [torch.stack([w * row[k] for w, row in zip(weights, rows, strict=True)]).sum(0) for k in range(len(rows[0]))]
