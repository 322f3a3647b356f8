"""Sweeps: one pass over a whole set in evaluation mode, which leaves no trace."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from thresher.engine.evidence import Swept
from thresher.engine.learner import Taps, evaluating
from thresher.engine.look import Batch, Precision, look, read_all
from thresher.examples import Examples
from thresher.objectives import Objective
from thresher.seeding import preserved
from thresher.signals import Signal, gradient_norm


@dataclass(frozen=True)
class Sweeper:
    """How to sweep: how many examples at once, in which precision, with how many loading workers."""

    batch: int = 512
    precision: Precision = None
    workers: int = 0
    factored: bool = True

    def __call__(
        self,
        model: nn.Module,
        objective: Objective,
        examples: Examples,
        *,
        wanted: Sequence[Signal] = (),
        taps: Taps | None = None,
        positions: Tensor | None = None,
    ) -> Swept:
        """Outputs [n, ...] and the wanted signals of the examples (at these positions), in order."""
        device = examples.targets.device
        places = torch.arange(len(examples), device=device) if positions is None else positions
        rows = torch.split(places, self.batch)
        outputs: list[Tensor] = []
        values: dict[Signal, list[Tensor]] = {signal: [] for signal in wanted}
        with preserved(device), evaluating(model), torch.set_grad_enabled(gradient_norm in wanted):
            for row, inputs in zip(rows, examples.batches(rows, workers=self.workers), strict=True):
                batch = Batch(row, examples.ids[row], inputs, examples.targets[row], {})
                evidence = look(
                    model, objective, taps or Taps(model), batch, wanted=wanted, precision=self.precision,
                    factored=self.factored, classes=examples.classes,
                ).evidence  # fmt: skip
                read_all(evidence, wanted)
                outputs.append(evidence.outputs.detach())
                for signal in wanted:
                    values[signal].append(evidence.known[signal].detach())
        return Swept(torch.cat(outputs), {signal: torch.cat(value) for signal, value in values.items()})


def measure(outputs: Tensor, examples: Examples) -> dict[str, float]:
    """How good outputs are: accuracy and balanced accuracy, or R² (overall and of each target)."""
    if examples.is_regression:
        return _r_squared(outputs, examples.targets)
    right = (outputs.argmax(1) == examples.labels).double()
    classes, labels = examples.classes or 0, examples.labels
    totals = torch.zeros(classes, dtype=torch.float64, device=right.device).scatter_add(
        0, labels, torch.ones_like(right)
    )
    hits = torch.zeros(classes, dtype=torch.float64, device=right.device).scatter_add(0, labels, right)
    recalls = hits / totals.clamp_min(1)
    present = (totals > 0).double()
    balanced = (recalls * present).sum() / present.sum()
    return {"accuracy": float(right.mean()), "balanced_accuracy": float(balanced)}


def _r_squared(outputs: Tensor, targets: Tensor) -> dict[str, float]:
    """R² = 1 - Σ(y-ŷ)² / Σ(y-ȳ)² of each target, and their mean as `r2`."""
    outputs, targets = outputs.double(), targets.double()
    residual = (targets - outputs).square().sum(0)
    spread = (targets - targets.mean(0)).square().sum(0)
    each = (1 - residual / spread.clamp_min(torch.finfo(torch.float64).tiny)).tolist()
    scores: dict[str, Any] = {"r2": sum(each) / len(each)}
    if len(each) > 1:
        scores |= {f"r2_{place}": value for place, value in enumerate(each)}
    return scores


def metric_of(examples: Examples) -> str:
    """The name of the score: accuracy, or R² for real targets."""
    return "r2" if examples.is_regression else "accuracy"
