"""A step that several processes take together: each sees its part of a batch, and all decide about the whole."""

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from torch import Tensor

from thresher.core.evidence import Evidence, Now
from thresher.core.recipe import Pairing
from thresher.core.trees import Tree
from thresher.engine.several.draws import PartOfDraws, PartOfDropout, drops_out
from thresher.engine.several.gather import SharedPairing, whole_evidence
from thresher.engine.several.ranks import Ranks
from thresher.engine.step.forward import Batch
from thresher.engine.step.learner import Learner
from thresher.engine.step.passes import with_peers
from thresher.engine.step.step import Step


class SharedStep(Step):
    """One step of every network on this process's part of a batch."""

    def __init__(self, *given: Any, ranks: Ranks, **more: Any):
        super().__init__(*given, **more)
        self.ranks = ranks
        self.drops = any(drops_out(learner.model) for learner in self.learners)

    def __call__(self, *given: Any, **more: Any) -> None:
        with PartOfDropout(self.ranks, self.sizes) if self.draws_as_one() else nullcontext():
            super().__call__(*given, **more)

    def draws_as_one(self) -> bool:
        """Whether dropout draws masks here; on CUDA and where compiled, a kernel of its own draws and uses them."""
        compiled = any(learner.model._compiled_call_impl is not None for learner in self.learners)
        return self.drops and self.ranks.device.type == "cpu" and not compiled

    def _of_all(self, seen: Sequence[Evidence], wholes: Sequence[Batch]) -> list[Evidence]:
        """What all processes have seen of their batches, for rules that are to decide the same everywhere."""
        if not self.passes.asks and self.recipe.mix is None:
            return list(seen)
        whole = [whole_evidence(self.ranks, own, batch) for own, batch in zip(seen, wholes, strict=True)]
        return with_peers(whole) if "peer" in self.passes.needs else whole

    def _views(self, inputs: Tree, now: Now, clean: bool = False) -> list[Tree]:
        with PartOfDraws(self.ranks, self.sizes[clean], now.generator):
            return super()._views(inputs, now, clean)

    def _pairing(self, pairing: Pairing) -> Pairing:
        return SharedPairing(pairing.partner, pairing.share, ranks=self.ranks)

    def _own(self, rows: Tensor) -> Tensor:
        return self.ranks.own(rows)

    def _move(self, learner: Learner, skip: Tensor | None) -> None:
        learner.add_up_gradients(self.ranks)
        super()._move(learner, skip)
