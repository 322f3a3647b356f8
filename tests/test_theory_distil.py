"""Proposition 2.1 of weighted distillation, and what docs/theory/distillation.md says beyond it, on finite problems."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import cross_entropy

from thresher.rules import debias_weights

SEEDS, SCALES = st.integers(0, 2**31), st.sampled_from((0.05, 1.0, 6.0))


def problem(seed: int, scale: float, n: int = 40, classes: int = 5) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(chance of a wrong label, outputs, losses with the wrong label, losses with the true one)."""
    draws = torch.Generator().manual_seed(seed)
    true = torch.randint(classes, (n,), generator=draws)
    wrong = (true + torch.randint(1, classes, (n,), generator=draws)) % classes
    outputs = scale * torch.randn(n, classes, generator=draws, dtype=torch.float64)
    p = torch.rand(n, generator=draws, dtype=torch.float64)
    return p, outputs, *(cross_entropy(outputs, labels, reduction="none") for labels in (wrong, true))


@given(SEEDS, SCALES)
@settings(max_examples=60, deadline=None)
def test_the_weighted_risk_is_unbiased_and_the_plain_one_is_not(seed: int, scale: float) -> None:
    p, _, of_wrong, of_true = problem(seed, scale)
    d = of_wrong / of_true
    told = p * of_wrong + (1 - p) * of_true
    assert (told / (1 + p * (d - 1))).mean().item() == pytest.approx(of_true.mean().item(), rel=1e-9)
    bias = (p * (d - 1) * of_true).mean().item()
    assert told.mean().item() == pytest.approx(of_true.mean().item() + bias, rel=1e-9)
    projected = (told * (1 / (1 + p * (d - 1))).clamp(max=1)).mean()
    assert projected <= of_true.mean() + 1e-12


@given(SEEDS, st.integers(1, 9), st.floats(1.1, 50.0))
@settings(max_examples=40, deadline=None)
def test_what_algorithm_2_tends_to(seed: int, tenths: int, d: float) -> None:
    """k = 100 neighbours of which exactly so many tenths are wrong, somewhere among them."""
    draws = torch.Generator().manual_seed(seed)
    wrong = torch.arange(40_000) % 10 < tenths
    wrong[:100] = wrong[torch.randperm(100, generator=draws)]
    given_all = torch.zeros(40_000, 2), wrong, torch.full((40_000,), d), torch.ones(1, 2)
    p = tenths / 10
    assert debias_weights(*given_all).item() == pytest.approx(1 / (1 + p * p * (d - 1)), rel=1e-5)
    assert debias_weights(*given_all, consistent=True).item() == pytest.approx(1 / (1 + p * (d - 1)), rel=1e-5)
