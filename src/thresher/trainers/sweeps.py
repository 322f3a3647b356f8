"""Rules of the epoch in a user's trainer: asked about the whole training set when its first batch comes."""

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from thresher.core.errors import ThresherError
from thresher.core.evidence import Evidence, Now, Prepared, prepared_as
from thresher.core.examples import Examples
from thresher.core.objective import Objective
from thresher.core.recipe import Recipe
from thresher.core.rule import RuleLike, columns_of, signals_of
from thresher.engine.loop.epoch import decide_epoch
from thresher.engine.loop.sweeper import Sweeper
from thresher.engine.start.gradient_trial import last_linear
from thresher.engine.step.learner import Taps
from thresher.engine.weigh import uncached


@dataclass
class Seen:
    """The network that a sweep looks at."""

    model: nn.Module
    objective: Objective
    taps: Taps
    epoch_memory: dict[str, Tensor]
    average: nn.Module | None = None
    average_taps: Taps | None = None


@dataclass
class EpochWeights:
    """The weights of all examples in one epoch, by id. Every process asks, and all get the same answer."""

    rule: RuleLike
    memory: dict[str, Tensor]
    ids: Tensor = field(default_factory=lambda: torch.empty(0))
    weights: Tensor = field(default_factory=lambda: torch.empty(0))

    def decide(
        self, model: nn.Module, evidence: Evidence, train: Examples, epoch: int, epochs: float, draws: torch.Generator
    ) -> None:
        """Sweep over the set in evaluation mode, without a trace in the model, and ask."""
        train, objective = train.to(evidence.ids.device).in_type_of(model), evidence.objective
        assert isinstance(objective, Objective)
        head = None
        if prepared_as(Prepared.LAST_INPUTS, signals_of(self.rule)):
            first = next(train.batches([torch.arange(2, device=evidence.ids.device)]))
            head = last_linear(model, first)
        taps = Taps(model, (), head)
        try:
            columns = {name: train.columns[name] for name in sorted(columns_of(self.rule))}
            now = Now(epoch, epochs, draws, {})
            with uncached(evidence.ids.device):
                made = decide_epoch(
                    Recipe(each_epoch=self.rule), [Seen(model, objective, taps, self.memory)], train, columns, None,
                    Sweeper(), now,
                )  # fmt: skip
        finally:
            taps.remove()
        found = made.weights(0)
        assert found is not None
        order = torch.argsort(train.ids)
        self.ids, self.weights = train.ids[order], found[order]

    def of(self, ids: Tensor) -> Tensor:
        """The weights of these examples [n]."""
        places = torch.searchsorted(self.ids, ids).clamp_max(len(self.ids) - 1)
        if not bool((self.ids[places] == ids).all()):
            raise ThresherError("A batch has ids that train= does not have: number both in the same way.")
        return self.weights[places]
