"""k-means++ and k-centre on factors: the picks of the multiplied version, whatever the blocks, with little memory."""

import json
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import reference.diverse as reference
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from thresher import ThresherError
from thresher.rules import KCentre, KMeansPlusPlus, RandomPicks, k_centre, kmeans_plus_plus
from thresher.rules.coresets import outer_products

SEEDS, SOME = st.integers(0, 2**31), settings(max_examples=60, deadline=None)
DTYPES = st.sampled_from((torch.float32, torch.float64))


def draws(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=draws(seed))


def whole(seed: int, n: int, width: int) -> Tensor:
    """Small whole numbers, in which ties and duplicates are common and every sum is exact."""
    return torch.randint(-2, 3, (n, width), generator=draws(seed)).double()


@given(seed=SEEDS, n=st.integers(1, 12), c=st.integers(1, 3), d=st.integers(1, 3), dtype=DTYPES, first=st.booleans())
@SOME
def test_ties_and_duplicates_are_settled_as_by_the_multiplied_version(
    seed: int, n: int, c: int, d: int, dtype: torch.dtype, first: bool
) -> None:
    left, right, scale = whole(seed, n, c), whole(seed + 1, n, d), whole(seed + 2, n, 1)[:, 0]
    rows = reference.embeddings(left, right, scale)
    for count in {1, n // 2 or 1, n}:
        expected = reference.kmeans_plus_plus(rows, count, draws(seed), first)
        picks = kmeans_plus_plus(
            left.to(dtype), right.to(dtype), count, draws(seed), scale=scale.to(dtype), largest_first=first
        )
        assert picks.tolist() == expected
        assert len(set(expected)) == count


@given(seed=SEEDS, n=st.integers(1, 150), c=st.integers(1, 12), d=st.integers(1, 40), dtype=DTYPES)
@SOME
def test_picks_are_those_of_the_multiplied_version(seed: int, n: int, c: int, d: int, dtype: torch.dtype) -> None:
    """Softmax minus one-hot beside features with a common direction, some of them repeated, as a pool has them."""
    right = (normal(n, d, seed=seed) + 3 * normal(1, d, seed=seed + 1)).to(dtype)
    right = right[torch.arange(n) % (n // 2 + 1)]
    left = (4 * normal(n, c, seed=seed + 2)).softmax(1).to(dtype)
    left = left - torch.nn.functional.one_hot(left.argmax(1), c)
    left = left[torch.arange(n) % (n // 2 + 1)]
    count = min(n, 25)
    expected = reference.kmeans_plus_plus(reference.embeddings(left, right), count, draws(seed))
    assert kmeans_plus_plus(left, right, count, draws(seed)).tolist() == expected


@given(seed=SEEDS, small=st.integers(-36, 30), wide=st.booleans())
@SOME
def test_very_small_and_very_large_factors_keep_their_picks(seed: int, small: int, wide: bool) -> None:
    """A model that is sure of everything has gradients that vanish in single precision when multiplied."""
    size = 10.0 ** torch.linspace(small, 1 if wide else small, 60).double()[:, None]
    left, right = (normal(60, 3, seed=seed) * size).float(), normal(60, 5, seed=seed + 1)
    left[30:], right[30:] = left[:30].clone(), right[:30].clone()
    expected = reference.kmeans_plus_plus(reference.embeddings(left, right), 40, draws(seed))
    assert kmeans_plus_plus(left, right, 40, draws(seed)).tolist() == expected
    assert k_centre(left, 40, left[3:5]).tolist() == reference.k_centre(left, 40, left[3:5])


@given(seed=SEEDS, n=st.integers(1, 40), m=st.integers(0, 150), d=st.integers(1, 3), dtype=DTYPES)
@SOME
def test_k_centre_picks_as_the_table_does(seed: int, n: int, m: int, d: int, dtype: torch.dtype) -> None:
    for scale in (1.0, 0.37):
        rows = (scale * (whole(seed, n, d) if scale == 1 else normal(n, d, seed=seed))).to(dtype)
        labelled = (whole(seed + 1, m, d) if scale == 1 else normal(m, d, seed=seed + 1)).to(dtype) if m else None
        expected = reference.k_centre(rows, n, labelled)
        assert k_centre(rows, n, labelled).tolist() == expected


@pytest.fixture(params=[1, 7])
def small_blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    rows: int = request.param
    monkeypatch.setattr(outer_products, "rows_at_once", lambda width, beside: rows)  # noqa: ARG005
    return rows


def test_blocks_do_not_matter(small_blocks: int) -> None:  # noqa: ARG001
    left, right = normal(100, 4), normal(100, 6, seed=1)
    expected = reference.kmeans_plus_plus(reference.embeddings(left, right), 20, draws(3))
    assert kmeans_plus_plus(left, right, 20, draws(3)).tolist() == expected
    assert k_centre(right, 20, right[:9] / 2).tolist() == reference.k_centre(right, 20, right[:9] / 2)


@pytest.fixture(params=["high", "medium"])
def rough_products(request: pytest.FixtureRequest) -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(request.param)
    yield
    torch.set_float32_matmul_precision(before)


@pytest.mark.usefixtures("rough_products")
def test_rough_matrix_products_change_no_pick() -> None:
    left, right = normal(200, 5), normal(200, 16, seed=1).relu()
    expected = reference.kmeans_plus_plus(reference.embeddings(left, right), 60, draws(3))
    assert kmeans_plus_plus(left, right, 60, draws(3)).tolist() == expected


class Largest(TorchDispatchMode):
    """The number of elements of the largest tensor that was made."""

    elements = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, Tensor) and not leaf._is_view():
                self.elements = max(self.elements, leaf.numel())
        return result


def test_memory_is_that_of_the_factors() -> None:
    n, c, d = 1000, 50, 60
    left, right = normal(n, c), normal(n, d, seed=1)
    with Largest() as seen:
        kmeans_plus_plus(left, right, 10, draws(0))
    assert seen.elements <= n * d, "an embedding has 3,000 numbers"
    with Largest() as seen:
        k_centre(right, 3, right)
    assert seen.elements <= n * 64, "pool × labelled would be 1,000,000"


def test_the_order_says_who_is_who() -> None:
    left, right = normal(50, 3), normal(50, 4, seed=1)
    order = torch.randperm(50, generator=draws(5))
    straight = kmeans_plus_plus(left[order], right[order], 20, draws(1))
    assert kmeans_plus_plus(left, right, 20, draws(1), order=order).tolist() == order[straight].tolist()
    same = torch.zeros(6, 2)
    assert k_centre(same, 2, same[:1], order=torch.tensor([4, 1, 0, 2, 3, 5])).tolist() == [4, 1]


def test_draws_are_in_proportion_to_squared_distance() -> None:
    left, right = torch.ones(4, 1), torch.tensor([[0.0], [1.0], [2.0], [4.0]])
    seconds = [int(kmeans_plus_plus(left, right, 2, draws(seed))[1]) for seed in range(1000)]
    found = torch.tensor(seconds).bincount(minlength=4) / 1000
    torch.testing.assert_close(found, torch.tensor([16.0, 9.0, 4.0, 0.0]) / 29, atol=0.05, rtol=0)


def test_what_cannot_be_picked_is_refused() -> None:
    rows = normal(4, 2)
    for count in (0, 5):
        with pytest.raises(ThresherError, match="from 1 to 4"):
            kmeans_plus_plus(rows, rows, count)
        with pytest.raises(ThresherError, match="from 1 to 4"):
            k_centre(rows, count)
    with pytest.raises(ThresherError, match=r"give rows \[n, c\] and \[n, d\]"):
        kmeans_plus_plus(rows, rows[:3], 2)
    with pytest.raises(ThresherError, match="NaN or infinite"):
        kmeans_plus_plus(rows, rows / 0, 2)
    for rule in (KMeansPlusPlus, KCentre, RandomPicks):
        with pytest.raises(ThresherError, match="keeps nothing"):
            rule(count=0)


def test_everything_was_measured() -> None:
    root = Path(__file__).parent.parent
    bench = runpy.run_path(str(root / "benchmarks" / "acquire.py"))
    rows = [json.loads(line) for line in (root / "results" / "acquire-cpu.jsonl").read_text().splitlines()]
    sizes = {(row["n"], row["classes"]) for row in rows if row["kind"] == "growth"}
    assert sizes == {bench["sizes"](text) for text in bench["GROWTH"]}
    assert [row["who"] for row in rows if row["kind"] == "against"] == list(bench["CONTESTANTS"])
