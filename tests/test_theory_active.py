"""Theorem 1 of the paper on active learning, on generated data: docs/theory/active.md says what holds and what not."""

from itertools import combinations
from math import comb, log, sqrt

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from thresher import signals, weigh
from thresher.rules import KeepLargest

SEEDS, SOME = st.integers(0, 2**31), settings(max_examples=30, deadline=None)


def gammas(n: int, s: int, q: int) -> Tensor:
    """The weight of the j-th largest of n losses: drawn into the batch with fewer than q larger ones."""
    ways = [sum(comb(j, larger) * comb(n - 1 - j, s - 1 - larger) for larger in range(q)) for j in range(n)]
    return torch.tensor([each / comb(n, s) for each in ways], dtype=torch.float64)


def top_q_loss(losses: Tensor, s: int, q: int) -> Tensor:
    return (losses.sort(-1, descending=True).values * gammas(losses.shape[-1], s, q)).sum(-1) / q


@given(seed=SEEDS, n=st.integers(2, 8), data=st.data())
@SOME
def test_ordered_sgd_steps_along_the_gradient_of_l_q(seed: int, n: int, data: st.DataObject) -> None:
    """The mean over all batches of the weighted gradient that the rule gives, against autograd through L_q."""
    s = data.draw(st.integers(1, n))
    q = data.draw(st.integers(1, s))
    draws = torch.Generator().manual_seed(seed)
    inputs, targets = torch.randn(n, 3, generator=draws), torch.randint(0, 2, (n,), generator=draws)
    torch.manual_seed(seed % 1000)
    model = nn.Linear(3, 2).double()
    inputs = inputs.double()

    def losses() -> Tensor:
        return nn.functional.cross_entropy(model(inputs), targets, reduction="none")

    expected = torch.autograd.grad(top_q_loss(losses(), s, q), model.weight)[0]
    batches = [list(batch) for batch in combinations(range(n), s)]
    total = torch.zeros((), dtype=torch.float64)
    for batch in batches:
        weights = weigh(KeepLargest(by=signals.loss, count=q), model, inputs[batch], targets[batch], classes=2)
        total = total + weights.double() @ losses()[batch] / q
    found = torch.autograd.grad(total / len(batches), model.weight)[0]
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-5)


@given(n=st.integers(1, 40), data=st.data())
@SOME
def test_proposition_1_and_what_follows(n: int, data: st.DataObject) -> None:
    s = data.draw(st.integers(1, n))
    q = data.draw(st.integers(1, s))
    weights = gammas(n, s, q)
    assert weights.sum().item() == pytest.approx(q)
    assert (weights <= s / n + 1e-12).all()
    assert weights[:q].tolist() == pytest.approx([s / n] * q), "attained"
    assert (weights.diff() <= 1e-12).all(), "larger losses never count less, so that L_q is at least the mean"
    losses = torch.rand(n, generator=torch.Generator().manual_seed(data.draw(SEEDS)), dtype=torch.float64)
    assert top_q_loss(losses, s, q) >= losses.mean() - 1e-12
    other = losses.clone()
    other[data.draw(st.integers(0, n - 1))] = data.draw(st.floats(0, 1))
    change = (top_q_loss(losses, s, q) - top_q_loss(other, s, q)).abs()
    assert change <= s / (q * n) + 1e-12, "the step of the proof that McDiarmid's inequality needs, with M = 1"


GRID = torch.linspace(0, 1, 11)
ERROR = torch.cat([(GRID - 0.5).abs(), 1 - (GRID - 0.5).abs()]).double()  # of thresholds, and the other way round


def sample(n: int, turned: float, draws: torch.Generator) -> tuple[Tensor, Tensor]:
    """0-1 losses of all functions [22, n] on x ~ U(0, 1), y = (x > ½), and on the same with some labels turned."""
    x = torch.rand(n, generator=draws)
    right = torch.cat([x > GRID[:, None], x <= GRID[:, None]]) == (x > 0.5)
    flipped = torch.arange(n) < turned * n
    return (~right).double(), (right == flipped).double()


def bias(n: int, turned: float, s: int, q: int, draws: torch.Generator) -> float:
    """Q: the mean, over samples, of the least L_q on the corrupt sample minus the loss on the clean one."""
    pairs = (sample(n, turned, draws) for _ in range(50))
    return float(torch.stack([(top_q_loss(given, s, q) - clean.mean(1)).min() for clean, given in pairs]).mean())


@given(seed=SEEDS, turned=st.sampled_from((0.0, 0.1, 0.4, 0.8, 1.0)), n=st.sampled_from((20, 100)), q=st.integers(1, 8))
@SOME
def test_theorem_1(seed: int, turned: float, n: int, q: int) -> None:
    draws, s, delta = torch.Generator().manual_seed(seed), 8, 0.01
    clean, given = sample(n, turned, draws)
    signs = torch.randint(0, 2, (100, n), generator=draws).double() * 2 - 1
    complexity = float((clean @ signs.T / n).amax(0).mean())
    lowest = bias(n, turned, s, q, draws)
    bound = 2 * complexity + (2 + s / q) * sqrt(log(2 / delta) / (2 * n)) - lowest
    assert (ERROR - top_q_loss(given, s, q) <= bound).all()
    if turned == 0:
        assert lowest >= -1e-12


def largest_gap(n: int, turned: float, q: int) -> float:
    """The mean, over samples, of the largest E ℓ - L_q."""
    draws = torch.Generator().manual_seed(0)
    gaps = [(ERROR - top_q_loss(sample(n, turned, draws)[1], 8, q)).max() for _ in range(20)]
    return float(torch.stack(gaps).mean())


@pytest.mark.parametrize("q", [2, 8])
def test_where_all_labels_are_turned_the_gap_stays_and_the_bound_is_attained(q: int) -> None:
    for n in (50, 2000):
        assert largest_gap(n, 1.0, q) == pytest.approx(1.0, abs=0.05)
    assert bias(2000, 1.0, 8, q, torch.Generator().manual_seed(0)) == pytest.approx(-1.0, abs=0.02)


def test_where_nothing_is_corrupt_the_largest_gap_vanishes_and_others_fall_below_zero() -> None:
    assert largest_gap(2000, 0.0, q=8) < 0.03 < largest_gap(20, 0.0, q=8) / 3
    assert largest_gap(2000, 0.0, q=2) < 0.03
    gap = ERROR - top_q_loss(sample(2000, 0.0, torch.Generator().manual_seed(0))[1], 8, 2)
    wrong = (ERROR > 0.05) & (ERROR < 0.45)
    assert (gap[wrong] < -0.05).all(), "the paper lets them go to zero"
