"""What a few clean examples teach by themselves."""

from dataclasses import replace

import torch
from torch import Tensor

from thresher.draw import repeated
from thresher.engine.run import Run
from thresher.errors import ThresherError
from thresher.examples import Examples
from thresher.procedures.trainer import Trainer
from thresher.recipe import Recipe
from thresher.rules import OnlyClean


def clean_only(train: Trainer) -> Run:
    """Train on the clean set alone, for as many steps as on everything; the ledger still judges every example."""
    clean = train.clean("clean-only")
    joined = with_clean(train.train, clean)
    times = -(-len(joined) // len(clean))
    return train(Recipe(each_epoch=OnlyClean(), draw=repeated(times)), train=joined)


def with_clean(train: Examples, clean: Examples) -> Examples:
    """Both sets as one, with the column `is_clean`; an id that is in both is one example, with its clean target.

    >>> noisy, clean = Examples(torch.zeros(2, 1), torch.tensor([0, 1])), Examples(torch.zeros(1, 1), torch.tensor([0]))
    >>> both = with_clean(noisy, replace(clean, ids=torch.tensor([1]), classes=2))
    >>> both.targets.tolist(), both.columns["is_clean"].tolist()
    ([0, 0], [False, True])
    """
    if not isinstance(train.inputs, Tensor) or not isinstance(clean.inputs, Tensor):
        raise ThresherError(
            f"{train.name} and its clean set must be in memory to be joined: read them with thresher.data.in_memory()."
        )
    clean = clean.to(train.targets.device)
    within = torch.isin(train.ids, clean.ids)
    others = torch.isin(clean.ids, train.ids).logical_not()
    place = torch.searchsorted(clean.ids, train.ids[within], sorter=clean.ids.argsort())
    targets = train.targets.clone()
    targets[within] = clean.targets[clean.ids.argsort()[place]].to(targets.dtype)
    first = replace(train, columns={"is_clean": within}, targets=targets, checked=False)
    more = clean.subset(others)
    return replace(
        first,
        inputs=torch.cat([train.inputs, more.inputs]),  # type: ignore[list-item]
        targets=torch.cat([targets, more.targets.to(targets.dtype)]),
        ids=torch.cat([train.ids, more.ids]),
        columns={
            "is_clean": torch.cat([within, torch.ones(len(more), dtype=torch.bool, device=within.device)]),
            **_shared_columns(train, more, within),
        },
        checked=False,
    )


def _shared_columns(train: Examples, clean: Examples, within: Tensor) -> dict[str, Tensor]:
    """What is known of the examples in both sets; a clean target is not corrupt, whatever it was before."""
    columns = {}
    if "is_corrupt" in train.columns:
        corrupt = train.columns["is_corrupt"].bool() & ~within
        columns["is_corrupt"] = torch.cat([corrupt, torch.zeros(len(clean), dtype=torch.bool, device=corrupt.device)])
    if "true_target" in train.columns:
        true = train.columns["true_target"]
        columns["true_target"] = torch.cat([true, clean.targets.to(true.dtype)])
    return columns
