"""Targets in other forms: class ids as rows of probabilities, and texts as class ids."""

from collections.abc import Sequence
from typing import Any

import numpy as np
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


def text_labels(targets: Any) -> tuple[Tensor, list[str]] | None:
    """Class ids and the names of the classes, where the targets are texts; else None.

    >>> text_labels(["cat", "dog", "cat"])
    (tensor([0, 1, 0]), ['cat', 'dog'])
    """
    if isinstance(targets, Tensor) or not isinstance(targets, Sequence | np.ndarray) or isinstance(targets, str):
        return None
    if not len(targets) or not all(isinstance(each, str) for each in targets):
        return None
    names, ids = np.unique(np.asarray(targets, dtype=str), return_inverse=True)
    return torch.as_tensor(ids.astype(np.int64)), [str(name) for name in names]
