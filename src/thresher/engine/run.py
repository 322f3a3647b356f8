"""A run: what training leaves behind."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

from torch import Tensor, nn

from thresher.core.recipe import Recipe
from thresher.engine.store.checkpoint import Record
from thresher.record.ledger import Ledger


@dataclass(frozen=True)
class Run:
    """The trained networks, the history (one record an epoch) and the ledger."""

    recipe: Recipe
    models: Sequence[nn.Module]
    averages: Sequence[nn.Module]
    history: list[Record]
    ledger: Ledger
    out: Path | None = None
    stopped: bool = field(default=False)  # `until` was reached
    chosen: int | None = None  # the epoch that did best on the validation set, whose parameters were kept

    @property
    def model(self) -> nn.Module:
        return self.models[0]

    @property
    def scores(self) -> list[float]:
        """The score of every epoch on the test set: accuracy, or R²."""
        return [record["score"] for record in self.history if record["score"] is not None]

    def last(self, epochs: int = 10) -> float | None:
        """The mean score of the last epochs, which is what to compare: nobody can pick the best one in advance."""
        return fmean(self.scores[-epochs:]) if self.scores else None

    def best(self) -> float | None:
        """The score of the best epoch, chosen on the test set: only to be read beside `last`."""
        return max(self.scores) if self.scores else None

    def chosen_score(self) -> float | None:
        """The test score of the epoch whose parameters were kept because it did best on the validation set."""
        return None if self.chosen is None else self.history[self.chosen - 1]["score"]

    def clean_share(self, epochs: int = 10) -> float | None:
        """The share of clean targets among the examples kept in the last epochs, where the truth is known."""
        shares = [record["clean_share"] for record in self.history[-epochs:] if record["clean_share"] is not None]
        return fmean(shares) if shares else None

    def trust(self) -> tuple[Tensor, Tensor]:
        """(ids, trust): how far each example's given target was believed over the run, 0 to 1."""
        return self.ledger.trust()
