"""A dataset whose items bring their ids, by which the ledger knows them."""

from collections.abc import Mapping
from typing import Any

from torch.utils.data import Dataset

from thresher.core.errors import refuse_unless
from thresher.core.example_checks import takes_items

ID, WEIGHT = "id", "weight"  # the columns of a batch that are about its examples and not for the model


class Numbered(Dataset[Any]):
    """The items of a dataset with their places as ids: the last part of a tuple, or the entry "id" of a mapping.

    >>> Numbered([("a", 0), ("b", 1)])[1]
    ('b', 1, 1)
    """

    def __init__(self, dataset: Any):
        fits = takes_items(dataset) and callable(getattr(dataset, "__len__", None)) and not isinstance(dataset, Mapping)
        refuse_unless("dataset", dataset, fits, "one whose items are had by position, with a length")
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, place: int) -> Any:
        item = self.dataset[place]
        if isinstance(item, Mapping):
            return {**item, ID: place}
        return (*item, place) if isinstance(item, tuple | list) else (item, place)
