"""Training on the clean examples alone."""

from dataclasses import replace

import torch

from thresher.core.errors import ThresherError
from thresher.core.examples import Examples
from thresher.core.joining import join
from thresher.core.recipe import Recipe
from thresher.engine.run import Run
from thresher.methods.method import Trainer
from thresher.rules import OnlyClean
from thresher.slots.draw import repeated

FEW = 8  # inputs of a stream that are compared


def clean_only(train: Trainer) -> Run:
    """Train on the clean set alone, for as many steps as on the whole set; the ledger has rows for all examples."""
    clean = train.need_clean("clean-only")
    joined = with_clean(train.train, clean)
    times = -(-len(joined) // len(clean))
    batch = min(train.settings.batch or len(clean), len(clean))
    return train(Recipe(each_epoch=OnlyClean(), draw=repeated(times)), train=joined, batch=batch)


def with_clean(train: Examples, clean: Examples) -> Examples:
    """Both sets as one, with the column `is_clean`; an id that is in both is one example, with its clean target.

    >>> noisy = Examples(torch.zeros(2, 1), torch.tensor([0, 1]))
    >>> both = with_clean(noisy, Examples(torch.zeros(1, 1), torch.tensor([0]), ids=torch.tensor([1])))
    >>> both.targets.tolist(), both.columns["is_clean"].tolist()
    ([0, 0], [False, True])
    """
    within, new = torch.isin(train.ids, clean.ids), ~torch.isin(clean.ids, train.ids)
    ordered, order = clean.ids.sort()
    places = order[torch.searchsorted(ordered, train.ids[within])]
    if within.any():
        _refuse_other_inputs(train.subset(within), clean.subset(places))
    targets, facts = train.targets.clone(), {"is_clean": within}
    targets[within] = clean.targets[places].to(targets.dtype)
    if "is_corrupt" in train.columns:  # a clean target is not corrupt
        facts["is_corrupt"] = train.columns["is_corrupt"].bool() & ~within
    corrected = train.with_targets(targets, **facts)
    if not new.any():
        return corrected
    beside, yes = clean.subset(new), torch.ones_like(new)[new]
    given = beside.targets.to(targets.dtype)
    return join(corrected, beside.with_targets(given, is_clean=yes, is_corrupt=~yes, true_target=given))


def _refuse_other_inputs(train: Examples, clean: Examples) -> None:
    """Refuse sets with the same ids but other inputs; of streams the first few are compared."""
    count = len(train) if train.in_memory and clean.in_memory else min(FEW, len(train))
    rows = [torch.arange(count, device=train.ids.device)]
    ours, theirs = (next(iter(each.batches(rows))) for each in (train, replace(clean, normalise=train.normalise)))
    if ours.shape != theirs.shape or not torch.allclose(ours, theirs.to(ours.dtype), atol=1e-5):
        raise ThresherError(
            f"The clean set shares ids with the training set (such as id {int(train.ids[0])}) but has other inputs: "
            "give its examples ids of their own, by Examples(..., ids=...)."
        )
