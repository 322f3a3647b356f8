"""Evidence made by hand, for tests of rules, signals and mixes: no model, no engine."""

from typing import Any

import torch
from torch import Tensor

from thresher.core.evidence import Evidence
from thresher.core.signals import clean_agreement, features, gradient_norm
from thresher.objectives import CrossEntropy, SquaredError

TASKS = ("classes", "soft", "real")


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def some_evidence(n: int, task: str = "classes", *, width: int = 4, seed: int = 0, **facts: Any) -> Evidence:
    """Evidence about n examples with scattered ids in no order, and with the prepared signals known."""
    generator = torch.Generator().manual_seed(seed)
    targets = {
        "classes": torch.randint(width, (n,), generator=generator),
        "soft": torch.rand(n, width, generator=generator).softmax(1),
        "real": torch.randn(n, width, generator=generator),
    }[task]
    given = {
        "ids": torch.randperm(10 * n, generator=generator)[:n] + 3,
        "targets": targets,
        "objective": SquaredError() if task == "real" else CrossEntropy(),
        "raw_outputs": torch.randn(n, width, generator=generator),
        "classes": None if task == "real" else width,
        "known": {
            gradient_norm: torch.rand(n, generator=generator) * 3,
            features: torch.randn(n, 5, generator=generator),
            clean_agreement: torch.rand(n, generator=generator) - torch.arange(n) % 2,  # half of them are negative
        },
        "columns": {
            "is_corrupt": torch.rand(n, generator=generator) < 0.4,
            "is_clean": torch.rand(n, generator=generator) < 0.5,
            "voted": targets.reshape(n, -1)[:, 0].long().abs() % width,  # as NeighbourVote gives it
            "selected": torch.arange(n) % 3 == 0,
            "candidate": torch.arange(n) % 3 == 1,
            "from_teacher": torch.rand(n, generator=generator) < 0.7,
            "trusted": (torch.rand(n, generator=generator) < 0.7).float(),
            "sample_weight": torch.rand(n, generator=generator),
        },
    }
    return Evidence(**(given | facts))


def same_but(evidence: Evidence, **changes: Any) -> Evidence:
    """The same evidence with nothing computed yet but the prepared signals."""
    known = {signal: evidence.known[signal] for signal in (gradient_norm, features, clean_agreement)}
    return evidence.replace(**({"known": known} | changes))
