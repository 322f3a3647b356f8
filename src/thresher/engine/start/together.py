"""The start of a training by several processes: what is refused, and how they come to share a network."""

from collections.abc import Sequence

import torch
from torch import nn

from thresher.core.errors import ThresherError
from thresher.core.objective import Objective
from thresher.core.recipe import Recipe
from thresher.core.rule import needs_of
from thresher.core.seeding import preserved
from thresher.core.trees import Tree, leaves
from thresher.engine.gradients.strategy import Factored
from thresher.engine.gradients.unfactored import direction_of, trained_parameters
from thresher.engine.several.gather import see_whole_batch
from thresher.engine.several.ranks import Ranks
from thresher.engine.start.checks import Tried
from thresher.engine.step.forward import untraced
from thresher.engine.step.learner import Learner


def check_several(ranks: Ranks, recipe: Recipe, objective: Objective, models: Sequence[nn.Module], batch: int) -> None:
    """Refuse what several processes cannot do as one would, and give all of them the first one's parameters."""
    if batch < ranks.count:
        raise ThresherError(f"batch={batch} cannot be shared by {ranks.count} processes: give at least {ranks.count}.")
    if "view" in needs_of((recipe, objective)):
        raise ThresherError(
            f"{type(objective).__name__} compares all views of a batch, whose gradients several processes do not "
            "exchange: learn it in one process."
        )
    for model in models:
        ranks.like_first(model)


def check_sharded(tried: Tried) -> None:
    """Refuse derivatives of single examples that need all parameters of a network at once."""
    for strategy in (tried.in_step, tried.in_sweep):
        if strategy is not None and (strategy.agreements or not isinstance(strategy, Factored)):
            signal = (*strategy.agreements, *strategy.norms)[0]
            raise ThresherError(
                f"{signal.name} is not exact where parameters are sharded, unless it comes from layers with a formula: "
                "leave sharded= out, or rank by loss or output_gradient_norm."
            )


def share_learner(ranks: Ranks, learner: Learner, inputs: Tree, batch: int, reduced: bool) -> None:
    """Let a learner see whole batches where its objective does, and add up gradients over processes.

    Where they come by an ordinary backward pass (`reduced`), DDP does that while it goes on; where they come from the
    layers, which its hooks do not see, they are added up once they are there.
    """
    if learner.objective.of_batch:
        learner.adapters += see_whole_batch(ranks, learner.objective, batch)
    if reduced and not ranks.sharded:
        learner.through = ranks.reducing(learner.model, _has_unused(learner.model, inputs))


def _has_unused(model: nn.Module, inputs: Tree) -> bool:
    """Whether outputs depend on fewer parameters than are trained, for which DDP would wait."""
    trained = trained_parameters(model)
    with preserved(leaves(inputs)[0].device), torch.enable_grad():
        return len(direction_of(trained, untraced(model, inputs))) < len(trained)
