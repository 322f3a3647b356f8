"""What the networks see of a batch: before any of them moves, for signals and rules, and then to learn from."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from thresher.engine.evidence import Evidence, Now
from thresher.engine.learner import Learner, Taps
from thresher.engine.look import Batch, Look, Precision, Ways, autocast, look, read_all
from thresher.engine.partners import Blend
from thresher.engine.teacher import Teacher
from thresher.recipe import Recipe
from thresher.rules.rule import needs_of, signals_of
from thresher.signals import clean_agreement, features, gradient_norm


@dataclass(frozen=True)
class Lesson:
    """What one network learns from a batch: what it saw, the targets to learn, and how much each example counts."""

    look: Look
    targets: Tensor
    weights: Tensor
    blend: Blend | None


class Seeing:
    """How the networks of a recipe look at batches: which signals and whose other evidence its batch rules read."""

    def __init__(
        self,
        recipe: Recipe,
        learners: Sequence[Learner],
        classes: int | None,
        precision: Precision,
        ways: Ways,
        teacher: Teacher | None,
    ):
        self.learners, self.classes, self.precision, self.ways = learners, classes, precision, ways
        relabel = recipe.relabel_on("batch")
        asked = (recipe.each_batch, relabel)
        self.asks = any(part is not None for part in asked)
        self.weighs = recipe.each_batch is not None or recipe.each_epoch is not None
        self.wanted, self.needs = signals_of((*asked, recipe.mix)), needs_of(asked)
        self.teacher = teacher if "teacher" in self.needs | learners[0].objective.needs else None
        inside = {gradient_norm, clean_agreement, features} & set(self.wanted)
        self.looks_inside = bool(learners[0].objective.layers) or (bool(inside) and recipe.mix is None)
        own = next(learners[0].objective.parameters(), None)
        self.keeps_graph = relabel is not None or len(recipe.views) > 1 or own is not None

    def __call__(
        self, batches: Sequence[Batch], views: Sequence[Tensor], now: Now, clean: Batch | None, mixes: bool
    ) -> list[Look]:
        """For each network its look at its batch, with the other evidence its rules read and the signals computed."""
        looks = [self._look(*own, views, now, clean, mixes) for own in zip(self.learners, batches, strict=True)]
        seen = [
            self._with_average(learner, own.evidence, batch, views[:1], now)
            for learner, own, batch in zip(self.learners, looks, batches, strict=True)
        ]
        if "peer" in self.needs:
            others = [seen[(place + 1) % len(seen)] for place in range(len(seen))]
            seen = [own.but(others={**own.others, "peer": peer}) for own, peer in zip(seen, others, strict=True)]
        for evidence in seen:
            read_all(evidence, self.wanted)
        return [replace(own, evidence=evidence) for own, evidence in zip(looks, seen, strict=True)]

    def _look(
        self, learner: Learner, batch: Batch, views: Sequence[Tensor], now: Now, clean: Batch | None, mixes: bool
    ) -> Look:
        """A look to learn from; where the batch will be mixed, one for the rules alone, if any are asked."""
        if mixes and not self.asks:
            return self._unseen(learner, batch, now)
        how: dict[str, Any] = {"views": views, "keep_graph": self.keeps_graph}
        if mixes:
            how = {"views": views[:1], "leave_no_trace": True}
        with torch.set_grad_enabled(not mixes or gradient_norm in self.wanted or clean_agreement in self.wanted):
            return look(
                learner.model, learner.objective, learner.taps, batch, wanted=self.wanted, precision=self.precision,
                ways=self.ways, clean=clean, teacher=self.teacher, classes=self.classes,
                memory=learner.batch_memory, **how, **vars(now),
            )  # fmt: skip

    def _unseen(self, learner: Learner, batch: Batch, now: Now) -> Look:
        """Evidence about a batch that nobody has to look at before it is mixed."""
        empty = batch.inputs.new_empty(0)
        evidence = Evidence(
            ids=batch.ids, targets=batch.targets, objective=learner.objective, raw_outputs=empty, inputs=batch.inputs,
            columns=batch.columns, classes=self.classes, **vars(now),
        )  # fmt: skip
        return Look(evidence, empty, {}, None)

    def _with_average(
        self, learner: Learner, evidence: Evidence, batch: Batch, views: Sequence[Tensor], now: Now
    ) -> Evidence:
        """Evidence beside which the average's is, where rules read that."""
        if "average" not in self.needs or learner.average is None:
            return evidence
        with torch.no_grad():
            average = look(
                learner.average, learner.objective, learner.average_taps or Taps(learner.average), batch,
                views=views, precision=self.precision, classes=self.classes,
                wanted=[features] if features in self.wanted else [], **vars(now),
            ).evidence  # fmt: skip
        return evidence.but(others={**evidence.others, "average": average})

    def to_learn(self, learner: Learner, lesson: Lesson, views: Sequence[Tensor]) -> list[Evidence]:
        """The evidence of each view that the losses come from: the look's own, or of a new pass over mixed inputs."""
        seen, targets, blend = lesson.look.evidence, lesson.targets, lesson.blend
        if blend is None:
            if len(views) == 1:
                return [seen if targets is seen.targets else seen.but(targets=targets)]
            outputs, layers = lesson.look.outputs, lesson.look.layers
        else:
            views = blend.of_inputs(views)
            with autocast(views[0].device, self.precision), learner.taps.watching():
                outputs = learner.model(torch.cat(views)).float()
            layers = learner.taps.take()
            targets = blend.of_targets(targets, self.classes, lesson.weights if self.weighs else None)
            seen = seen.but(columns=blend.of_columns(seen.columns, self.classes))
        trained = []
        for place, part in enumerate(outputs.chunk(len(views))):
            kept = {name: value.chunk(len(views))[place] for name, value in layers.items()}
            each = seen.but(raw_outputs=part, targets=targets, inputs=views[place], layers=kept, known={})
            trained.append(self._with_teacher(each))
        return trained

    def _with_teacher(self, evidence: Evidence) -> Evidence:
        if self.teacher is None:
            return evidence
        with autocast(evidence.ids.device, self.precision):
            return evidence.but(others={**evidence.others, "teacher": self.teacher(evidence)})
