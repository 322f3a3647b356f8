"""A training and a test set, and how to make them from one set."""

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from thresher.core.errors import ThresherError
from thresher.core.examples import Examples
from thresher.core.seeding import generator


class Splits(NamedTuple):
    """What to train on and what to test on."""

    train: Examples
    test: Examples


def hold_out(targets: Tensor, share: float = 0.2) -> tuple[Tensor, Tensor]:
    """Sorted positions to train on and to test on, the same at every call; class ids [n] are split class by class.

    The split takes no seed, so that a test example of one run is not a training example of another.

    >>> train, test = hold_out(torch.tensor([0] * 50 + [1] * 10))
    >>> len(train), torch.tensor([0] * 50 + [1] * 10)[test].bincount().tolist()
    (48, [10, 2])
    """
    draws = generator(0, "hold out")
    groups = torch.zeros(len(targets), dtype=torch.long) if targets.is_floating_point() else targets
    is_test = torch.zeros(len(targets), dtype=torch.bool)
    for group in sorted(set(groups.tolist())):
        members = (groups == group).nonzero().flatten()
        shuffled = members[torch.randperm(len(members), generator=draws)]
        is_test[shuffled[: round(share * len(members))]] = True
    if not is_test.any() or is_test.all():
        raise ThresherError(f"{len(targets)} examples are too few to hold out a test set: give at least five a class.")
    return (~is_test).nonzero().flatten(), is_test.nonzero().flatten()


def split(examples: Examples) -> Splits:
    """The examples with a fifth of them held out as the test set."""
    train, test = hold_out(examples.targets)
    return Splits(examples.subset(train), examples.subset(test))


def whole_numbers(option: str, most: int = 1000) -> list[int]:
    """The numbers of an option like `2000,5`.

    >>> whole_numbers("2000,5")
    [2000, 5]
    """
    try:
        numbers = [int(part) for part in option.split(",")] if option else []
    except ValueError:
        raise ThresherError(f"'{option}' is not a list of whole numbers: write it like 2000,5.") from None
    if len(numbers) > most:
        raise ThresherError(f"'{option}' has {len(numbers)} numbers: give at most {most}.")
    return numbers


def only_classes(splits: Splits, wanted: list[int]) -> Splits:
    """Only the examples of these classes, renumbered in the order given: [4, 9] makes 4 class 0 and 9 class 1.

    >>> three = Examples(torch.zeros(3, 1), torch.tensor([0, 1, 2]))
    >>> only_classes(Splits(three, three), [2, 0]).train.targets.tolist()
    [1, 0]
    """
    if splits.train.classes is None or not all(0 <= label < splits.train.classes for label in wanted):
        raise ThresherError(f"{splits.train.name} does not have all the classes {wanted}: choose among those it has.")
    if len(set(wanted)) != len(wanted) or len(wanted) < 2:
        raise ThresherError(f"The classes must be at least two different ones, not {wanted}: name others.")
    return Splits(*(_only_classes(examples, wanted) for examples in splits))


def _only_classes(examples: Examples, wanted: list[int]) -> Examples:
    renumbered = torch.full((examples.outputs,), -1)
    renumbered[wanted] = torch.arange(len(wanted))
    kept = examples.subset((renumbered[examples.labels] >= 0).nonzero().flatten())
    names = None if kept.class_names is None else [kept.class_names[label] for label in wanted]
    return replace(kept, targets=renumbered[kept.labels], classes=len(wanted), class_names=names)


def standardise_targets(splits: Splits) -> Splits:
    """Real targets with mean 0 and deviation 1 on the training set, which networks learn more easily.

    >>> prices = Examples(torch.zeros(2, 1), torch.tensor([100.0, 300.0]))
    >>> standardise_targets(Splits(prices, prices)).test.targets.flatten().tolist()
    [-1.0, 1.0]
    """
    if not splits.train.is_regression:
        raise ThresherError(f"{splits.train.name} has classes: only real targets can be standardised.")
    mean, deviation = splits.train.targets.mean(0), splits.train.targets.std(0, correction=0)
    deviation = torch.where(deviation > 0, deviation, 1.0)
    return Splits(*(_standardised(examples, mean, deviation) for examples in splits))


def _standardised(examples: Examples, mean: Tensor, deviation: Tensor) -> Examples:
    """With this scale taken out of targets and true targets, and added to the scale that was taken out before."""
    true = examples.columns.get("true_target")
    columns = {} if true is None else {"true_target": (true.reshape(examples.targets.shape) - mean) / deviation}
    scale = (mean.double().cpu(), deviation.double().cpu())
    if examples.target_scale is not None:
        before, unit = examples.target_scale
        scale = (before + unit * scale[0], unit * scale[1])
    return replace(examples.with_targets((examples.targets - mean) / deviation, **columns), target_scale=scale)
