"""The training step: the only place that reduces losses, differentiates them and moves parameters.

Order: views -> signals (on the first view) -> relabel -> batch rule -> mix -> training forward -> reduce -> step ->
average -> ledger. Every network's rules are asked before any network moves. Targets that an epoch's relabelling gave,
the lessons, are there from the beginning, so that signals and rules are about them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from thresher.engine.evidence import Evidence
from thresher.engine.learner import Learner, Taps
from thresher.engine.look import Batch, Look, Precision, Ways, autocast, look, read_all
from thresher.engine.optimizer import step_unless
from thresher.engine.partners import Beside, Blend
from thresher.engine.teacher import Teacher
from thresher.ledger import EpochRows, Note
from thresher.mix import MixFromSet
from thresher.recipe import Recipe
from thresher.rules.rule import Decision, ask, needs_of, signals_of
from thresher.schedules import Schedule
from thresher.signals import clean_agreement, features, gradient_norm


@dataclass(frozen=True)
class Now:
    """Where the run is: the epoch (from 0), how many there will be, the generator and the schedules' values."""

    epoch: int
    epochs: float
    generator: torch.Generator
    scalars: Mapping[Schedule, Tensor]


class Step:
    """One step of every network on one batch."""

    def __init__(
        self,
        recipe: Recipe,
        learners: Sequence[Learner],
        classes: int | None,
        precision: Precision,
        rows: Sequence[EpochRows],
        ways: Ways,
        batch: int,
        teacher: Teacher | None = None,
    ):
        self.ways = ways
        self.recipe, self.learners, self.classes, self.precision, self.rows = recipe, learners, classes, precision, rows
        self.relabel = recipe.relabel if recipe.relabel is not None and recipe.relabel.clock == "batch" else None
        self.wanted = signals_of((recipe.each_batch, self.relabel, recipe.mix))
        self.needs = needs_of((recipe.each_batch, self.relabel))
        self.teacher = teacher if "teacher" in self.needs | learners[0].objective.needs else None
        self.asks = recipe.each_batch is not None or self.relabel is not None
        self.mixes_within = recipe.mix is not None and not isinstance(recipe.mix, MixFromSet)
        self.weighs = recipe.each_batch is not None or recipe.each_epoch is not None
        own = next(learners[0].objective.parameters(), None)
        self.keeps_graph = self.relabel is not None or len(recipe.views) > 1 or own is not None
        device = next(learners[0].model.parameters()).device
        self.everyone = torch.ones(batch, device=device)
        self.even = self.everyone / batch
        self.skipped = [torch.zeros((), device=device) for _ in learners]

    def __call__(
        self,
        batch: Batch,
        epoch_weights: Sequence[Tensor] | None,
        now: Now,
        clean: Batch | None = None,
        beside: Beside | None = None,
        lessons: Sequence[Tensor] | None = None,
    ) -> None:
        mixes = self.mixes_within or beside is not None
        batches = [batch] * len(self.learners) if lessons is None else [replace(batch, targets=t) for t in lessons]
        views = [view(batch.inputs, now.generator) for view in self.recipe.views] or [batch.inputs]
        if clean is not None and self.recipe.views:  # seen as the examples are that signals are about
            clean = replace(clean, inputs=self.recipe.views[0](clean.inputs, now.generator))
        looks = [self._look(*own, views, now, clean, mixes) for own in zip(self.learners, batches, strict=True)]
        seen = [self._linked(place, looks, own, views, now) for place, own in enumerate(batches)]
        targets = [evidence.targets if self.relabel is None else self.relabel(evidence).detach() for evidence in seen]
        decisions = [self._decide(evidence) for evidence in seen]
        blend = self._blend(seen[0], beside, now)
        for place, learner in enumerate(self.learners):
            learner.remember(decisions[place].memory)
            weights = decisions[place].weights
            if epoch_weights is not None:
                weights = weights * epoch_weights[place]
            lesson = Lesson(looks[place], targets[place], weights.detach(), blend)
            self._learn(place, learner, lesson, views, batch)

    def _look(
        self, learner: Learner, batch: Batch, views: Sequence[Tensor], now: Now, clean: Batch | None, mixes: bool
    ) -> Look:
        facts: dict[str, Any] = {
            "classes": self.classes,
            "epoch": now.epoch,
            "epochs": now.epochs,
            "generator": now.generator,
        }
        facts |= {"scalars": now.scalars, "memory": learner.batch_memory, "ways": self.ways, "clean": clean}
        facts["teacher"] = self.teacher
        if not mixes:
            return look(
                learner.model,
                learner.objective,
                learner.taps,
                batch,
                wanted=self.wanted,
                views=views,
                precision=self.precision,
                keep_graph=self.keeps_graph,
                **facts,
            )
        if not self.asks:
            return _unseen(batch, learner, self.classes, now)
        with torch.set_grad_enabled(gradient_norm in self.wanted or clean_agreement in self.wanted):
            return look(
                learner.model, learner.objective, learner.taps, batch, wanted=self.wanted, views=views[:1],
                precision=self.precision, leave_no_trace=True, **facts,
            )  # fmt: skip

    def _linked(self, place: int, looks: Sequence[Look], batch: Batch, views: Sequence[Tensor], now: Now) -> Evidence:
        """The evidence of one network with the other evidence its rules read, and its signals computed."""
        learner, evidence = self.learners[place], looks[place].evidence
        others = dict(evidence.others)
        if "peer" in self.needs:
            others["peer"] = looks[(place + 1) % len(looks)].evidence
        if "average" in self.needs and learner.average is not None:
            with torch.no_grad():
                taps = learner.average_taps or Taps(learner.average)
                others["average"] = look(
                    learner.average, learner.objective, taps, batch, views=views[:1], precision=self.precision,
                    wanted=[features] if features in self.wanted else [], classes=self.classes,
                    epoch=now.epoch, epochs=now.epochs, generator=now.generator, scalars=now.scalars,
                ).evidence  # fmt: skip
        if others:
            evidence = evidence.but(others=others)
        read_all(evidence, self.wanted)
        return evidence

    def _blend(self, evidence: Evidence, beside: Beside | None, now: Now) -> Blend | None:
        """How the batch is mixed, within itself or with partners from the whole set; None where it is not."""
        mix = self.recipe.mix
        if isinstance(mix, MixFromSet):
            return None if beside is None else beside.seen_by(self.recipe.views, now.generator, mix.blends_targets)
        if mix is None:
            return None
        pairing = mix(evidence)
        return Blend(pairing.share, within=pairing)

    def _decide(self, evidence: Evidence) -> Decision:
        if self.recipe.each_batch is None:
            return Decision(self.everyone)
        return ask(self.recipe.each_batch, evidence)

    def _learn(self, place: int, learner: Learner, lesson: "Lesson", views: Sequence[Tensor], batch: Batch) -> None:
        evidence = lesson.look.evidence
        skip = None
        if self.weighs:
            skip = (lesson.weights.sum() == 0).float()
            self.skipped[place] += skip
        for group in learner.optimizer.param_groups:
            for parameter in group["params"]:
                parameter.grad = None
        if lesson.look.factors is not None and lesson.is_as_seen(self.recipe):
            self._differentiate_factored(learner, lesson, self._shares(lesson.weights))
        else:
            trained = self._train_forward(learner, lesson, views)
            weights = lesson.weights if lesson.blend is None else lesson.blend.of_weights(lesson.weights)
            shares = self._shares(weights) / len(trained) if len(trained) > 1 else self._shares(weights)
            torch.autograd.backward([shares.dot(each.losses) for each in trained])
            if lesson.blend is not None and not self.asks:
                evidence = trained[0]
        self._move(learner, skip)
        self.rows[place].add(self._note(batch, evidence, lesson.weights))

    def _shares(self, weights: Tensor) -> Tensor:
        """cᵢ such that the step's total is Σ cᵢ ℓᵢ: wᵢ / Σ w, or wᵢ / n."""
        if not self.weighs:
            return self.even
        if self.recipe.divide_by == "batch":
            return weights / len(weights)
        return weights / weights.sum().clamp_min(1e-12)

    def _differentiate_factored(self, learner: Learner, lesson: "Lesson", shares: Tensor) -> None:
        """The weighted gradient from the layer inputs and output gradients that already gave the norms."""
        assert lesson.look.factors is not None
        own = [parameter for parameter in learner.objective.parameters() if parameter.requires_grad]
        if own:
            gradients = torch.autograd.grad(shares.dot(lesson.look.evidence.losses), own)
            for parameter, gradient in zip(own, gradients, strict=True):
                parameter.grad = gradient
        lesson.look.factors.accumulate(shares)

    def _train_forward(self, learner: Learner, lesson: "Lesson", views: Sequence[Tensor]) -> list[Evidence]:
        """The evidence of each view that the losses come from: the look's own, or of a new pass over mixed inputs."""
        seen, targets, blend = lesson.look.evidence, lesson.targets, lesson.blend
        if blend is None:
            if len(views) == 1:
                return [seen if targets is seen.targets else seen.but(targets=targets)]
            outputs, layers = lesson.look.outputs, lesson.look.layers
        else:
            views = blend.of_inputs(views)
            with autocast(views[0].device, self.precision):
                outputs = learner.model(torch.cat(views)).float()
            layers = learner.taps.take()
            targets = blend.of_targets(targets, self.classes, lesson.weights if self.weighs else None)
            seen = seen.but(columns=blend.of_columns(seen.columns))
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

    def _move(self, learner: Learner, skip: Tensor | None) -> None:
        clip = self.recipe.clip
        if clip is not None:
            parameters = [p for group in learner.optimizer.param_groups for p in group["params"]]
            if callable(clip):
                clip(parameters)
            else:
                nn.utils.clip_grad_norm_(parameters, clip)
        if skip is None:
            learner.optimizer.step()
        else:
            step_unless(skip, learner.optimizer)
        learner.move_average(skip)

    def _note(self, batch: Batch, evidence: Evidence, weights: Tensor) -> Note:
        """What the ledger keeps: outputs, loss by the given target, weight, and the first signal that ranks."""
        known = evidence.known
        signal = next((known[s] for s in self.wanted if s in known and known[s].ndim == 1), None)
        given = evidence if evidence.targets is batch.targets else evidence.but(targets=batch.targets)
        return Note(batch.rows, evidence.outputs.detach(), given.losses.detach(), weights, signal)

    def sees_only_blends(self, with_partners: bool) -> bool:
        """Whether no forward pass sees an example as it is, in an epoch with or without partners from the set."""
        return (self.mixes_within or with_partners) and not self.asks

    def take_skipped(self) -> int:
        """How many steps were skipped since the last time, over all networks."""
        count = int(sum(skipped.item() for skipped in self.skipped))
        for skipped in self.skipped:
            skipped.zero_()
        return count


@dataclass(frozen=True)
class Lesson:
    """What one network learns from a batch: what it saw, the targets to learn, and how much each example counts."""

    look: Look
    targets: Tensor
    weights: Tensor
    blend: Blend | None

    def is_as_seen(self, recipe: Recipe) -> bool:
        """Whether the pass that gave the signals is also the one to learn from."""
        relabel = recipe.relabel
        return self.blend is None and len(recipe.views) <= 1 and (relabel is None or relabel.clock == "epoch")


def _unseen(batch: Batch, learner: Learner, classes: int | None, now: Now) -> Look:
    """Evidence about a batch that nobody has to look at before it is mixed."""
    empty = batch.inputs.new_empty(0)
    evidence = Evidence(
        ids=batch.ids,
        targets=batch.targets,
        objective=learner.objective,
        raw_outputs=empty,
        inputs=batch.inputs,
        columns=batch.columns,
        classes=classes,
        epoch=now.epoch,
        epochs=now.epochs,
        generator=now.generator,
    )
    return Look(evidence, empty, {}, None)
