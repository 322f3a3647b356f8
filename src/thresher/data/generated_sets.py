"""Generated sets of any size: blobs with classes, and a smooth relation with real targets."""

import torch

from thresher.core.errors import ThresherError, refuse_beyond_memory
from thresher.core.examples import Examples
from thresher.core.seeding import generator
from thresher.data.splits import Splits


def blobs(count: int = 1000, classes: int = 4, features: int = 16, *, seed: int = 0) -> Splits:
    """`count` training examples, normal around one random centre a class, and a quarter as many to test on.

    >>> train, test = blobs(400, classes=3)
    >>> train.input_shape, train.classes, len(train), len(test)
    ((16,), 3, 400, 100)
    """
    _refuse_sizes(count, classes, features)
    if classes < 2:
        raise ThresherError(f"blobs need at least 2 classes, not {classes}: give more.")
    draws = generator(seed, "blobs")
    centres = torch.randn(classes, features, generator=draws)
    total = count + max(1, count // 4)
    labels = torch.arange(total) % classes
    labels = labels[torch.randperm(total, generator=draws)]
    inputs = centres[labels] + 0.7 * torch.randn(total, features, generator=draws)
    return _cut(Examples(inputs, labels, classes=classes, name="blobs"), count)


def regression(count: int = 1000, features: int = 16, targets: int = 3, *, seed: int = 0) -> Splits:
    """`count` training examples of a smooth relation, y = tanh(x A) B + noise, and a quarter as many to test on.

    >>> train, test = regression(400, targets=2)
    >>> train.targets.shape[1], train.is_regression, len(test)
    (2, True, 100)
    """
    _refuse_sizes(count, targets, features)
    draws = generator(seed, "regression")
    total = count + max(1, count // 4)
    inputs = torch.randn(total, features, generator=draws)
    inner = torch.randn(features, 8, generator=draws) / features**0.5
    outer = torch.randn(8, targets, generator=draws)
    noise = 0.1 * torch.randn(total, targets, generator=draws)
    return _cut(Examples(inputs, torch.tanh(inputs @ inner) @ outer + noise, name="regression"), count)


def _cut(examples: Examples, count: int) -> Splits:
    everything = torch.arange(len(examples))
    return Splits(examples.subset(everything[:count]), examples.subset(everything[count:]))


def _refuse_sizes(count: int, outputs: int, features: int) -> None:
    """Refuse a generated set that is empty or, with its draws, does not fit into memory."""
    if min(count, outputs, features) < 1:
        sizes = (count, outputs, features)
        raise ThresherError(f"The sizes of a generated set must be at least 1, not {sizes}: correct them.")
    refuse_beyond_memory(4.0 * features * (4 * count + outputs), "The generated set", "give smaller sizes")
