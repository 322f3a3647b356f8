"""Changes of a data set before anything else: take a part of it, or replace images by features."""

from dataclasses import replace
from functools import partial
from hashlib import blake2b

import torch
from torch import Tensor

from thresher.bench.definition.grid import Cell
from thresher.core.errors import ThresherError
from thresher.core.examples import Examples
from thresher.data import Splits, in_memory, split, standardise_targets

_cached: dict[tuple[bytes, bytes, int], tuple[Tensor, Tensor]] = {}  # the latest, used for many jobs of a process


def first(splits: Splits, train: int, test: int) -> Splits:
    """The first examples of both sets.

    >>> ten = Examples(torch.zeros(10, 1), torch.arange(10) % 2)
    >>> [len(examples) for examples in first(Splits(ten, ten), train=6, test=3)]
    [6, 3]
    """
    return Splits(
        *(part.subset(torch.arange(min(count, len(part)))) for part, count in zip(splits, (train, test), strict=True))
    )


def first_third(cell: Cell) -> Cell:
    """The cell with the first third of SVHN's training images, which was all there was of them for a time."""
    prepare = partial(first, train=24_419, test=26_032)
    return replace(cell, name=f"{cell.name}-third", prepare=prepare, points=(), part_of=cell.name)


def components(splits: Splits, count: int = 512) -> Splits:
    """The leading principal components of the training images, in units of their deviation, and standardised targets.

    Cached for the same images, because the eigenvectors of some thousand images take seconds.

    >>> ten = Examples(torch.arange(20.0).reshape(10, 2) % 7, torch.arange(10.0))
    >>> components(Splits(ten, ten), 2).train.input_shape
    (2,)
    """
    train, test = (_pixels(examples) for examples in splits)
    key = _digest(train), _digest(test), count
    if key not in _cached:
        _cached.clear()
        _cached[key] = principal_components(train, test, count)
    parts = zip(splits, _cached[key], strict=True)
    return standardise_targets(Splits(*(replace(part, inputs=features, normalise=None) for part, features in parts)))


def celeba_components(splits: Splits, count: int = 512) -> Splits:
    """The principal components of the test part alone, as in the PRL paper, with a fifth of it held out."""
    return components(split(in_memory(splits.test)), count)


def principal_components(train: Tensor, test: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Both sets [n, d] along the `count` directions in which the training set varies most, [n, count].

    By hand, because scikit-learn's PCA gives other signs, and in float32 other trailing components, than those with
    which results are stored.

    >>> line = torch.tensor([[1.0, 2.0], [2.0, 4.0], [3.0, 6.0]])
    >>> one, _ = principal_components(line, line, 1)
    >>> (one.abs().flatten() / one.abs().max()).tolist()
    [1.0, 0.0, 1.0]
    """
    if not 0 < count <= min(train.shape):
        raise ThresherError(f"{list(train.shape)} values have no {count} principal components: ask for fewer.")
    centred = train - train.mean(0)
    # The eigenvectors of the smaller of the two products give those of the other.
    wide = len(train) < train.shape[1]
    _, vectors = torch.linalg.eigh(centred @ centred.T if wide else centred.T @ centred)
    axes = vectors[:, -count:].flip(1)
    if wide:
        axes = centred.T @ axes
        axes = axes / axes.norm(dim=0)
    scores = centred @ axes
    unit = scores.std()
    return scores / unit, (test - train.mean(0)) @ axes / unit


def _pixels(examples: Examples) -> Tensor:
    if not isinstance(examples.inputs, Tensor):
        raise ThresherError(f"{examples.name} is streamed: read it first with thresher.data.in_memory(examples).")
    return examples.inputs.cpu().flatten(1).float()


def _digest(values: Tensor) -> bytes:
    return blake2b(values.numpy().tobytes(), digest_size=16).digest()
