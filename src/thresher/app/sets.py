"""The sets of a training made from one data set: what is clean, what is corrupted, and what is held out."""

from collections.abc import Callable
from dataclasses import dataclass

from thresher.core.errors import ThresherError
from thresher.core.examples import Examples
from thresher.corruption import corrupt
from thresher.data import Splits, hold_out, take_clean


@dataclass(frozen=True)
class Sets:
    """What to train on, to measure on, to trust, and to validate on, which is as noisy as the training set."""

    train: Examples
    test: Examples
    clean: Examples | None = None
    validation: Examples | None = None


def prepare_sets(
    splits: Splits,
    *,
    corruption: str | None = None,
    clean: int | Callable[[Examples], Examples] | None = None,
    validation: float | None = None,
    seed: int = 0,
    given_is_true: bool = False,
) -> Sets:
    """Set clean examples aside, corrupt the rest by the seed, and then hold out a share for validation.

    clean  how many to take out of the training set with their true targets, or a function of it that gives them
    given_is_true  whether the given targets are the truth, as before a corruption
    """
    train, trusted, apart = splits.train, None, None
    if given_is_true:
        train = train.with_columns(true_target=train.columns.get("true_target", train.targets))
    if isinstance(clean, int):
        train, trusted = take_clean(train, clean, seed)
    elif clean is not None:
        trusted = clean(train)
    if corruption is not None:
        train = corrupt(train, corruption, seed=seed)
    if validation is not None:
        if not 0 < validation < 1:
            raise ThresherError(f"The validation share must lie between 0 and 1, such as 0.1, not {validation}.")
        groups = train.columns.get("group")
        parts = hold_out(train.targets.cpu(), validation, None if groups is None else groups.cpu())
        train, apart = (train.subset(part) for part in parts)
    return Sets(train, splits.test, trusted, apart)
