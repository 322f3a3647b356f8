"""The training step: the only place that reduces losses, differentiates them and moves parameters.

Order: views -> signals (on the first view) -> relabel -> batch rule -> mix -> training forward -> reduce -> step ->
average -> ledger. Every network's rules are asked before any network moves. Targets that an epoch's relabelling gave,
the lessons, are there from the beginning, so that signals and rules are about them.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from thresher.engine.evidence import Evidence, Now
from thresher.engine.learner import Learner
from thresher.engine.look import Batch
from thresher.engine.optimizer import step_unless
from thresher.engine.partners import Beside, Blend
from thresher.engine.seeing import Lesson, Seeing
from thresher.ledger import EpochRows, Note
from thresher.mix import MixFromSet, mix_in
from thresher.recipe import Recipe
from thresher.rules.rule import Decision, ask


class Step:
    """One step of every network on one batch."""

    def __init__(self, recipe: Recipe, seeing: Seeing, rows: Sequence[EpochRows], batch: int):
        self.recipe, self.seeing, self.learners, self.rows = recipe, seeing, seeing.learners, rows
        self.relabel = recipe.relabel_on("batch")
        device = next(self.learners[0].model.parameters()).device
        self.everyone = torch.ones(batch, device=device)
        self.even = self.everyone / batch
        self.skipped = [torch.zeros((), device=device) for _ in self.learners]

    def __call__(
        self,
        batch: Batch,
        batches: Sequence[Batch],
        epoch_weights: Sequence[Tensor] | None,
        now: Now,
        clean: Batch | None = None,
        beside: Beside | None = None,
    ) -> None:
        """`batch` is as given, `batches` as each network gets it."""
        views = [view(batch.inputs, now.generator) for view in self.recipe.views] or [batch.inputs]
        if clean is not None and self.recipe.views:  # seen as the examples are that signals are about
            clean = replace(clean, inputs=self.recipe.views[0](clean.inputs, now.generator))
        looks = self.seeing(batches, views, now, clean, self._mixes_within(now.epoch) or beside is not None)
        seen = [look.evidence for look in looks]
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

    def _decide(self, evidence: Evidence) -> Decision:
        if self.recipe.each_batch is None:
            return Decision(self.everyone)
        return ask(self.recipe.each_batch, evidence)

    def _blend(self, evidence: Evidence, beside: Beside | None, now: Now) -> Blend | None:
        """How the batch is mixed, within itself or with partners from the whole set; None where it is not."""
        mix = mix_in(now.epoch, self.recipe.mix)
        if isinstance(mix, MixFromSet):
            return None if beside is None else beside.seen_by(self.recipe.views, now.generator, mix.blends_targets)
        if mix is None:
            return None
        pairing = mix(evidence)
        return Blend(pairing.share, within=pairing)

    def _learn(self, place: int, learner: Learner, lesson: Lesson, views: Sequence[Tensor], batch: Batch) -> None:
        evidence = lesson.look.evidence
        skip = None
        if self.seeing.weighs:
            skip = (lesson.weights.sum() == 0).float()
            self.skipped[place] += skip
        for group in learner.optimizer.param_groups:
            for parameter in group["params"]:
                parameter.grad = None
        as_seen = lesson.blend is None and len(views) == 1 and self.relabel is None
        if as_seen and lesson.look.factors is not None:
            self._differentiate_factored(learner, lesson, self._shares(lesson.weights))
        else:
            trained = self.seeing.to_learn(learner, lesson, views)
            weights = lesson.weights if lesson.blend is None else lesson.blend.of_weights(lesson.weights)
            shares = self._shares(weights) / len(trained) if len(trained) > 1 else self._shares(weights)
            torch.autograd.backward([shares.dot(each.losses) for each in trained])
            if lesson.blend is not None and not self.seeing.asks:
                evidence = trained[0]
        self._move(learner, skip)
        self.rows[place].add(self._note(batch, evidence, lesson.weights))

    def _shares(self, weights: Tensor) -> Tensor:
        """cᵢ such that the step's total is Σ cᵢ ℓᵢ: wᵢ / Σ w, or wᵢ / n."""
        if not self.seeing.weighs:
            return self.even
        if self.recipe.divide_by == "batch":
            return weights / len(weights)
        return weights / weights.sum().clamp_min(1e-12)

    def _differentiate_factored(self, learner: Learner, lesson: Lesson, shares: Tensor) -> None:
        """The weighted gradient from the layer inputs and output gradients that already gave the norms."""
        assert lesson.look.factors is not None
        own = [parameter for parameter in learner.objective.parameters() if parameter.requires_grad]
        if own:
            gradients = torch.autograd.grad(shares.dot(lesson.look.evidence.losses), own)
            for parameter, gradient in zip(own, gradients, strict=True):
                parameter.grad = gradient
        lesson.look.factors.accumulate(shares)

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
        signal = next((known[s] for s in self.seeing.wanted if s in known and known[s].ndim == 1), None)
        given = evidence if evidence.targets is batch.targets else evidence.but(targets=batch.targets)
        return Note(batch.rows, evidence.outputs.detach(), given.losses.detach(), weights, signal)

    def _mixes_within(self, epoch: int) -> bool:
        mix = mix_in(epoch, self.recipe.mix)
        return mix is not None and not isinstance(mix, MixFromSet)

    def sees_only_blends(self, epoch: int, with_partners: bool) -> bool:
        """Whether no forward pass sees an example as it is, in an epoch with or without partners from the set."""
        return (self._mixes_within(epoch) or with_partners) and not self.seeing.asks

    def take_skipped(self) -> int:
        """How many steps were skipped since the last time, over all networks."""
        count = int(sum(skipped.item() for skipped in self.skipped))
        for skipped in self.skipped:
            skipped.zero_()
        return count
