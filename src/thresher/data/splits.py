"""A training and a test set, and how to make them from one set."""

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from thresher.core.errors import ThresherError
from thresher.core.examples import Examples
from thresher.core.files import expanded, is_there
from thresher.core.seeding import generator


class Splits(NamedTuple):
    """What to train on and what to test on."""

    train: Examples
    test: Examples


def hold_out(targets: Tensor, share: float = 0.2, groups: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Sorted positions to train on and to test on, the same at every call; class ids [n] are split class by class.

    The split takes no seed, so that a test example of one run is not a training example of another.
    groups  numbers [n]: examples with the same one are on the same side, and classes are split about evenly

    >>> train, test = hold_out(torch.tensor([0] * 50 + [1] * 10))
    >>> len(train), torch.tensor([0] * 50 + [1] * 10)[test].bincount().tolist()
    (48, [10, 2])
    """
    draws = generator(0, "hold out")
    labels = torch.zeros(len(targets), dtype=torch.long) if targets.is_floating_point() else targets
    is_test = _held_of_each(labels, share, draws) if groups is None else _held_groups(labels, share, groups, draws)
    if not is_test.any() or is_test.all():
        few = "examples are too few to hold out a test set: give at least five a class."
        raise ThresherError(
            f"{len(targets)} {few}" if groups is None else f"{len(torch.unique(groups))} groups of {len(targets)} {few}"
        )
    return (~is_test).nonzero().flatten(), is_test.nonzero().flatten()


def _held_of_each(labels: Tensor, share: float, draws: torch.Generator) -> Tensor:
    """Which examples to hold out [n]: this share of each class."""
    is_test = torch.zeros(len(labels), dtype=torch.bool)
    for label in sorted(set(labels.tolist())):
        members = (labels == label).nonzero().flatten()
        shuffled = members[torch.randperm(len(members), generator=draws)]
        is_test[shuffled[: round(share * len(members))]] = True
    return is_test


def _held_groups(labels: Tensor, share: float, groups: Tensor, draws: torch.Generator) -> Tensor:
    """The same with whole groups, in random order: one is held out where that brings classes nearer to the share."""
    _, group, many = torch.unique(groups, return_inverse=True, return_counts=True)
    members = group.argsort(stable=True).split(many.tolist())
    sizes = labels.bincount().double()
    missing = share * sizes  # of each class
    is_test = torch.zeros(len(labels), dtype=torch.bool)
    for place in torch.randperm(len(members), generator=draws).tolist():
        classes, counts = torch.unique(labels[members[place]], return_counts=True)
        if (counts * (counts - 2 * missing[classes]) / sizes[classes]).sum() < 0:  # |missing - counts|² < |missing|²
            missing[classes] -= counts
            is_test[members[place]] = True
    return is_test


def split(examples: Examples) -> Splits:
    """The examples with a fifth of them held out as the test set; those of one `group` stay together."""
    train, test = hold_out(examples.targets, groups=examples.columns.get("group"))
    return Splits(examples.subset(train), examples.subset(test))


def is_held_out(splits: Splits) -> bool:
    """Whether the test set is a part of the same set, whose targets are as noisy: then no id is in both.

    >>> one = Examples(torch.zeros(20, 1), torch.arange(20) % 2)
    >>> is_held_out(split(one)), is_held_out(Splits(one, one))
    (True, False)
    """
    return not bool(torch.isin(splits.test.ids, splits.train.ids).any())


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


def path_and_option(name: str) -> tuple[str, str]:
    """The path or known name, and the option after it: `photos:64`, `table.csv:COLUMN`.

    Where files or folders have a colon in their own names, the longest path that exists is meant.

    >>> path_and_option("blobs:2000,5"), path_and_option("digits")
    (('blobs', '2000,5'), ('digits', ''))
    """
    parts = name.split(":")
    for count in range(len(parts), 1, -1):
        base = ":".join(parts[:count])
        if is_there(expanded(base)):
            return base, ":".join(parts[count:])
    return parts[0], ":".join(parts[1:])
