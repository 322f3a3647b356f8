"""Slow, obvious versions of what CRUST is compared with."""

import math

import torch
from torch import Tensor


def determinant_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    """-log(|det Σᵢ pᵢ yᵢᵀ| + 0.001) itself, to be differentiated as it stands."""
    classes = outputs.shape[1]
    onehot = torch.nn.functional.one_hot(targets, classes).to(outputs.dtype)
    joint = sum(torch.outer(p, y) for p, y in zip(outputs.softmax(1), onehot, strict=True))
    assert isinstance(joint, Tensor)
    return -torch.log(torch.det(joint).abs() + 0.001)


def reweighted_loss(outputs: Tensor, targets: Tensor, transition: Tensor) -> list[float]:
    """p(y) / (Tᵀp)(y) · -log p(y), example by example."""
    losses = []
    for row, target in zip(outputs, targets.tolist(), strict=True):
        p = row.softmax(0).tolist()
        given = sum(p[c] * float(transition[c, target]) for c in range(len(p)))
        losses.append(p[target] / given * -math.log(p[target]))
    return losses


def dimensionality(points: Tensor, neighbours: int) -> list[float]:
    """-(1/k Σ log(r_j / r_k))⁻¹ by sorted distances, point by point."""
    found = []
    for i, here in enumerate(points):
        radii = sorted(float((here - there).norm()) for j, there in enumerate(points) if j != i)[:neighbours]
        found.append(-1 / (sum(math.log(r / radii[-1]) for r in radii) / len(radii)))
    return found


def anchors(probabilities: Tensor, percentile: float) -> list[list[float]]:
    """Row c: the prediction for the example with the largest p_c below the percentile."""
    n, classes = probabilities.shape
    rows = []
    for c in range(classes):
        values = sorted(probabilities[:, c].tolist())
        bound = values[math.ceil(percentile / 100 * (n - 1))]
        best = max((i for i in range(n) if probabilities[i, c] < bound), key=lambda i: float(probabilities[i, c]))
        rows.append((probabilities[best] / probabilities[best].sum()).tolist())
    return rows
