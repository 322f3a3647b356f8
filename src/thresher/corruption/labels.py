"""Wrong class labels: every function takes labels [n] and gives new ones, with an exact number of them flipped.

`rate` is the share of the examples that can flip at all. That is every example, except for `asymmetric` (only some
classes are ever confused) and `backgroundflip` (the background class stays), as in the papers that use those two.
"""

import torch
from torch import Tensor

from thresher.core.errors import ThresherError
from thresher.data.class_names import CIFAR10, CIFAR100, CIFAR100_SUPERCLASSES

SPREAD = 0.1  # of the rates of single examples in `projection`


def chosen(count: int, rate: float, generator: torch.Generator) -> Tensor:
    """The positions of exactly round(rate * count) of `count` examples, in random order.

    >>> chosen(10, 0.3, torch.Generator()).unique().numel()
    3
    """
    if not 0 <= rate <= 1:
        raise ThresherError(f"The corruption rate must be between 0 and 1, not {rate}: correct it.")
    return torch.randperm(count, generator=generator)[: round(rate * count)]


def symmetric(labels: Tensor, rate: float, generator: torch.Generator, classes: int) -> Tensor:
    """Flip to any other class, all equally likely; never to the same one (UNIFORMFLIP in arXiv 1803.09050).

    >>> labels = torch.zeros(10, dtype=torch.long)
    >>> (symmetric(labels, 0.4, torch.Generator(), classes=3) != labels).sum().item()
    4
    """
    _refuse_one_class(classes)
    at = chosen(len(labels), rate, generator)
    flipped = labels.clone()
    flipped[at] = (labels[at] + torch.randint(1, classes, at.shape, generator=generator)) % classes
    return flipped


def uniformflip_any(labels: Tensor, rate: float, generator: torch.Generator, classes: int) -> Tensor:
    """Redraw from all classes, the label's own included, as L2RW's released code does: rate * (1 - 1/classes) change.

    >>> labels = torch.zeros(1000, dtype=torch.long)
    >>> 150 < (uniformflip_any(labels, 0.4, torch.Generator(), classes=2) != labels).sum().item() < 250
    True
    """
    at = chosen(len(labels), rate, generator)
    flipped = labels.clone()
    flipped[at] = torch.randint(0, classes, at.shape, generator=generator)
    return flipped


def pairflip(labels: Tensor, rate: float, generator: torch.Generator, classes: int) -> Tensor:
    """Flip to the next class, the last to the first (Co-teaching, arXiv 1804.06872).

    >>> pairflip(torch.tensor([0, 1, 2]), 1.0, torch.Generator(), classes=3).tolist()
    [1, 2, 0]
    """
    return flip_along((torch.arange(classes) + 1) % classes, labels, rate, generator)


def asymmetric(labels: Tensor, rate: float, generator: torch.Generator, classes: int) -> Tensor:
    """Flip to the class it is usually mistaken for: the map of CIFAR-10, or CIFAR-100's next within the superclass.

    CIFAR-10: truck to automobile, bird to airplane, deer to horse, cat and dog to each other; the others never flip,
    so that 0.4 corrupts 40% of five classes (arXiv 1609.03683).

    >>> asymmetric(torch.arange(10), 1.0, torch.Generator(), classes=10).tolist()
    [0, 1, 0, 5, 7, 3, 6, 7, 8, 1]
    """
    if classes == 10:
        confusions = {"truck": "automobile", "bird": "airplane", "deer": "horse", "cat": "dog", "dog": "cat"}
        successor = [CIFAR10.index(confusions.get(name, name)) for name in CIFAR10]
    elif classes == 100:
        following = {a: b for group in CIFAR100_SUPERCLASSES for a, b in zip(group, group[1:] + group[:1], strict=True)}
        successor = [CIFAR100.index(following[name]) for name in CIFAR100]
    else:
        raise ThresherError(
            f"asymmetric has class maps for CIFAR-10 and CIFAR-100 only, and there are {classes} classes: "
            "use pairflip or derangement instead."
        )
    return flip_along(torch.tensor(successor), labels, rate, generator)


def derangement(labels: Tensor, rate: float, generator: torch.Generator, classes: int) -> Tensor:
    """Flip along one random permutation of the classes that leaves no class where it is (CRUST's released code).

    >>> labels = torch.arange(5).repeat(2)
    >>> flipped = derangement(labels, 1.0, torch.Generator(), classes=5)
    >>> (flipped != labels).all().item(), flipped[:5].unique().numel(), bool((flipped[:5] == flipped[5:]).all())
    (True, 5, True)
    """
    return flip_along(random_derangement(classes, generator), labels, rate, generator)


def backgroundflip(
    labels: Tensor, rate: float, generator: torch.Generator, classes: int, background: int = 0
) -> Tensor:
    """Flip to the one background class, whose own examples stay (arXiv 1803.09050).

    >>> backgroundflip(torch.tensor([0, 1, 2]), 1.0, torch.Generator(), classes=3, background=2).tolist()
    [2, 2, 2]
    """
    if not 0 <= background < classes:
        raise ThresherError(f"There is no background class {background}: give a class from 0 to {classes - 1}.")
    return flip_along(torch.full((classes,), background), labels, rate, generator)


def instance(labels: Tensor, rate: float, generator: torch.Generator, classes: int, features: Tensor) -> Tensor:
    """Flip hard examples more often, and more often to the classes they resemble; features [n, d] decide both.

    With the distances D [n, classes] to the class means, an example's hardness is D_own - min D_other in standard
    units; the flipped ones are drawn without replacement in proportion to exp(hardness), the new class in proportion
    to exp(-D) in standard units, never the own one. (Instance-dependent noise in the spirit of arXiv 2006.07836.)

    >>> features = torch.cat([torch.full((50, 1), -3.0), torch.full((50, 1), 3.0), torch.zeros(100, 1)])
    >>> labels = torch.tensor([0, 1]).repeat_interleave(50).repeat(2)
    >>> flipped = instance(labels, 0.25, torch.Generator(), classes=2, features=features) != labels
    >>> flipped.sum().item(), bool(flipped[100:].sum() > flipped[:100].sum())
    (50, True)
    """
    _refuse_one_class(classes)
    count = chosen(len(labels), rate, generator).numel()
    one_hot = torch.nn.functional.one_hot(labels, classes).to(features.dtype)
    means = (one_hot.T @ features) / one_hot.sum(0).clamp_min(1)[:, None]
    own = one_hot.bool()
    distances = torch.cdist(features, means)
    unit = distances.std(correction=0).clamp_min(1e-12)
    # A class without examples has no mean, so it is put far away.
    distances = distances.masked_fill(one_hot.sum(0) == 0, float(100 * (distances.max() + 1)))
    hardness = _standardised(distances[own] - distances.masked_fill(own, torch.inf).amin(1))
    flips = (hardness + _gumbel(hardness.shape, generator)).topk(count).indices
    rivals = (_gumbel(distances.shape, generator) - distances / unit).masked_fill(own, -torch.inf)
    flipped = labels.clone()
    flipped[flips] = rivals[flips].argmax(1)
    return flipped


def projection(labels: Tensor, rate: float, generator: torch.Generator, classes: int, features: Tensor) -> Tensor:
    """Flip at rates that do not depend on the input, to classes that it decides (after arXiv 2006.07836, Algorithm 2).

    qᵢ ~ N(rate, 0.1²) within [0, 1]; the flipped ones are drawn without replacement in proportion to q, and become
    class c ≠ yᵢ with chance softmax(xᵢ · W of yᵢ)_c, W [classes, d, classes] ~ N(0, 1). Right labels remain everywhere.

    >>> features = torch.cat([torch.full((50, 1), -50.0), torch.full((50, 1), 50.0)])
    >>> labels = projection(torch.zeros(100).long(), 0.4, torch.Generator().manual_seed(0), 3, features)
    >>> labels[:50].bincount(minlength=3).tolist(), labels[50:].bincount(minlength=3).tolist()
    ([32, 18, 0], [28, 0, 22])
    """
    _refuse_one_class(classes)
    count = chosen(len(labels), rate, generator).numel()
    least, most = (torch.special.ndtr(torch.tensor((end - rate) / SPREAD, dtype=torch.float64)) for end in (0, 1))
    places = least + (most - least) * torch.rand(len(labels), generator=generator, dtype=torch.float64)
    rates = (rate + SPREAD * torch.special.ndtri(places)).clamp(0, 1)
    flips = (rates.log() + _gumbel(rates.shape, generator)).topk(count).indices
    flipped = labels.clone()
    for own in range(classes):
        directions = torch.randn(features.shape[1], classes, generator=generator)
        at = flips[labels[flips] == own]
        favoured = features[at] @ directions + _gumbel(torch.Size((len(at), classes)), generator)
        favoured[:, own] = -torch.inf
        flipped[at] = favoured.argmax(1)
    return flipped


def flip_along(successor: Tensor, labels: Tensor, rate: float, generator: torch.Generator) -> Tensor:
    """Send exactly round(rate * m) of the m labels that `successor` [classes] moves at all to their successor.

    >>> flip_along(torch.tensor([1, 1]), torch.tensor([0, 0, 1, 1]), 0.5, torch.Generator()).sum().item()
    3
    """
    _refuse_one_class(len(successor))
    movable = (successor[labels] != labels).nonzero().flatten()
    at = movable[chosen(len(movable), rate, generator)]
    flipped = labels.clone()
    flipped[at] = successor[labels[at]]
    return flipped


def random_derangement(count: int, generator: torch.Generator) -> Tensor:
    """A random permutation [count] without fixed points, all equally likely.

    >>> random_derangement(2, torch.Generator()).tolist()
    [1, 0]
    """
    _refuse_one_class(count)
    while True:  # a random permutation has no fixed point about once in e times
        permutation = torch.randperm(count, generator=generator)
        if (permutation != torch.arange(count)).all():
            return permutation


def _refuse_one_class(classes: int) -> None:
    if classes < 2:
        raise ThresherError("With a single class or target there is nothing to flip to: give at least two.")


def _gumbel(shape: torch.Size, generator: torch.Generator) -> Tensor:
    return -torch.log(torch.empty(shape).exponential_(generator=generator))


def _standardised(values: Tensor) -> Tensor:
    return (values - values.mean()) / values.std(correction=0).clamp_min(1e-12)
