"""Sweeps: one pass over a whole set in evaluation mode, which leaves no trace."""

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from thresher.core.calls import one_output
from thresher.core.evidence import Signal, Swept
from thresher.core.examples import Examples
from thresher.core.objective import Objective
from thresher.core.seeding import preserved
from thresher.core.tasks import LABELS, POSITIONS, REAL, right_labels, summary
from thresher.core.trees import Tree
from thresher.engine.device.capture import Captured
from thresher.engine.device.compile import as_written
from thresher.engine.device.placement import Autocast
from thresher.engine.gradients.strategy import Strategy
from thresher.engine.loop.batches import BatchSource
from thresher.engine.step.forward import forward_pass, read_all
from thresher.engine.step.learner import Taps, evaluating
from thresher.engine.step.teacher import TEACHER_OUTPUT, Teacher

LEAST_SPREAD = 1e-30  # of targets, so that every score is a number that files can hold


@dataclass(frozen=True)
class Sweeper:
    """How to sweep: how many examples at once, in which precision, with how many loading workers, captured or not."""

    batch: int = 512
    autocast: Autocast = nullcontext
    workers: int = 0
    strategy: Strategy | None = None
    captured: bool = False
    channels_last: bool = False
    teacher: Teacher | None = None  # for objectives that ask it
    captures: dict[Any, Captured] = field(default_factory=dict, repr=False)

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
        """Outputs [n, ...] and the wanted signals of the examples (at these positions), in order.

        Of classes at every token or pixel only a summary [n, 3] is kept.
        """
        found: list[list[Tensor]] = []
        self.each(found.append, model, objective, examples, wanted=wanted, taps=taps, positions=positions)
        outputs, *values = (torch.cat(column) for column in zip(*found, strict=True))
        return Swept(outputs, dict(zip(wanted, values, strict=True)))

    def each(
        self,
        take: Callable[[list[Tensor]], object],
        model: nn.Module,
        objective: Objective,
        examples: Examples,
        *,
        wanted: Sequence[Signal] = (),
        taps: Taps | None = None,
        positions: Tensor | None = None,
        by_prediction: bool = False,
    ) -> None:
        """Hand over outputs and wanted signals of a few examples at a time, in order."""
        device = examples.targets.device
        places = torch.arange(len(examples), device=device) if positions is None else positions
        n = len(places)
        if self.captured and examples.in_memory:  # every row has the one shape that was captured
            places = torch.cat([places, places[:1].expand(-n % self.batch)])
        rows = torch.split(places, self.batch)
        taps = taps or Taps(model)
        strategy = self.strategy if self.strategy is not None and set(self.strategy.norms) & set(wanted) else None
        teacher = self.teacher if wanted and "teacher" in objective.needs else None
        read = objective.columns if teacher is None else objective.columns | {TEACHER_OUTPUT}
        source = BatchSource(examples, sorted(read) if wanted else (), self.channels_last)

        def see(index: Tensor, inputs: Tree | None) -> list[Tensor]:
            batch = source.batch(index, index, inputs)
            evidence = forward_pass(
                model, objective, taps, batch, wanted=wanted, autocast=self.autocast,
                by_prediction=by_prediction, strategy=strategy, classes=examples.classes, teacher=teacher,
            ).evidence  # fmt: skip
            read_all(evidence, wanted)
            outputs = evidence.outputs.detach()
            one = one_output(outputs, examples.task, examples.classes)
            outputs = outputs if one is None else one(outputs)
            kept = summary(outputs, batch.targets) if examples.task == POSITIONS else outputs
            return [kept, *(evidence.known[signal].detach() for signal in wanted)]

        grad = torch.set_grad_enabled(strategy is not None)
        with preserved(device), evaluating(model), evaluating(objective), as_written(), grad:
            stream = [None] * len(rows) if examples.in_memory else examples.batches(rows, workers=self.workers)
            for start, row, inputs in zip(range(0, n, self.batch), rows, stream, strict=True):
                if self.captured and examples.in_memory and strategy is None:
                    key = (id(model), id(examples), by_prediction, *wanted)
                    if key not in self.captures:
                        self.captures[key] = Captured(see)
                    seen = self.captures[key]("sweep", index=row, inputs=inputs)
                    take([value[: n - start].clone() for value in seen])
                else:
                    take([value[: n - start] for value in see(row, inputs)])


def measure(outputs: Tensor, examples: Examples) -> dict[str, float]:
    """How good outputs are: accuracy, balanced accuracy and the recall of each class, or R² (and each target's).

    Of several labels the mean average precision, and how many are right; of positions, how many of all are right.

    Real targets that are wrong can rank models backwards by R², so two scores stand beside it that half of them being
    wrong does not reach: `trimmed_r2`, and `median_error`, the median of |y-ŷ|, in the unit of the data.

    >>> two = Examples(torch.zeros(4, 1), torch.tensor([0, 0, 0, 1]))
    >>> list(measure(torch.tensor([[1.0, 0.0]] * 4), two).values())
    [0.75, 0.5, 1.0, 0.0]
    """
    if examples.is_regression:
        return _r_squared(outputs, examples.targets) | _robust(outputs, examples)
    if examples.task == LABELS:
        return _of_labels(outputs, examples.targets)
    if examples.task == POSITIONS:
        return _of_positions(outputs, tokens=examples.targets.ndim == 2)
    right = (outputs.argmax(1) == examples.labels).double()
    classes, labels = examples.classes or 0, examples.labels
    totals = torch.zeros(classes, dtype=torch.float64, device=right.device).scatter_add(
        0, labels, torch.ones_like(right)
    )
    hits = torch.zeros(classes, dtype=torch.float64, device=right.device).scatter_add(0, labels, right)
    recalls = hits / totals.clamp_min(1)
    present = (totals > 0).double()
    balanced = (recalls * present).sum() / present.sum()
    found = zip(recalls.tolist(), totals.tolist(), strict=True)
    return {
        "accuracy": float(right.mean()),
        "balanced_accuracy": float(balanced),
        **{f"recall_{label}": recall for label, (recall, total) in enumerate(found) if total},
    }


def _of_labels(outputs: Tensor, targets: Tensor) -> dict[str, float]:
    """The mean over labels of their average precision, the share of labels right, and of examples right in all."""
    right = right_labels(outputs, targets)
    return {
        "mean_average_precision": mean_average_precision(outputs, targets),
        "label_accuracy": float(right.double().mean()),
        "exact_match": float(right.all(1).double().mean()),
    }


def mean_average_precision(outputs: Tensor, targets: Tensor) -> float:
    """The mean over labels of the precision at each true example, from the highest output down.

    Labels that no example has are left out; equal outputs are ranked as they come.

    >>> mean_average_precision(torch.tensor([[3.0], [2.0], [1.0]]), torch.tensor([[1.0], [0.0], [1.0]]))
    0.8333333333333333
    """
    order = outputs.argsort(dim=0, descending=True, stable=True)
    true = (targets > 0.5).double().gather(0, order)
    ranks = torch.arange(1, len(true) + 1, dtype=torch.float64, device=true.device)[:, None]
    each = (true * true.cumsum(0) / ranks).sum(0) / true.sum(0).clamp_min(1)
    known = (true.sum(0) > 0).double()
    return float((each * known).sum() / known.sum().clamp_min(1))


def _of_positions(summaries: Tensor, tokens: bool) -> dict[str, float]:
    """The share of all positions that are right, and their mean cross entropy, of tokens as perplexity."""
    right, counted, losses = summaries.double().sum(0).tolist()
    mean = losses / max(counted, 1.0)
    scores = {"accuracy": right / max(counted, 1.0), "cross_entropy": mean}
    return scores | ({"perplexity": math.exp(min(mean, 700.0))} if tokens else {})


def _r_squared(outputs: Tensor, targets: Tensor) -> dict[str, float]:
    """R² = 1 - Σ(y-ŷ)² / Σ(y-ȳ)² of each target, and their mean as `r2`; very negative where a target is constant."""
    outputs, targets = outputs.double(), targets.double()
    residual = (targets - outputs).square().sum(0)
    spread = (targets - targets.mean(0)).square().sum(0)
    each = (1 - residual / spread.clamp_min(LEAST_SPREAD)).tolist()
    scores: dict[str, Any] = {"r2": sum(each) / len(each)}
    if len(each) > 1:
        scores |= {f"r2_{place}": value for place, value in enumerate(each)}
    return scores


def _robust(outputs: Tensor, examples: Examples) -> dict[str, float]:
    residuals = (examples.targets.double() - outputs.double()).cpu()
    unit = torch.ones(1) if examples.target_scale is None else examples.target_scale[1]
    return {
        "trimmed_r2": trimmed_r_squared(residuals, examples.targets.double().cpu()),
        "median_error": float((residuals.abs() * unit).median(0).values.mean()),
    }


def trimmed_r_squared(residuals: Tensor, targets: Tensor) -> float:
    """1 - Σ r² / Σ (y-m)² over the smaller half of the squares of each sum, the mean over the targets [n, d].

    m is the mean of the half of the targets that lie closest together (least trimmed squares, Rousseeuw 1984).

    >>> y = torch.tensor([[0.0], [1.0], [2.0], [3.0], [900.0]])
    >>> trimmed_r_squared(torch.tensor([[0.5], [0.5], [0.5], [0.5], [897.0]]), y)
    0.625
    """
    half = len(targets) // 2 + 1
    residual = residuals.square().sort(0).values[:half].sum(0)
    ordered = (targets - targets.median(0).values).sort(0).values  # around 0, so that sums of squares keep digits
    sums, squares = (torch.cat([torch.zeros_like(each[:1]), each.cumsum(0)]) for each in (ordered, ordered.square()))
    spread = (squares[half:] - squares[:-half]) - (sums[half:] - sums[:-half]).square() / half
    return float((1 - residual / spread.min(0).values.clamp_min(LEAST_SPREAD)).mean())


def metric_of(examples: Examples) -> str:
    """The name of the score: accuracy, R² for real targets, or the mean average precision of several labels."""
    return {REAL: "r2", LABELS: "mean_average_precision"}.get(examples.task, "accuracy")
