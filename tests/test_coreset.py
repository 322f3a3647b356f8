"""Coresets: exact greedy equals naive greedy, the quick versions come near, and the rules obey ids and classes."""

import importlib
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import coreset as slow
from some_evidence import drawn, same_but, some_evidence
from tiny import examples, net
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from thresher import Recipe, fit, signals
from thresher.core.errors import ThresherError
from thresher.core.schedules import ramp
from thresher.rules import (
    Centrality,
    Coreset,
    FacilityLocation,
    ask,
    centrality,
    facility_location,
    in_groups,
    partitioned_facility_location,
    per_class,
    stochastic_facility_location,
    streamed_facility_location,
    warmup,
)
from thresher.rules.coresets.distances import Points, as_points, total_distances

exact = importlib.import_module("thresher.rules.coresets.facility_location")
cover = importlib.import_module("thresher.rules.coresets.coverage")
near = importlib.import_module("thresher.rules.coresets.neighbour_lists")
central = importlib.import_module("thresher.rules.coresets.centrality")
chunks = importlib.import_module("thresher.core.chunks")

# Few distinct values, so that duplicates and ties are the rule; thirds and tenths: tied but inexact.
COORDINATES = st.sampled_from([0.0, 1.0, 2.0, 3.0, 0.1, 0.2, 1 / 3, 2 / 3, -5.0, 1e-9, 0.7])


@st.composite
def point_sets(draw: st.DrawFn) -> list[list[float]]:
    n, d = draw(st.integers(1, 24)), draw(st.integers(1, 3))
    coordinate = draw(st.sampled_from([st.integers(0, 3).map(float), COORDINATES, st.floats(-9, 9, width=32)]))
    return draw(st.lists(st.lists(coordinate, min_size=d, max_size=d), min_size=n, max_size=n))


# The ways through exact greedy: lists are made at once, or never, or anew each time, looked at a few at a time, or made
# row by row.
WAYS: dict[str, list[tuple[Any, str, Any]]] = {
    "lists": [],
    "no lists": [(exact, "NEIGHBOURS", -1), (cover, "AT_ONCE", 16)],
    "lists made anew": [(near, "LONGEST", 1)],
    "small pools": [(near, "POOL", 2)],
    "few pairs": [(near, "PAIRS", 8)],
    "blocks of one row": [(chunks, "HOST_NUMBERS", 1)],
    "as on another device": [(chunks, "_on_host", lambda values: False)],  # noqa: ARG005
}
every_way = pytest.mark.parametrize("way", WAYS)


@contextmanager
def going(way: str) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for module, name, setting in WAYS[way]:
            patch.setattr(module, name, setting)
        yield


def assert_same_as_naive(rows: list[list[float]], count: int) -> None:
    table = slow.whole_distances(rows)
    found = facility_location(torch.tensor(rows, dtype=torch.float64), count)
    chosen = slow.greedy(table, count)
    assert found.indices.tolist() == chosen
    assert found.assignment.tolist() == slow.clusters(table, chosen)
    assert found.cluster_sizes.tolist() == [found.assignment.tolist().count(place) for place in range(count)]


@every_way
@settings(max_examples=60, deadline=None)
@given(rows=point_sets(), share=st.floats(0, 1))
def test_greedy_equals_naive_greedy(way: str, rows: list[list[float]], share: float) -> None:
    with going(way):
        assert_same_as_naive(rows, max(1, round(share * len(rows))))


@every_way
@pytest.mark.parametrize("step", [1.0, 0.1, 1 / 3, 1e-8, 1e100])
def test_greedy_on_a_grid_breaks_ties_by_index(way: str, step: float) -> None:
    grid = [[step * x, step * y] for x in range(7) for y in range(6)]
    with going(way):
        assert_same_as_naive(grid, 30)
        assert_same_as_naive([[x + 1e6 * step, y] for x, y in grid], 20)


@pytest.mark.parametrize("neighbours", [1, 4, 16])
def test_greedy_equals_naive_greedy_whenever_it_begins_to_keep_lists(
    neighbours: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exact, "NEIGHBOURS", neighbours)
    monkeypatch.setattr(chunks, "HOST_NUMBERS", 500)
    for seed, width in enumerate((2, 5, 10)):
        assert_same_as_naive(drawn(120, width, seed=seed).double().tolist(), 60)


@every_way
@settings(max_examples=40, deadline=None)
@given(rows=point_sets(), share=st.floats(0, 1))
def test_centrality_equals_the_naive_sums(way: str, rows: list[list[float]], share: float) -> None:
    count = max(1, round(share * len(rows)))
    with going(way):
        found = centrality(torch.tensor(rows, dtype=torch.float64), count)
        among = central.among_central(as_points(torch.tensor(rows, dtype=torch.float64)), count)
    assert found.tolist() == slow.central(slow.whole_distances(rows), count)
    assert sorted(among.tolist()) == sorted(found.tolist())


CLOUDS = {
    **{f"{width} wide": drawn(700, width, seed=width) for width in (1, 2, 10, 60)},
    "clusters": drawn(600, 4) * 0.01 + drawn(12, 4, seed=1).repeat(50, 1),
    "probabilities": (drawn(500, 10) * 3).softmax(1),
    "duplicates": drawn(500, 3).round(),
    "one dense spot": torch.cat([drawn(300, 2) * 1e-9, drawn(5, 2)]),
}


@pytest.mark.parametrize("rows", [CLOUDS[name] for name in CLOUDS if name != "one dense spot"])
def test_few_sums_have_to_be_exact_to_tell_the_central_half(rows: Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    points, half = as_points(rows), len(rows) // 2
    expected, asked, exact_distances = centrality(rows, half), list[int](), Points.distances
    count = lambda self, *given: asked.append(len(given[0])) or exact_distances(self, *given)  # noqa: E731
    monkeypatch.setattr(Points, "distances", count)
    assert central.among_central(points, half).sort().values.tolist() == expected.sort().values.tolist()
    assert sum(asked) < half  # else all would be measured exactly, as in a dense spot


@pytest.mark.parametrize("rows", CLOUDS.values(), ids=CLOUDS)
def test_the_most_central_is_found_from_tangents(rows: Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(central, "TRIED", 8)
    points = as_points(rows)
    assert central.most_central(points) == int(total_distances(points).argmin())


def test_tangents_spare_most_of_the_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Any) -> Tensor:
        raise AssertionError("all sums were taken")

    monkeypatch.setattr(central, "total_distances", refuse)
    central.most_central(as_points(drawn(2000, 10)))


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("rows", CLOUDS.values(), ids=CLOUDS)
def test_gains_are_bounded_closely_whatever_precision_is_asked_for(rows: Tensor, autocast: bool) -> None:
    with torch.autocast("cpu", enabled=autocast):
        points = as_points(rows)
        reach = points.distances(torch.tensor([0, 7])).amin(0)
        gains = (reach - points.distances(points.positions)).clamp_(min=0).sum(1)
        bounds = cover.gains_at_most(points, points.positions, reach)
        bounds_of_all = cover.all_gains_at_most(points, reach)
    assert cover.gains_of(points, points.positions, reach).tolist() == gains.tolist()
    for each in (bounds, bounds_of_all):
        assert (each >= gains).all()
        assert (each - gains).max() < 0.01 * gains.max()  # few candidates have to be looked at more closely
    for sizes, example, distance in points.near(torch.arange(9), reach):
        gained = (reach[example] - distance).clamp(min=0).split(sizes.tolist())
        assert [float(each.sum()) for each in gained] == gains[:9].tolist()


@pytest.mark.parametrize("rows", CLOUDS.values(), ids=CLOUDS)
def test_bounds_are_tightened_closely_by_what_was_lost(rows: Tensor) -> None:
    points = as_points(rows)
    distances = points.distances(points.positions)
    gains_of = lambda reach: (reach - distances).clamp(min=0).sum(1)  # noqa: E731
    reach = distances[[0, 7, 11]].amin(0)
    bounds = cover.GainBounds.of_all(points, reach)
    for medoid in (5, 300, 17):
        before, reach = reach, torch.minimum(reach, distances[medoid])
        bounds.add(medoid, reach)
        lost, exact = cover.losses_at_least(points, points.positions, before, reach), gains_of(before) - gains_of(reach)
        assert (lost <= exact).all()
        assert (exact - lost).max() <= 0.01 * gains_of(before).max()
    left, gains = bounds.highest >= 0, gains_of(reach)
    assert left.sum() == len(points) - 3
    for age in range(1, 4):
        bounds.tighten(points.positions[left & (bounds.age == age)], age)
    assert (bounds.age[left] == 0).all()
    assert (bounds.highest[left] >= gains[left]).all()
    assert (bounds.highest[left] - gains[left]).max() < 0.03 * gains_of(distances[[0, 7, 11]].amin(0)).max()
    bounds.tighten_all()
    assert (bounds.highest[left] >= gains[left]).all()
    assert (bounds.highest[~left] == -1).all()


def late_gradients(n: int) -> Tensor:
    """softmax - one-hot of one class, late in training: most are sure to many digits, a third has a wrong label."""
    outputs = 2 * drawn(n, 10)
    outputs[:, 0] += torch.where(torch.arange(n) < 0.7 * n, 18.0, 4.0)
    given = torch.where(torch.arange(n) % 3 == 0, 3, 0)
    return outputs.softmax(1) - torch.nn.functional.one_hot(given, 10)


CROWDED = {
    "late gradients": late_gradients(900),
    "half in one place": torch.cat([torch.zeros(500, 4), drawn(400, 4)]),
    "half in nearly one place": torch.cat([1e-8 * drawn(500, 9), drawn(400, 9)]),
}


@pytest.mark.parametrize("rows", CROWDED.values(), ids=CROWDED)
def test_examples_in_nearly_one_place_do_not_hold_up_the_lists(rows: Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    steps, largest_gain = [], exact.largest_gain
    monkeypatch.setattr(exact, "largest_gain", lambda *given: steps.append(1) or largest_gain(*given))
    found = facility_location(rows, 450)
    assert len(steps) < 30
    monkeypatch.setattr(exact, "NEIGHBOURS", -1)
    assert torch.equal(found.indices[:40], facility_location(rows, 40).indices)


def test_medoids_are_taken_many_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds, in_a_row = [], near._in_a_row
    monkeypatch.setattr(near, "_in_a_row", lambda *given: rounds.append(len(taken := in_a_row(*given))) or taken)
    facility_location(drawn(1500, 10), 750)
    assert sum(rounds) >= 740
    assert len(rounds) < 150


def test_a_pair_has_one_distance_in_every_block() -> None:
    rows = torch.cat([drawn(200, 7), drawn(40, 7).repeat(3, 1), drawn(40, 7) * 1e-6])
    points = as_points(rows)
    everyone = points.positions
    whole = points.distances(everyone)
    assert torch.equal(whole, whole.T)
    assert torch.equal(whole, torch.cat([points.distances(row) for row in torch.split(everyone, 1)]))
    assert torch.equal(whole, torch.tensor(slow.whole_distances(points.rows.tolist()), dtype=torch.float64))


@settings(max_examples=25, deadline=None)
@given(rows=point_sets(), count=st.integers(1, 4))
def test_theory_greedy_reaches_its_share_of_the_best_value(rows: list[list[float]], count: int) -> None:
    """f(greedy) ≥ (1 - 1/e) · max f (Nemhauser, Wolsey and Fisher 1978), on sets small enough to try everything."""
    rows, count = rows[:10], min(count, len(rows[:10]))
    table = slow.whole_distances(rows)
    chosen = facility_location(torch.tensor(rows, dtype=torch.float64), count).indices.tolist()
    assert slow.value(table, chosen) >= (1 - 1 / math.e) * slow.best_value(table, count)


def stream(rows: Tensor, count: int) -> Coreset:
    n = len(rows)
    return streamed_facility_location(list(rows.split(1 + n // 4)), count, reservoir=2 * n // 3)


QUICK: dict[str, tuple[Callable[[Tensor, int], Coreset], float]] = {
    "stochastic": (stochastic_facility_location, 0.97),
    "partitioned": (lambda rows, count: partitioned_facility_location(rows, count, parts=4), 0.9),
    "streamed": (stream, 0.85),
}


@pytest.mark.parametrize(("select", "share"), QUICK.values(), ids=QUICK)
def test_a_quick_version_comes_near(select: Callable[[Tensor, int], Coreset], share: float) -> None:
    """Shares of how far exact greedy brings the sum of distances down from that of random medoids to 0 or beyond."""
    rows = torch.cat([drawn(560, 5), 0.05 * drawn(40, 5) + 6])  # a small far cluster, which random medoids miss
    table = torch.cdist(rows.double(), rows.double())

    def cost(indices: Tensor) -> float:
        return float(table[:, indices].amin(1).sum())

    found, again = select(rows, 20), select(rows, 20)
    assert all(torch.equal(one, other) for one, other in zip(found, again, strict=True))
    best = cost(facility_location(rows, 20).indices)
    central_one = cost(centrality(rows, 1))
    assert (central_one - cost(found.indices)) / (central_one - best) >= share
    assert len(found.indices.unique()) == 20
    assert torch.equal(found.cluster_sizes, found.assignment.bincount(minlength=20))
    others = torch.ones(600, dtype=torch.bool).index_fill(0, found.indices, False)
    mine = table[:, found.indices].gather(1, found.assignment[:, None])[:, 0]
    torch.testing.assert_close(mine[others], table[:, found.indices].amin(1)[others])


@pytest.mark.parametrize("select", [select for select, _ in QUICK.values()], ids=QUICK)
@settings(max_examples=15, deadline=None)
@given(rows=point_sets(), share=st.floats(0, 1))
def test_a_quick_version_gives_a_whole_coreset(select: Any, rows: list[list[float]], share: float) -> None:
    if select is QUICK["partitioned"][0] and len(rows) < 4:
        return
    count = max(1, round(share * len(rows)))
    found = select(torch.tensor(rows), count)
    assert len(set(found.indices.tolist())) == count
    assert found.cluster_sizes.sum() == len(rows)
    assert (found.cluster_sizes >= 1).all()
    assert found.assignment[found.indices].tolist() == list(range(count))


def test_stochastic_with_all_candidates_and_one_part_are_exact() -> None:
    rows = drawn(150, 4)
    wanted = facility_location(rows, 40)
    for found in (
        stochastic_facility_location(rows, 40, slack=1e-30),
        partitioned_facility_location(rows, 40, parts=1, proposals=4.0),
    ):
        assert all(torch.equal(one, other) for one, other in zip(found, wanted, strict=True))


@pytest.mark.parametrize("size", [10, 64, 100])
def test_a_stream_that_fits_the_sample_is_chosen_from_exactly(size: int) -> None:
    rows = drawn(900, 4)
    found, wanted = streamed_facility_location(list(rows.split(size)), 12), facility_location(rows, 12)
    assert all(torch.equal(one, other) for one, other in zip(found, wanted, strict=True))


def test_a_loader_over_embeddings_is_a_stream() -> None:
    rows = drawn(90, 4)
    found = streamed_facility_location(DataLoader(TensorDataset(rows), batch_size=7), 5)
    assert torch.equal(found.indices, facility_location(rows, 5).indices)


@pytest.mark.parametrize("n", [90, 6000], ids=["fits the sample", "does not fit it"])
def test_a_stream_that_comes_in_another_order_the_second_time_is_refused(n: int) -> None:
    shuffled = DataLoader(
        TensorDataset(drawn(n, 4)), batch_size=30, shuffle=True, generator=torch.Generator().manual_seed(0)
    )
    for count in (1, 5):
        with pytest.raises(ThresherError, match="shuffle=False"):
            streamed_facility_location(shuffled, count)
    twice = drawn(n // 3, 4).repeat(3, 1)  # whoever stands for a medoid may be its double
    assert len(streamed_facility_location(list(twice.split(50)), 5).indices) == 5


class Changing:
    """A stream that is another one the second time."""

    def __init__(self, *passes: list[Tensor]):
        self.passes = iter(passes)

    def __iter__(self) -> Iterator[Tensor]:
        return iter(next(self.passes))


@pytest.mark.parametrize("n", [90, 6000], ids=["fits the sample", "does not fit it"])
@pytest.mark.parametrize("change", [lambda rows: [], lambda rows: [rows[:-1]], lambda rows: [rows, rows[:1]]])  # noqa: ARG005
def test_a_stream_of_another_length_the_second_time_is_refused(
    n: int, change: Callable[[Tensor], list[Tensor]]
) -> None:
    rows = drawn(n, 4) + 1e9
    with pytest.raises(ThresherError, match="changed between two passes"):
        streamed_facility_location(Changing([rows], change(rows)), 5)


@pytest.mark.parametrize("n", [90, 6000], ids=["fits the sample", "does not fit it"])
def test_a_stream_that_is_the_same_the_second_time_is_taken(n: int) -> None:
    rows = drawn(n, 4) + 1e9
    assert len(streamed_facility_location(Changing([rows], [rows]), 5).indices) == 5


def test_a_stream_of_one_cluster_after_the_other_is_covered() -> None:
    rows = torch.cat([drawn(300, 8, seed=seed) + 20 * centre for seed, centre in enumerate(drawn(10, 8, seed=99))])

    def far(indices: Tensor) -> float:
        return float(torch.cdist(rows, rows[indices]).amin(1).mean())

    found = streamed_facility_location(list(rows.split(100)), 10)
    assert far(found.indices) < 1.1 * far(facility_location(rows, 10).indices)


def test_a_stream_of_unequal_clusters_is_covered_nearly_as_by_exact_greedy() -> None:
    """The n-th cluster has a share of 1/n: random medoids miss most of them."""
    centres, cluster = 5 * drawn(100, 10, seed=1), (100 ** torch.rand(9000, generator=torch.Generator().manual_seed(2)))
    rows = (centres[cluster.long()] + drawn(9000, 10)).double()

    def far(medoids: Tensor) -> float:
        return float(torch.cdist(rows, rows[medoids]).amin(1).mean())

    found = streamed_facility_location(list(rows.split(1000)), 100)
    wanted, random = far(facility_location(rows, 100).indices), far(torch.arange(100))
    assert far(found.indices) < 1.1 * wanted < 0.8 * random
    nearest = torch.cdist(rows, rows[found.indices])
    assert torch.equal(nearest.gather(1, found.assignment[:, None])[:, 0], nearest.amin(1))


def test_a_stream_is_sampled_evenly() -> None:
    streaming = importlib.import_module("thresher.rules.coresets.streaming")
    counts = torch.zeros(4)
    for seed in range(40):
        sample, n = streaming._sampled(list(drawn(1024, 2).split(100)), 128, torch.Generator().manual_seed(seed))
        assert n == 1024
        assert len(sample.places) == len(sample.places.unique()) == 128
        assert torch.equal(sample.rows, drawn(1024, 2).double()[sample.places])
        counts += sample.places.div(256, rounding_mode="floor").bincount(minlength=4)
    assert (counts / counts.sum() - 0.25).abs().max() < 0.03


def test_groups_choose_among_their_own() -> None:
    rows, groups = drawn(90, 3), torch.arange(90) % 4
    found = in_groups(facility_location, rows, groups, fraction=0.3)
    for group in range(4):
        members = (groups == group).nonzero()[:, 0]
        own = facility_location(rows[members], max(1, round(0.3 * len(members))))
        mine = groups[found.indices] == group
        assert torch.equal(found.indices[mine], members[own.indices])
        assert torch.equal(found.cluster_sizes[mine], own.cluster_sizes)
        assert torch.equal(found.indices[found.assignment[members]], members[own.indices[own.assignment]])
    central_ones = in_groups(centrality, rows, groups, fraction=0.3)
    first = (groups == 0).nonzero()[:, 0]
    assert torch.equal(central_ones[:7], first[centrality(rows[first], 7)])
    assert groups[central_ones].bincount().tolist() == groups[found.indices].bincount().tolist()


@pytest.mark.parametrize(
    "rule", [Centrality(fraction=0.3), FacilityLocation(fraction=0.3)], ids=lambda rule: type(rule).__name__
)
@pytest.mark.parametrize("of", [signals.predicted, signals.given], ids=lambda signal: signal.name)
def test_a_rule_keeps_its_share_of_every_class(rule: Centrality, of: signals.Signal) -> None:
    evidence = some_evidence(200)
    decision = ask(per_class(rule, of=of), evidence)
    labels = evidence.read(of)
    for label in range(4):
        members = labels == label
        assert (decision.weights[members] > 0).sum() == max(1, round(0.3 * int(members.sum())))
        if isinstance(rule, FacilityLocation):
            assert decision.weights[members].sum() == members.sum()
            assert torch.isin(decision.columns["cluster"][members], evidence.ids[members]).all()


def test_a_rule_gives_the_clusters_by_id() -> None:
    evidence = some_evidence(60)
    decision = ask(FacilityLocation(by=signals.features, count=7), evidence)
    by_id = evidence.ids.argsort()
    wanted = facility_location(evidence.read(signals.features)[by_id], 7)
    medoids = by_id[wanted.indices]
    assert decision.weights[medoids].tolist() == wanted.cluster_sizes.tolist()
    assert decision.columns["medoid"].nonzero()[:, 0].tolist() == sorted(medoids.tolist())
    assert decision.columns["cluster"][by_id].tolist() == evidence.ids[medoids][wanted.assignment].tolist()
    assert decision.columns["cluster_size"][by_id].tolist() == wanted.cluster_sizes[wanted.assignment].tolist()
    central_ones = ask(Centrality(by=signals.features, count=7), evidence).weights.nonzero()[:, 0]
    assert sorted(by_id[centrality(evidence.read(signals.features)[by_id], 7)].tolist()) == central_ones.tolist()


def test_ties_go_to_the_lower_id() -> None:
    evidence = some_evidence(30)
    alike = same_but(evidence, raw_outputs=torch.zeros(30, 4), targets=torch.zeros(30, dtype=torch.long))
    for rule in (Centrality(count=4), FacilityLocation(count=4)):
        kept = ask(rule, alike).weights > 0
        assert sorted(alike.ids[kept].tolist()) == sorted(alike.ids.tolist())[:4]


def test_a_count_above_the_class_and_a_schedule() -> None:
    evidence = some_evidence(10)
    assert (ask(FacilityLocation(count=99), evidence).weights == 1).all()
    rule = Centrality(fraction=ramp(1.0, 0.2, epochs=4))
    assert [int(ask(rule, evidence.replace(epoch=epoch)).weights.sum()) for epoch in (0, 4)] == [10, 2]


def test_fit_trains_on_the_coreset_and_records_it() -> None:
    rule = warmup(1, per_class(FacilityLocation(fraction=0.5)))
    run = fit(Recipe(each_epoch=rule), net(), examples(40), epochs=2, batch=8, device="cpu")
    table = run.ledger.to_pandas()
    later = table[table["epoch"] == table["epoch"].max()]
    assert {"medoid", "cluster", "cluster_size"} <= set(later.columns)
    assert (later["medoid"] == (later["cluster"] == later["id"])).all()


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "NaN": (lambda: facility_location(torch.tensor([[1.0], [math.nan]]), 1), "NaN or infinite"),
    "numpy": (lambda: facility_location(torch.ones(3, 1).numpy(), 1), "torch.as_tensor"),
    "one row": (lambda: centrality(torch.ones(3), 1), "rows"),
    "too many": (lambda: facility_location(torch.ones(3, 1), 4), "from 1 to 3"),
    "none": (lambda: stochastic_facility_location(torch.ones(3, 1), 0), "from 1 to 3"),
    "slack": (lambda: stochastic_facility_location(torch.ones(3, 1), 1, slack=0.0), "slack"),
    "parts": (lambda: partitioned_facility_location(torch.ones(3, 1), 1, parts=9), "parts"),
    "iterator": (lambda: streamed_facility_location(iter([torch.ones(3, 1)]), 1), "second pass"),
    "short stream": (lambda: streamed_facility_location([torch.ones(3, 1)], 9), "from 1 to 3"),
    "sparse": (lambda: facility_location(torch.eye(3).to_sparse(), 1), r"sparse_coo: .*to_dense\(\)"),
    "sparse to rank": (lambda: centrality(torch.eye(3).to_sparse(), 1), "dense rows"),
    "stream of pairs": (
        lambda: streamed_facility_location([[torch.ones(3, 1), torch.ones(3)]], 1),
        "are a list: give a tensor",
    ),
    "uneven stream": (lambda: streamed_facility_location([torch.ones(3, 1), torch.ones(3, 2)], 1), "rows of one width"),
    "NaN in a stream": (lambda: streamed_facility_location([torch.full((3, 1), math.nan)], 1), "NaN or infinite"),
    "half a medoid": (lambda: streamed_facility_location([torch.ones(3, 1)], 1.5), "whole count"),
    "no stream": (lambda: streamed_facility_location([], 1), "no blocks"),
    "groups": (lambda: in_groups(facility_location, torch.ones(3, 1), torch.arange(2), fraction=0.5), "one group"),
    "named groups": (lambda: in_groups(facility_location, torch.ones(3, 1), list("aba"), fraction=0.5), "np.unique"),
    "real groups": (lambda: in_groups(centrality, torch.ones(3, 1), torch.rand(3), fraction=0.5), "whole numbers"),
    "neither": (lambda: Centrality(), "exactly one"),
    "fraction": (lambda: FacilityLocation(fraction=1.5), "at most 1"),
    "count": (lambda: FacilityLocation(count=0), "at least 1"),
    "batch": (lambda: fit(Recipe(each_batch=Centrality(count=1)), net(), examples(8), epochs=1, batch=8), "each_epoch"),
}


@pytest.mark.parametrize(("make", "says"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_said(make: Callable[[], Any], says: str) -> None:
    with pytest.raises(ThresherError, match=says):
        make()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("rows", CLOUDS.values(), ids=CLOUDS)
def test_cuda_chooses_the_same(rows: Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    for neighbours in (256, -1):
        monkeypatch.setattr(exact, "NEIGHBOURS", neighbours)
        here, there = facility_location(rows, 200), facility_location(rows.cuda(), 200)
        assert all(torch.equal(one, other.cpu()) for one, other in zip(here, there, strict=True))
    assert torch.equal(centrality(rows, 50), centrality(rows.cuda(), 50).cpu())
