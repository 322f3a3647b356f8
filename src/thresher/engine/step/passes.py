"""How the networks of a recipe look at a batch: for the rules, and for the losses to learn from."""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from thresher.core.evidence import Evidence, Now, looks_at_head
from thresher.core.recipe import Recipe
from thresher.core.rule import needs_of, signals_of
from thresher.core.trees import Tree, call, concatenated
from thresher.engine.device.placement import Autocast
from thresher.engine.gradients.strategy import Strategy, Unfactored
from thresher.engine.several.gather import CleanOfAll
from thresher.engine.step.blend import Blend
from thresher.engine.step.carried import Carried, NotCarried
from thresher.engine.step.forward import Batch, Pass, forward_pass, read_all
from thresher.engine.step.learner import Learner, Taps
from thresher.engine.step.teacher import Teacher


def with_peers(seen: Sequence[Evidence]) -> list[Evidence]:
    """Each network's evidence, with that of the next one as its peer's."""
    others = [*seen[1:], seen[0]]
    return [own.replace(others={**own.others, "peer": peer}) for own, peer in zip(seen, others, strict=True)]


class Passes:
    """How the networks of a recipe look at batches: which signals and whose other evidence its batch rules read."""

    def __init__(
        self,
        recipe: Recipe,
        learners: Sequence[Learner],
        classes: int | None,
        autocast: Autocast,
        strategy: Strategy | None,
        teacher: Teacher | None,
        of_clean: CleanOfAll | None = None,
    ):
        self.learners, self.classes, self.autocast, self.strategy = learners, classes, autocast, strategy
        self.of_clean = of_clean
        relabel = recipe.relabel_on("batch")
        asked = (recipe.each_batch, relabel)
        self.asks = any(part is not None for part in asked)
        self.weighs = recipe.each_batch is not None or recipe.each_epoch is not None
        self.wanted, self.needs = signals_of((*asked, recipe.mix)), needs_of(asked)
        self.of_head = tuple(signal for signal in self.wanted if looks_at_head([signal]))
        self.teacher = teacher if "teacher" in self.needs | learners[0].objective.needs else None
        inside = strategy is not None or bool(self.of_head)
        looks_inside = bool(learners[0].objective.layers) or (inside and recipe.mix is None)
        self.carried = None if of_clean is not None or recipe.mix is not None else self._carried()
        self.compilable = not looks_inside or self.carried is not None
        own = next(learners[0].objective.parameters(), None)
        sharded = learners[0].sharded  # then gradients of shards come from an ordinary backward pass
        self.keeps_graph = relabel is not None or len(recipe.views) > 1 or own is not None or sharded

    def compile(self) -> None:
        """Let the training pass carry what the strategy takes by a pass of its own, as a compiled one can."""
        self.strategy = self.carried or self.strategy

    def _carried(self) -> Carried | None:
        """What may stand for the strategy in compiled passes, where nothing else looks into them."""
        given, inside = self.strategy, self.of_head or self.learners[0].objective.layers
        if not isinstance(given, Unfactored) or given.norms or not given.forward_mode or inside:
            return None
        return Carried(agreements=given.agreements)

    def before_rules(
        self, batches: Sequence[Batch], views: Sequence[Tree], now: Now, clean: Batch | None, mixes: bool
    ) -> list[Pass]:
        """For each network its pass over its batch, with the other evidence its rules read and the signals computed."""
        passes = [self._pass(*own, views, now, clean, mixes) for own in zip(self.learners, batches, strict=True)]
        seen = [
            self._with_average(learner, own.evidence, batch, views[:1], now)
            for learner, own, batch in zip(self.learners, passes, batches, strict=True)
        ]
        if "peer" in self.needs:
            seen = with_peers(seen)
        for evidence in seen:
            read_all(evidence, self.wanted)
        return [
            own if own.evidence is evidence else replace(own, evidence=evidence)
            for own, evidence in zip(passes, seen, strict=True)
        ]

    def _pass(
        self, learner: Learner, batch: Batch, views: Sequence[Tree], now: Now, clean: Batch | None, mixes: bool
    ) -> Pass:
        """A pass to learn from; where the batch will be mixed, one for the rules alone, if any are asked."""
        if mixes and not self.asks:
            return self._unseen(learner, batch, now)
        how: dict[str, Any] = {"views": views, "keep_graph": self.keeps_graph}
        if mixes:
            how = {"views": views[:1], "leave_no_trace": True}
        elif self.strategy is None:
            how["through"] = learner.through
        how |= {"wanted": self.wanted, "autocast": self.autocast, "clean": clean, "teacher": self.teacher}
        how |= {"classes": self.classes, "memory": learner.batch_memory, "of_clean": self.of_clean, **vars(now)}
        of_learner = (learner.model, learner.objective, learner.taps, batch)
        with torch.set_grad_enabled(not mixes or self.strategy is not None):
            try:
                return forward_pass(*of_learner, strategy=self.strategy, **how)
            except NotCarried as error:
                warnings.warn(f"The training pass is not compiled: {error}.", stacklevel=2)
                assert self.strategy is not None
                self.strategy = Unfactored(agreements=self.strategy.agreements)
                return forward_pass(*of_learner, strategy=self.strategy, **how)

    def _unseen(self, learner: Learner, batch: Batch, now: Now) -> Pass:
        """Evidence about a batch that no rule looks at before it is mixed."""
        empty = torch.empty(0, device=batch.ids.device)
        evidence = Evidence(
            ids=batch.ids, targets=batch.targets, objective=learner.objective, raw_outputs=empty, inputs=batch.inputs,
            columns=batch.columns, classes=self.classes, **vars(now),
        )  # fmt: skip
        return Pass(evidence, empty, {}, None)

    def _with_average(
        self, learner: Learner, evidence: Evidence, batch: Batch, views: Sequence[Tree], now: Now
    ) -> Evidence:
        """Evidence with the average's beside it, where rules read that."""
        if "average" not in self.needs or learner.average is None:
            return evidence
        with torch.no_grad():
            average = forward_pass(
                learner.average, learner.objective, learner.average_taps or Taps(learner.average), batch,
                views=views, autocast=self.autocast, classes=self.classes, wanted=self.of_head, **vars(now),
            ).evidence  # fmt: skip
        return evidence.replace(others={**evidence.others, "average": average})

    def to_learn(
        self,
        learner: Learner,
        seen: Pass,
        views: Sequence[Tree],
        targets: Tensor,
        weights: Tensor,
        blend: Blend | None,
    ) -> list[Evidence]:
        """The evidence of each view that the losses come from: the pass's own, or of a new pass over mixed inputs."""
        evidence = seen.evidence
        if blend is None:
            if len(views) == 1:
                return [evidence if targets is evidence.targets else evidence.replace(targets=targets)]
            outputs, layers = seen.outputs, seen.layers
        else:
            views = blend.of_inputs(views)
            with self.autocast(), learner.taps.watching():
                outputs = call(learner.model, concatenated(views), through=learner.through).float()
            layers = learner.taps.take()
            targets = blend.of_targets(targets, self.classes, weights if self.weighs else None)
            evidence = evidence.replace(columns=blend.of_columns(evidence.columns, self.classes))
        trained = []
        for place, part in enumerate(outputs.chunk(len(views))):
            kept = {name: value.chunk(len(views))[place] for name, value in layers.items()}
            each = evidence.replace(raw_outputs=part, targets=targets, inputs=views[place], layers=kept, known={})
            trained.append(self._with_teacher(each))
        if "view" in learner.objective.needs:
            following = [*trained[1:], trained[0]]
            pairs = zip(trained, following, strict=True)
            trained = [each.replace(others={**each.others, "view": other}) for each, other in pairs]
        return trained

    def _with_teacher(self, evidence: Evidence) -> Evidence:
        if self.teacher is None:
            return evidence
        with self.autocast():
            return evidence.replace(others={**evidence.others, "teacher": self.teacher(evidence)})
