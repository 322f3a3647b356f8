"""What a weigher is given, before anything is made of it."""

from typing import Any

import torch
from torch import Tensor, nn

from thresher.core.errors import (
    FOLDER,
    SEED,
    Kind,
    ThresherError,
    is_number,
    or_none,
    refuse_other_kinds,
    refuse_unless,
    whole,
)  # fmt: skip
from thresher.core.examples import Examples

KINDS: dict[str, Kind] = {
    "noise_rate": or_none((lambda each: is_number(each) and 0 <= each < 1, "a share from 0 up to 1")),
    "epochs": (lambda each: is_number(each) and each > 0, "a number of epochs above 0"),
    "clean_batch": or_none(whole(1)),
    "objective": or_none((callable, "a function that gives losses [n]")),
    "classes": or_none(whole(2)),
    "seed": SEED,
    "out": or_none(FOLDER),
}


def refuse_other_settings(**given: object) -> None:
    refuse_other_kinds(KINDS, given)


def as_set(given: Any, name: str) -> Examples:
    """Inputs and targets as the loop has them: class ids are not renumbered."""
    if isinstance(given, Examples):
        return given
    if isinstance(given, tuple | list) and len(given) == 2:
        return Examples(given[0], given[1], name=name)
    raise ThresherError(f"{name} is a {type(given).__name__}: give the pair (inputs, targets), or Examples.")


def refuse_other_batch(model: object, targets: object, **numbers: object) -> None:
    """Refuse what is no network, no targets or no numbers of the examples."""
    refuse_unless("model", model, isinstance(model, nn.Module), "a torch.nn.Module")
    refuse_unless("targets", targets, isinstance(targets, Tensor), "the batch's targets as a tensor")
    for name, each in numbers.items():
        refuse_unless(name, each, each is None or isinstance(each, Tensor), "a tensor [n], or None")


def refuse_other_weights(weight: Tensor) -> None:
    """Refuse weights by which no loss can be multiplied."""
    if weight.is_complex() or not bool(((weight >= 0) & torch.isfinite(weight)).all()):
        raise ThresherError("weight holds numbers that are negative, NaN, infinite or complex: give some from 0 on.")


def refuse_no_weigher(given: object) -> None:
    from thresher.trainers.weigher import Weigher

    refuse_unless("weigher", given, isinstance(given, Weigher), 'a Weigher, such as Weigher("prl-l", noise_rate=0.2)')
