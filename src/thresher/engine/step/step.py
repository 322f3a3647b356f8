"""The training step: the only place that reduces losses, differentiates them and moves parameters.

Order: views -> signals (on the first view) -> relabel -> batch rule -> mix -> training forward -> reduce -> step ->
average -> ledger. Every network's rules are asked before any network moves. Targets that an epoch's relabelling gave
are there from the beginning, so that signals and rules are about them.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.autograd.graph import _engine_run_backward

from thresher.core.errors import note_stage
from thresher.core.evidence import Evidence, Now, Signal
from thresher.core.recipe import MixFromSet, Pairing, Recipe, seen_through
from thresher.core.rule import Decision, ask, in_epoch
from thresher.core.tasks import LABELS, POSITIONS, share_right
from thresher.core.trees import Tree
from thresher.engine.step.blend import Blend
from thresher.engine.step.forward import Batch, Pass, check_first_step
from thresher.engine.step.learner import Learner
from thresher.engine.step.passes import Passes
from thresher.record.epoch_rows import EpochRows, Note


class Step:
    """One step of every network on one batch."""

    def __init__(
        self,
        recipe: Recipe,
        passes: Passes,
        rows: Sequence[EpochRows],
        batch: int,
        clean_batch: int = 1,
    ):
        self.task = rows[0].examples.task
        self.recipe, self.passes, self.learners, self.rows = recipe, passes, passes.learners, rows
        self.relabel = recipe.relabel_on("batch")
        device = next(self.learners[0].model.parameters()).device
        self.sizes = (batch, clean_batch)
        self.equal_weights = torch.ones(batch, device=device)
        self.equal_shares = self.equal_weights / batch
        self.is_first = True  # of this process: it is looked at before any parameter moves
        self.skipped = [torch.zeros((), device=device) for _ in self.learners]

    def __call__(
        self,
        batch: Batch,
        batches: Sequence[Batch],
        epoch_weights: Sequence[Tensor] | None,
        now: Now,
        clean: Batch | None = None,
        partners: Batch | None = None,
        share: Tensor | None = None,
        wholes: Sequence[Batch] = (),
    ) -> None:
        """`batch` is as given, `batches` as each network gets it; `partners` are mixed in by 1 - `share`.

        Of several processes each gets its part of these, and `wholes`, which say of what batches; weights are of those
        (engine/step/shared.py).
        """
        views = self._views(batch.inputs, now) or [batch.inputs]
        if clean is not None and self.recipe.views:  # seen as the examples are that signals are about
            clean = replace(clean, inputs=self._views(clean.inputs, now, clean=True)[0])
        mixes = self._mixes_within(now.epoch) or partners is not None
        passes = self.passes.before_rules(batches, views, now, clean, mixes)
        seen = [each.evidence for each in passes]
        targets = [evidence.targets if self.relabel is None else self.relabel(evidence).detach() for evidence in seen]
        seen = self._of_all(seen, wholes)
        try:
            decisions = [self._decide(evidence) for evidence in seen]
        except Exception as error:
            note_stage(error, "each_batch")
            raise
        blend = self._blend(seen[0], partners, share, now)
        for place, learner in enumerate(self.learners):
            learner.remember(decisions[place].memory)
            weights = decisions[place].weights
            if epoch_weights is not None:
                weights = weights * epoch_weights[place]
            learnt = self._learn(place, passes[place], views, targets[place], weights.detach(), blend)
            self.rows[place].add(self._note(batch, learnt, weights.detach()))
        self.is_first = False

    def draws_as_one(self) -> bool:
        """Whether masks of dropout are drawn as in a single process."""
        return True

    def _of_all(self, seen: Sequence[Evidence], wholes: Sequence[Batch]) -> list[Evidence]:  # noqa: ARG002
        """What the rules are shown of these batches."""
        return list(seen)

    def _views(self, inputs: Tree, now: Now, clean: bool = False) -> list[Tree]:
        views = self.recipe.views[:1] if clean else self.recipe.views
        return [seen_through(view, inputs, now.generator) for view in views]

    def _decide(self, evidence: Evidence) -> Decision:
        if self.recipe.each_batch is None:
            return Decision(self.equal_weights)
        return ask(self.recipe.each_batch, evidence)

    def _blend(self, evidence: Evidence, partners: Batch | None, share: Tensor | None, now: Now) -> Blend | None:
        """How the batch is mixed, within itself or with partners from the whole set; None where it is not."""
        mix = in_epoch(now.epoch, self.recipe.mix)
        if isinstance(mix, MixFromSet):
            if partners is None or share is None:
                return None
            # Partners are augmented as the batch is, by draws of their own.
            inputs = self._views(partners.inputs, now) or [partners.inputs]
            return Blend(share, inputs=inputs, targets=partners.targets if mix.blends_targets else None)
        if mix is None:
            return None
        pairing = self._pairing(mix(evidence))
        return Blend(pairing.share, within=pairing)

    def _pairing(self, pairing: Pairing) -> Pairing:
        """How this process mixes, of a pairing for the whole batch."""
        return pairing

    def _learn(
        self, place: int, seen: Pass, views: Sequence[Tree], targets: Tensor, weights: Tensor, blend: Blend | None
    ) -> Evidence:
        """Differentiate and move one network; the evidence that the ledger is to note."""
        learner, evidence, skip = self.learners[place], seen.evidence, None
        if self.passes.weighs:
            skip = (weights.sum() == 0).float()
            self.skipped[place] += skip
        for group in learner.optimizer.param_groups:
            for parameter in group["params"]:
                parameter.grad = None
        as_seen = blend is None and len(views) == 1 and self.relabel is None and not learner.sharded
        if as_seen and seen.factors is not None:
            if self.is_first:
                check_first_step(learner.model, evidence, self._own(weights))
            self._differentiate_factored(learner, seen, self._own(self._shares(weights)))
        else:
            trained = self.passes.to_learn(learner, seen, views, targets, weights, blend)
            if self.is_first:
                check_first_step(learner.model, trained[0], self._own(weights))
            counted = weights if blend is None else blend.of_weights(weights)
            shares = self._own(self._shares(counted))
            shares = shares / len(trained) if len(trained) > 1 else shares
            _backward([each.losses for each in trained], shares)
            if (blend is not None and not self.passes.asks) or "view" in learner.objective.needs:
                evidence = trained[0]
        self._move(learner, skip)
        return evidence

    def _own(self, rows: Tensor) -> Tensor:
        """Of rows [batch] those of this process."""
        return rows

    def _shares(self, weights: Tensor) -> Tensor:
        """cᵢ such that the step's total is Σ cᵢ ℓᵢ: wᵢ / Σ w, or wᵢ / n."""
        if not self.passes.weighs:
            return self.equal_shares
        return shares_of(weights, self.recipe.divide_by)

    def _differentiate_factored(self, learner: Learner, seen: Pass, shares: Tensor) -> None:
        """The weighted gradient from the layer inputs and output gradients that already gave the norms."""
        assert seen.factors is not None
        own = [parameter for parameter in learner.objective.parameters() if parameter.requires_grad]
        if own:
            gradients = torch.autograd.grad(seen.evidence.losses, own, shares)
            for parameter, gradient in zip(own, gradients, strict=True):
                parameter.grad = gradient
        seen.factors.accumulate(shares)

    def _move(self, learner: Learner, skip: Tensor | None) -> None:
        clip = self.recipe.clip
        if clip is not None:
            parameters = [p for group in learner.optimizer.param_groups for p in group["params"]]
            if callable(clip):
                clip(parameters)
            else:
                nn.utils.clip_grad_norm_(parameters, clip)
        learner.move(skip)

    def _note(self, batch: Batch, evidence: Evidence, weights: Tensor) -> Note:
        given = evidence if evidence.targets is batch.targets else evidence.replace(targets=batch.targets)
        return note_of(batch.rows, evidence, given, self._own(weights), self.passes.wanted, self.task)

    def _mixes_within(self, epoch: int) -> bool:
        mix = in_epoch(epoch, self.recipe.mix)
        return mix is not None and not isinstance(mix, MixFromSet)

    def sees_only_blends(self, epoch: int, with_partners: bool) -> bool:
        """Whether no forward pass sees an example as it is, in an epoch with or without partners from the set."""
        return (self._mixes_within(epoch) or with_partners) and not self.passes.asks

    def take_skipped(self) -> int:
        """How many steps were skipped since the last time, over all networks."""
        count = int(sum(skipped.item() for skipped in self.skipped))
        for skipped in self.skipped:
            skipped.zero_()
        return count


def shares_of(weights: Tensor, divide_by: str) -> Tensor:
    """cᵢ such that a step's total is Σ cᵢ ℓᵢ: wᵢ / Σ w, or wᵢ / n.

    >>> shares_of(torch.tensor([3.0, 0.0, 1.0]), "weights").tolist()
    [0.75, 0.0, 0.25]
    """
    if divide_by == "batch":
        return weights / len(weights)
    return weights / weights.sum().clamp_min(1e-12)


def note_of(
    rows: Tensor, evidence: Evidence, given: Evidence, weights: Tensor, wanted: Sequence[Signal], task: str
) -> Note:
    """What the ledger keeps: outputs, loss by the `given` targets, weight, and the first signal that ranks."""
    known = evidence.known
    signal = next((known[s] for s in wanted if s in known and known[s].ndim == 1), None)
    outputs = evidence.outputs.detach()
    if task in (LABELS, POSITIONS):
        outputs = share_right(task, outputs, given.targets)[:, None]
    return Note(rows, outputs, given.losses.detach(), weights, signal)


def _backward(losses: Sequence[Tensor], shares: Tensor) -> None:
    """`torch.autograd.backward` of each with these gradients [n], without its check of sizes, which imports sympy."""
    given = (shares,) * len(losses)
    _engine_run_backward(tuple(losses), given, False, False, (), allow_unreachable=True, accumulate_grad=True)
