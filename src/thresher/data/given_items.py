"""Items of a dataset or of a stream that a caller gives: their inputs and targets, and what messages call them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np
from torch import Tensor

from thresher.core.errors import ThresherError, raised_in

TARGET_NAMES = ("labels", "label")  # of mappings, where no target= is given


def named_items(items: Iterable[Any], name: str) -> Iterator[tuple[Any, str]]:
    """Each item and what messages call it; an error of the caller's own code in making one says which it was."""
    made = iter(items)
    for place in count():
        where = f"item at position {place} of {name}"
        with raised_in(f"the {where}"):
            try:
                item = next(made)
            except StopIteration:
                return
        yield item, where


def split_item(item: Any, target: str | None, where: str) -> tuple[Any, Any]:
    """Input and target of an item: a pair, or a mapping, which keeps its other parts."""
    if isinstance(item, Mapping):
        key = target_name(item, target, f"The {where}")
        return {part: value for part, value in item.items() if part != key}, _plain(item[key])
    known = target_of(item, where)
    return item[0], known


def target_of(item: Any, where: str) -> Any:
    """The second part of an item that is a pair."""
    if not isinstance(item, Sequence) or isinstance(item, str) or len(item) < 2:
        raise ThresherError(f"The {where} is a {type(item).__name__}: let the dataset give (input, target) pairs.")
    return _plain(item[1])


def part_of(item: Any, key: str, where: str) -> Any:
    """The part of this name of an item that is a mapping."""
    if not isinstance(item, Mapping) or key not in item:
        what = "lacks the part" if isinstance(item, Mapping) else f"is a {type(item).__name__} without the part"
        raise ThresherError(f"The {where} {what} {key!r}: let the dataset give it in every item.")
    return _plain(item[key])


def target_name(mapping: Mapping[str, Any], target: str | None, name: str) -> str:
    """The part of a mapping that is the target."""
    found = [each for each in ((target,) if target is not None else TARGET_NAMES) if each in mapping]
    if not found:
        raise ThresherError(
            f"{name} has {', '.join(map(str, mapping))} and no {target or 'labels'}: say which is the target, as "
            "target='label'."
        )
    return found[0]


def _plain(value: Any) -> Any:
    """A number of torch or NumPy as Python's."""
    return value.item() if isinstance(value, Tensor | np.generic) and value.ndim == 0 else value
