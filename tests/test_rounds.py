"""Rules asked in parts: equal to a slow version of two rounds, every example in one part, exact where all fits."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from reference import coreset, diverse, two_rounds
from torch import Tensor, nn

from thresher import Examples, Recipe, acquire, fit, signals
from thresher.core.evidence import Evidence
from thresher.core.rounds import Rounds, proposals, rounds_of
from thresher.core.rule import Decision, Rule, warmup
from thresher.engine.loop.rounds import Parts, decided_in_parts
from thresher.objectives import as_objective
from thresher.rules import (
    Centrality,
    FacilityLocation,
    KCentre,
    KeepSmallest,
    KMeansPlusPlus,
    NeighbourVote,
    once,
    per_class,
)

N, COUNT = 90, 4
PARTS = [list(range(first, N, 3)) for first in range(3)]
SMALL = 2e-6  # GiB, less than half of what these sets have


def rows(seed: int = 0) -> Tensor:
    return torch.randn(N, 3, generator=torch.Generator().manual_seed(seed)).double()


def evidence(positions: Tensor, labelled: Tensor) -> Evidence:
    """Features of some rows, which the rules read, with ids that are not in the order of the rows."""

    def of(features: Tensor, ids: Tensor) -> Evidence:
        n = len(features)
        return Evidence(
            ids=ids, targets=torch.zeros(n, dtype=torch.long), objective=as_objective(None, "classification"),
            raw_outputs=torch.zeros(n, 2), classes=2, known={signals.features: features},
        )  # fmt: skip

    return of(rows()[positions], 500 + 2 * positions).replace(others={"labelled": of(labelled, torch.arange(5))})


def decided(rule: Rule) -> Decision:
    labelled = rows(1)[:5]
    rounds = rounds_of(rule, evidence(torch.arange(N), labelled), len(PARTS))
    assert rounds is not None
    parts = Parts([torch.tensor(part) for part in PARTS], None, seed=0)
    some = evidence(torch.arange(2), labelled)
    ids = 500 + 2 * torch.arange(N)
    return decided_in_parts(rounds, parts, lambda at: evidence(at, labelled), some, [signals.features], ids)


def choose(rule: Rule) -> Callable[[Sequence[int], int], list[int]]:
    """The slow version of what a rule chooses of some rows; draws are those of the part the rows are."""

    def chosen(some: Sequence[int], count: int) -> list[int]:
        table = rows()[list(some)]
        if isinstance(rule, KMeansPlusPlus):
            place = PARTS.index(list(some)) if list(some) in PARTS else len(PARTS)
            draws = Parts([], None, seed=0).draws(place, torch.device("cpu"))
            places = diverse.kmeans_plus_plus(table, count, draws)
        elif isinstance(rule, KCentre):
            places = diverse.k_centre(table, count, rows(1)[:5])
        elif isinstance(rule, FacilityLocation):
            places = coreset.greedy(coreset.whole_distances(table.tolist()), count)
        else:
            places = coreset.central(coreset.whole_distances(table.tolist()), count)
        return [some[place] for place in places]

    return chosen


@pytest.mark.parametrize(
    "rule",
    [KCentre(count=COUNT), KMeansPlusPlus(by=signals.features, count=COUNT),
     FacilityLocation(by=signals.features, count=COUNT), Centrality(by=signals.features, count=COUNT),
     Centrality(by=signals.features, fraction=COUNT / N)],
    ids=lambda rule: type(rule).__name__,
)  # fmt: skip
def test_two_rounds_choose_what_the_slow_version_chooses(rule: Rule) -> None:
    found = decided(rule)
    proposed, wanted = two_rounds.chosen(PARTS, COUNT, COUNT, choose(rule))
    assert found.columns["proposed"].nonzero()[:, 0].tolist() == proposed
    assert (found.weights > 0).nonzero()[:, 0].tolist() == sorted(wanted)
    if "pick" in found.columns:
        assert [wanted.index(row) + 1 for row in sorted(wanted)] == found.columns["pick"][sorted(wanted)].tolist()


def test_medoids_of_two_rounds_count_every_example_once() -> None:
    rule = FacilityLocation(by=signals.features, count=COUNT)
    found, table = decided(rule), rows().tolist()

    def nearest(row: int, medoids: Sequence[int]) -> int:
        return min(
            medoids, key=lambda medoid: sum((a - b) ** 2 for a, b in zip(table[row], table[medoid], strict=True))
        )

    wanted = two_rounds.members(PARTS, COUNT, COUNT, choose(rule), nearest)
    assert found.weights.sum() == N
    for medoid, members in wanted.items():
        assert found.weights[medoid] == len(members)
        assert (found.columns["cluster"] == 500 + 2 * medoid).nonzero()[:, 0].tolist() == sorted(members)
        assert set(found.columns["cluster_size"][members].tolist()) == {len(members)}


@pytest.mark.parametrize(("count", "n", "parts"), [(1, 9, 3), (10, 100, 2), (33, 100, 7), (99, 100, 10), (3, 50, 5)])
def test_parts_propose_no_more_than_fits_into_one_of_them(count: int, n: int, parts: int) -> None:
    each, again = proposals(count, n, parts)
    assert len(each) == parts
    if again:
        assert count <= sum(each) <= max(count, n // parts)
    else:
        assert sum(each) == count
        assert max(each) <= -(-n // parts)


def blobs() -> Examples:
    draws = torch.Generator().manual_seed(0)
    targets = torch.randint(0, 3, (203,), generator=draws)
    inputs = torch.randn(203, 6, generator=draws) + 2 * targets[:, None]
    return replace(Examples(inputs, targets, classes=3), ids=1000 - 3 * torch.arange(203), checked=False)


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))


def trained(rule: Any, at_once: float, **more: Any) -> Any:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        run = fit(
            Recipe(each_epoch=rule), network, blobs(), batch=20, epochs=3, signals_at_once=at_once, device="cpu", **more
        )
    table = {name: run.ledger.table()[name].to_numpy() for name in run.ledger.table().column_names}
    return table, " ".join(str(each.message) for each in said)


@pytest.mark.parametrize(
    "rule",
    [per_class(Centrality(by=signals.output_gradient, fraction=0.1)),
     FacilityLocation(by=signals.features, count=30), FacilityLocation(by=signals.features, fraction=0.5),
     warmup(1, KMeansPlusPlus(count=40)), NeighbourVote(count=5)],
    ids=["per_class", "count", "fraction", "warmup", "neighbours"],
)  # fmt: skip
def test_a_run_tells_in_which_part_every_example_was(rule: Any) -> None:
    table, said = trained(rule, SMALL)
    asked = table["epoch"] > (1 if isinstance(rule, warmup) else 0)
    parts = table["part"][asked]
    assert "The rule is asked about" in said
    assert set(parts) == set(range(1, int(parts.max()) + 1))
    assert parts.max() > 1
    sizes = np.bincount(parts.astype(int))[1:] / (asked.sum() / 203)
    assert sizes.max() - sizes.min() <= 1  # every example in one part of each epoch
    whole, nothing = trained(rule, 8.0)
    assert "part" not in whole
    assert "asked about" not in nothing


def test_epochs_have_parts_of_their_own_and_seeds_decide_them() -> None:
    rule = Centrality(by=signals.output_gradient, fraction=0.2)
    (one, _), (again, _), (other, _) = (trained(rule, SMALL, seed=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one["part"], again["part"])
    np.testing.assert_array_equal(one["weight"], again["weight"])
    assert (one["part"] != other["part"]).any()
    assert (one["part"][one["epoch"] == 1] != one["part"][one["epoch"] == 2]).any()


def test_what_cannot_be_asked_in_parts_sees_all() -> None:
    for rule in (
        KeepSmallest(by=signals.loss, fraction=0.5),
        once(Centrality(fraction=0.5)),
        NeighbourVote(count=5, kept=True),
    ):
        table, said = trained(rule, SMALL)
        assert "part" not in table
        assert "asked about" not in said


@pytest.mark.parametrize("rule", [KMeansPlusPlus(count=12), KCentre(count=12)], ids=["badge", "coreset"])
def test_acquire_chooses_in_two_rounds_where_the_pool_is_too_large(rule: Rule, tmp_path: Any) -> None:
    torch.manual_seed(0)
    pool, model = blobs(), network()
    more = {"labelled": pool.subset(torch.arange(10))} if isinstance(rule, KCentre) else {}
    whole = acquire(rule, model, pool, **more)
    with pytest.warns(UserWarning, match=r"random parts of 203 examples.*what each proposes is chosen from"):
        in_parts = acquire(rule, model, pool, signals_at_once=SMALL, **more)
    assert len(set(in_parts.tolist())) == 12
    assert isinstance(rule, KCentre) or in_parts.tolist() != whole.tolist()
    assert acquire(rule, model, pool, signals_at_once=SMALL, on_disk=tmp_path, **more).tolist() == whole.tolist()


def test_a_rule_of_ones_own_may_be_asked_in_parts() -> None:
    class Half(Rule):
        def rounds(self, evidence: Evidence, parts: int) -> Rounds:  # noqa: ARG002
            return Rounds([self] * parts)

        def __call__(self, evidence: Evidence) -> Tensor:
            return (torch.arange(len(evidence)) < len(evidence) // 2).float()

    table, said = trained(Half(), 1e-9)
    assert "what each decides stands" in said
    weights, parts = (table[name][table["epoch"] == 1] for name in ("weight", "part"))
    kept = [weights[parts == part] for part in np.unique(parts)]
    assert len(kept) == 14  # parts whose proposals would fit into one of them
    assert all(part.sum() == len(part) // 2 for part in kept)
