"""Imbalanced classes: examples are left out, labels stay as they are."""

import torch
from torch import Tensor

from thresher.core.errors import ThresherError


def imbalance(
    labels: Tensor, ratio: float, generator: torch.Generator, classes: int, total: int | None = None
) -> Tensor:
    """The positions to keep, sorted, so that the largest class has `ratio` times the examples of the smallest.

    With two classes the second dominates (4 against 9 in arXiv 1803.09050); with more, class c keeps a share
    proportional to ratio^(-c / (classes - 1)), the usual long tail. `total` examples in all, or as many as there are.

    >>> labels = torch.tensor([0, 1]).repeat_interleave(100)
    >>> labels[imbalance(labels, 20, torch.Generator(), classes=2)].bincount().tolist()
    [5, 100]
    """
    if not ratio >= 1:
        raise ThresherError(f"The class ratio must be at least 1, not {ratio}: write imbalance:200, for example.")
    if classes < 2:
        raise ThresherError("imbalance needs at least two classes: give examples of more than one.")
    sizes = _class_sizes(labels.bincount(minlength=classes), ratio, total)
    kept = []
    for label, size in enumerate(sizes):
        members = (labels == label).nonzero().flatten()
        kept.append(members[torch.randperm(len(members), generator=generator)[:size]])
    return torch.cat(kept).sort().values


def _class_sizes(available: Tensor, ratio: float, total: int | None) -> list[int]:
    classes = len(available)
    shares = torch.tensor([ratio ** (-c / (classes - 1)) for c in range(classes)], dtype=torch.float64)
    if classes == 2:
        shares = shares.flip(0)
    scale = float((available / shares).min()) if total is None else total / float(shares.sum())
    sizes = [max(1, round(scale * float(share))) for share in shares]
    if total is not None:
        head = int(shares.argmax())
        sizes[head] += total - sum(sizes)  # the largest class takes up the rounding
    for label, size in enumerate(sizes):
        if not 1 <= size <= available[label]:
            raise ThresherError(
                f"imbalance needs {size} examples of class {label}, and there are {int(available[label])}: "
                "lower the ratio or the total."
            )
    return sizes
