"""The theory of CRUST on generated points: what holds, and what fails where docs/theory/crust.md says so."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from thresher.rules import centrality, facility_location

SEEDS = st.integers(0, 2**31)
SOME = settings(max_examples=40, deadline=None)


def draw(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def value(distances: Tensor, chosen: tuple[int, ...]) -> float:
    return float((distances.max() - distances[:, list(chosen)].amin(1)).sum()) if chosen else 0.0


@SOME
@given(SEEDS, st.integers(1, 4), st.sampled_from([1, 2, 5]), st.booleans())
def test_greedy_reaches_its_share_of_the_best(seed: int, count: int, d: int, lumpy: bool) -> None:
    points = draw(seed, 10, d)
    points = points.round() if lumpy else points**3
    distances = torch.cdist(points, points)
    best = max(value(distances, some) for some in itertools.combinations(range(10), count))
    greedy = value(distances, tuple(facility_location(points, count).indices.tolist()))
    assert (1 - 1 / math.e) * best - 1e-6 <= greedy <= best + 1e-6


@SOME
@given(SEEDS, st.integers(1, 3), st.integers(0, 3))
def test_the_value_is_monotone_and_its_gains_fall(seed: int, few: int, more: int) -> None:
    distances = torch.cdist(points := draw(seed, 9, 3), points)
    small, large = tuple(range(few)), tuple(range(few + more))
    gains = [value(distances, (*some, 8)) - value(distances, some) for some in (small, large)]
    assert gains[0] >= gains[1] - 1e-9
    assert gains[1] >= -1e-9


@SOME
@given(SEEDS, st.integers(2, 40))
def test_eq_7_holds_with_r_max_and_fails_with_its_root(seed: int, largest: int) -> None:
    jacobian = draw(seed, 5, 8)
    sizes = torch.ones(5, dtype=torch.float64) * largest
    plain, weighted = torch.linalg.svdvals(jacobian), torch.linalg.svdvals(sizes[:, None] * jacobian)
    assert float(weighted.max()) == pytest.approx(largest * float(plain.max()))
    assert float(weighted.max()) > math.sqrt(largest) * float(plain.max())
    assert float(weighted.min()) >= math.sqrt(largest) * float(plain.min())


@SOME
@given(SEEDS, st.integers(1, 60))
def test_weighted_medoids_imitate_everybody(seed: int, count: int) -> None:
    rows = draw(seed, 60, 4).exp()
    chosen = facility_location(rows, count)
    imitated = (chosen.cluster_sizes[:, None] * rows[chosen.indices]).sum(0)
    covered = float(torch.cdist(rows, rows[chosen.indices]).amin(1).sum())
    assert float((rows.sum(0) - imitated).norm()) <= covered + 1e-6


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5])
@pytest.mark.parametrize("seed", range(3))
def test_who_spreads_out_becomes_a_medoid_and_who_lies_together_is_central(rate: float, seed: int) -> None:
    n, kept = 300, 180
    wrong = torch.arange(n) < round(rate * n)
    rows = 0.05 * draw(seed, n, 6)
    rows[wrong] += 5 * draw(seed + 9, int(wrong.sum()), 6)
    medoids = facility_location(rows, kept)
    assert float(wrong[medoids.indices].double().mean()) == pytest.approx(rate * n / kept, abs=0.02)
    weight = float((medoids.cluster_sizes * wrong[medoids.indices]).sum()) / n
    assert weight == pytest.approx(rate, abs=0.02)
    assert float(wrong[centrality(rows, min(kept, n - int(wrong.sum())))].double().mean()) < 0.03
