"""Scores of real targets, of several labels and of classes at positions."""

import math
from typing import Any

import torch
from torch import Tensor

from thresher.core.examples import Examples
from thresher.core.tasks import right_labels

LEAST_SPREAD = 1e-30  # of targets, so that every score is a number that files can hold


def r_squared(outputs: Tensor, targets: Tensor) -> dict[str, float]:
    """R² = 1 - Σ(y-ŷ)² / Σ(y-ȳ)² of each target that is not constant, and their mean as `r2`.

    >>> list(r_squared(torch.tensor([[0.0, 3.0], [1.0, 3.0]]), torch.tensor([[0.0, 5.0], [1.0, 5.0]])).items())
    [('r2', 1.0), ('r2_0', 1.0)]
    """
    outputs, targets = outputs.double(), targets.double()
    residual = (targets - outputs).square().sum(0)
    spread = (targets - targets.mean(0)).square().sum(0)
    each = (1 - residual / spread.clamp_min(LEAST_SPREAD)).tolist()
    known = _varying(targets)
    scores: dict[str, Any] = {"r2": sum(each[place] for place in known) / len(known)}
    if len(each) > 1:
        scores |= {f"r2_{place}": each[place] for place in known}
    return scores


def _varying(targets: Tensor) -> list[int]:
    """The places of the targets that are not constant, or of all, where none varies."""
    return (targets != targets[:1]).any(0).nonzero().flatten().tolist() or list(range(targets.shape[1]))


def robust_scores(outputs: Tensor, examples: Examples) -> dict[str, float]:
    """The trimmed R² and the median error, which wrong targets hardly move."""
    residuals = (examples.targets.double() - outputs.double()).cpu()
    known = _varying(examples.targets)
    unit = torch.ones(1) if examples.target_scale is None else examples.target_scale[1]
    return {
        "trimmed_r2": trimmed_r_squared(residuals[:, known], examples.targets.double().cpu()[:, known]),
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


def label_scores(outputs: Tensor, targets: Tensor) -> dict[str, float]:
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


def position_scores(summaries: Tensor, tokens: bool) -> dict[str, float]:
    """The share of all positions that are right, and their mean cross entropy, of tokens as perplexity."""
    right, counted, losses = summaries.double().sum(0).tolist()
    mean = losses / max(counted, 1.0)
    scores = {"accuracy": right / max(counted, 1.0), "cross_entropy": mean}
    return scores | ({"perplexity": math.exp(min(mean, 700.0))} if tokens else {})
