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
    batch = min(train.settings.get("batch", len(clean)), len(clean))
    return train(Recipe(each_epoch=OnlyClean(), draw=repeated(times)), train=joined, batch=batch)


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
    within, new = torch.isin(train.ids, clean.ids), ~torch.isin(clean.ids, train.ids)
    places = (train.ids[within][:, None] == clean.ids).int().argmax(1)
    targets = torch.cat([train.targets, clean.targets[new].to(train.targets.dtype)])
    targets[: len(train)][within] = clean.targets[places].to(targets.dtype)
    columns = {"is_clean": torch.cat([within, torch.ones_like(new)[new]])}
    if "is_corrupt" in train.columns:  # a clean target is not corrupt, whatever it was before
        columns["is_corrupt"] = torch.cat([train.columns["is_corrupt"].bool() & ~within, torch.zeros_like(new)[new]])
    if "true_target" in train.columns:
        columns["true_target"] = torch.cat([train.columns["true_target"], targets[len(train) :]])
    ids, inputs = torch.cat([train.ids, clean.ids[new]]), torch.cat([train.inputs, clean.inputs[new]])
    return replace(train, inputs=inputs, targets=targets, ids=ids, columns=columns, checked=False)
