"""Targets as rows of probabilities, for blends and soft labels."""

import torch
from torch import Tensor


def one_hot_if_ids(targets: Tensor, classes: int | None) -> Tensor:
    """One-hot rows [n, classes] for class ids [n]; soft labels and real targets as they are.

    >>> one_hot_if_ids(torch.tensor([1]), 3).tolist(), one_hot_if_ids(torch.tensor([[0.5]]), None).tolist()
    ([[0.0, 1.0, 0.0]], [[0.5]])
    """
    if classes is not None and targets.ndim == 1:
        return (targets[:, None] == torch.arange(classes, device=targets.device)).float()  # one_hot waits for the host
    return targets
