"""Active learning as one would write it on a blackboard."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from thresher import Examples, Recipe, acquire, fit
from thresher.core.seeding import derive, generator
from thresher.rules import RuleLike


def loop(
    recipe: Recipe,
    model: Callable[[], nn.Module],
    pool: Examples,
    test: Examples,
    rule: RuleLike,
    *,
    start: int,
    rounds: int,
    seed: int,
    **settings: Any,
) -> tuple[list[list[int]], list[float]]:
    """The ids bought in each round, and the accuracy on the test set after each training."""
    order = torch.randperm(len(pool), generator=generator(seed, "start"))
    bought, scores = [[int(pool.ids[place]) for place in order[:start]]], []
    for number in range(rounds + 1):
        known = {id_ for ids in bought for id_ in ids}
        mine = [place for place, id_ in enumerate(pool.ids.tolist()) if id_ in known]
        rest = [place for place in range(len(pool)) if place not in mine]
        run = fit(recipe, model, pool.subset(mine), seed=derive(seed, "round", number), **settings)
        with torch.no_grad():
            right = run.model.eval()(test.inputs).argmax(1) == test.targets
        scores.append(float(right.double().mean()))
        if number < rounds:
            average = run.averages[0] if run.averages else None
            picked = acquire(
                rule, run.model, pool.subset(rest), labelled=pool.subset(mine), average=average,
                seed=derive(seed, "picks", number),
            )  # fmt: skip
            bought.append(picked.tolist())
    return bought, scores
