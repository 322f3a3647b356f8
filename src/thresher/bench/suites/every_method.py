"""Rows for the methods that a paper does not compare, so that all can be ranked in the same cells at equal budget."""

from collections.abc import Sequence

from thresher.bench.definition.grid import Entry
from thresher.methods import METHODS

SEEDS = 2
FOR_RARE_CLASSES = ("proportion", "resample", "hard-mining")
NOT_RANKED = ("huber", "top-q", *FOR_RARE_CLASSES)  # for real targets, and against something else than wrong labels
NOT_KNOWN = {"clean", "column is_corrupt"}  # what nobody knows of labels that are merely given
RANKED = tuple(name for name, method in METHODS.items() if name not in NOT_RANKED and not NOT_KNOWN & {*method.needs})


def beside(entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """A row for each method against wrong labels that is not among these; the tables show it, the plots do not.

    >>> [entry.name for entry in beside([Entry(name) for name in RANKED if name != "gce"])]
    ['gce']
    """
    known = {entry.name for entry in entries}
    return tuple(Entry(name, drawn=False, changes={"seeds": SEEDS}) for name in RANKED if name not in known)
