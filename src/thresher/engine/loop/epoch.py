"""Decisions before the first step of an epoch, from evidence about whole sets, which is swept when first read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from thresher.core.errors import ThresherError
from thresher.core.evidence import Evidence, Now
from thresher.core.examples import Examples
from thresher.core.objective import Objective
from thresher.core.recipe import Recipe, Relabel
from thresher.core.rule import Decision, RuleLike, ask, needs_of, signals_of
from thresher.core.signals import features
from thresher.core.targets import one_hot_if_ids
from thresher.data.features import FEATURES
from thresher.engine.loop.rounds import decided_in_parts, parts_for, size_of_each
from thresher.engine.loop.sweeper import Sweeper
from thresher.engine.step.learner import Taps
from thresher.engine.step.passes import with_peers
from thresher.engine.step.teacher import Teacher


class Seen(Protocol):
    """What a sweep needs of a network: a learner, or one that another trainer has."""

    model: nn.Module
    objective: Objective
    taps: Taps
    average: nn.Module | None
    average_taps: Taps | None
    epoch_memory: dict[str, Tensor]


@dataclass(frozen=True)
class EpochDecisions:
    """For each network the evidence, what the epoch's rule decided, and the targets to learn if they are new."""

    evidence: Sequence[Evidence | None]  # None where no one saw all of it
    decisions: Sequence[Decision] | None
    new_targets: Sequence[Tensor] | None

    def weights(self, place: int) -> Tensor | None:
        """How much each example counts for this network, where a rule decided that."""
        return None if self.decisions is None else self.decisions[place].weights

    def columns(self, place: int, classes: int | None) -> dict[str, np.ndarray[Any, Any]]:
        """What the ledger keeps of this network's decisions, beside the weights."""
        found = {} if self.decisions is None else dict(self.decisions[place].columns)
        if self.new_targets is not None and classes is not None:
            found["taught"] = self.new_targets[place].argmax(1).int()
        return {name: value.cpu().numpy() for name, value in found.items()}


def decide_epoch(
    recipe: Recipe,
    learners: Sequence[Seen],
    train: Examples,
    columns: Mapping[str, Tensor],
    validation: Examples | None,
    sweeper: Sweeper,
    now: Now,
) -> EpochDecisions:
    """Ask the rule of the epoch, and then the relabelling, about the whole set."""
    relabel = recipe.relabel_on("epoch")
    asked = (recipe.each_epoch, relabel)
    evidence = [epoch_evidence(asked, learner, train, columns, validation, sweeper, now) for learner in learners]
    if "peer" in needs_of(asked):
        evidence = with_peers(evidence)
    in_parts = None if relabel is not None else _in_parts(recipe, learners, train, columns, evidence, sweeper, now)
    if in_parts is not None:
        _checked(in_parts, learners)
        return EpochDecisions([None] * len(learners), in_parts, None)
    decisions = None if recipe.each_epoch is None else _decide(recipe.each_epoch, learners, evidence)
    new_targets = None
    if relabel is not None:
        given = [{}] * len(evidence) if decisions is None else [decision.columns for decision in decisions]
        seen = [each.replace(columns={**each.columns, **own}) for each, own in zip(evidence, given, strict=True)]
        new_targets = [one_hot_if_ids(relabel(each), train.classes).detach() for each in seen]
    return EpochDecisions(evidence, decisions, new_targets)


def _decide(rule: RuleLike, learners: Sequence[Seen], evidence: Sequence[Evidence]) -> list[Decision]:
    decisions = [ask(rule, each) for each in evidence]
    _checked(decisions, learners)
    return decisions


def _checked(decisions: Sequence[Decision], learners: Sequence[Seen]) -> None:
    for learner, decision in zip(learners, decisions, strict=True):
        if not (decision.weights.isfinite() & (decision.weights >= 0)).all():
            raise ThresherError("The epoch rule gave negative or NaN weights: let it give finite, non-negative ones.")
        learner.epoch_memory.update(decision.memory)


def _in_parts(
    recipe: Recipe,
    learners: Sequence[Seen],
    train: Examples,
    columns: Mapping[str, Tensor],
    whole: Sequence[Evidence],
    sweeper: Sweeper,
    now: Now,
) -> list[Decision] | None:
    """What each network's rule decides in parts, where evidence about all would be more than fits; else None."""
    rule, ranks = recipe.each_epoch, None if sweeper.shards is None else sweeper.shards.ranks
    if needs_of(rule) - {"average"}:
        return None
    alone = replace(sweeper, shards=None, captured=False)
    decisions = []
    for learner, evidence in zip(learners, whole, strict=True):

        def of_part(positions: Tensor, learner: Seen = learner) -> Evidence:
            part = {name: column[positions] for name, column in columns.items()}
            return epoch_evidence((rule, None), learner, train.subset(positions), part, None, alone, now)

        some = of_part(torch.arange(min(2, len(train)), device=train.ids.device))
        size = partial(sweeper.size_of_each, (id(learner.model), *signals_of(rule)), partial(size_of_each, some))
        found = parts_for(rule, evidence, size, sweeper.signals_at_once, ranks, now.generator)
        if found is None:
            return None
        decisions.append(decided_in_parts(*found, of_part, some, signals_of(rule), train.ids))
    return decisions


def epoch_evidence(
    asked: tuple[RuleLike | None, Relabel | None],
    learner: Seen,
    train: Examples,
    columns: Mapping[str, Tensor],
    validation: Examples | None,
    sweeper: Sweeper,
    now: Now,
) -> Evidence:
    """Evidence about the training set by one network, with that by its average, its teacher and of the validation set.

    Features that the training set brings, in its column of this name, stand for those of the networks.
    Of the validation set there is the same again: `evidence.other("validation").other("teacher")`.
    """
    wanted, needs = signals_of(asked), needs_of(asked)
    brought = {features: train.columns[FEATURES].float()} if FEATURES in train.columns and features in wanted else {}
    if brought:
        wanted.remove(features)

    def about(examples: Examples, columns: Mapping[str, Tensor], model: nn.Module, taps: Taps | None) -> Evidence:
        return Evidence(
            ids=examples.ids,
            targets=examples.targets,
            objective=learner.objective,
            raw_outputs=lambda: sweeper(model, learner.objective, examples, wanted=wanted, taps=taps),
            classes=examples.classes,
            columns=columns,
            memory=learner.epoch_memory,
            known=dict(brought) if examples is train else {},
            **vars(now),
        )

    def linked(examples: Examples, columns: Mapping[str, Tensor]) -> Evidence:
        evidence, others = about(examples, columns, learner.model, learner.taps), {}
        if "average" in needs and learner.average is not None:
            others["average"] = about(examples, columns, learner.average, learner.average_taps)
        if "teacher" in needs:
            others["teacher"] = Teacher()(evidence.replace(columns=examples.columns))
        return evidence.replace(others=others)

    evidence = linked(train, columns)
    if validation is not None and "validation" in needs:
        known = linked(validation, validation.columns)
        evidence = evidence.replace(others={**evidence.others, "validation": known})
    return evidence
