"""CRUST in its three forms: the paper's Algorithm 1, what its released code does, and ours."""

import heapq
from dataclasses import dataclass, replace

import pytest
import torch
from some_evidence import drawn, some_evidence
from tiny import examples, net
from torch import nn
from torch.nn.functional import cross_entropy

from thresher import Recipe, ThresherError, fit, signals, weigh
from thresher.methods import MethodFacts, method
from thresher.methods.crust import crust
from thresher.rules import Centrality, Crowd, Rule, ask, centrality, neighbours_within, per_class, warmup

FACTS = MethodFacts(None, 4, 3)


def test_feature_gradient_is_the_gradient_of_each_loss_by_its_features() -> None:
    model, train = net(seed=3), examples(20)
    hidden, head = nn.Sequential(*list(model)[:-1]), list(model)[-1]
    seen = {}

    @dataclass(frozen=True)
    class Reading(Rule):
        by: signals.Signal = signals.feature_gradient

        def __call__(self, evidence: signals.Evidence) -> torch.Tensor:
            seen["found"] = evidence.read(self.by)
            return torch.ones(len(evidence))

    weigh(Reading(), model, train.inputs, train.targets)
    for place in range(len(train)):
        features = hidden(train.inputs[place : place + 1]).detach().requires_grad_()
        cross_entropy(head(features), train.targets[place : place + 1]).backward()
        assert features.grad is not None
        torch.testing.assert_close(seen["found"][place], features.grad[0])


def test_feature_gradient_is_refused_where_outputs_are_not_classes() -> None:
    one = nn.Sequential(nn.Flatten(), nn.LazyLinear(1))
    train = examples(20)
    two = replace(train, targets=train.targets % 2, classes=2)
    with pytest.raises(ThresherError, match="one output for each class"):
        fit(method("crust-released").recipe(), one, two, epochs=7, batch=5, device="cpu")


def released_greedy(rows: torch.Tensor, count: int) -> list[int]:
    """The loop of the released code with its mistake: what it takes for a gain is the whole value after the step."""
    distances = torch.cdist(rows, rows)
    similarity = distances.max() - distances
    covered, chosen = torch.zeros(len(rows), dtype=rows.dtype), list[int]()
    heap = [(-float(similarity[place].sum()), -place) for place in range(len(rows))]
    heapq.heapify(heap)
    while heap and len(chosen) < count:
        _, place = heapq.heappop(heap)
        value = float(torch.maximum(covered, similarity[-place]).sum())
        if heap and value < -heap[0][0]:
            heapq.heappush(heap, (-value, place))
            continue
        chosen.append(-place)
        covered = torch.maximum(covered, similarity[-place])
    return chosen


@pytest.mark.parametrize("seed", range(5))
def test_the_released_greedy_takes_the_most_central(seed: int) -> None:
    rows = drawn(40, 3, seed=seed).double()
    assert sorted(released_greedy(rows, 17)) == sorted(centrality(rows, 17).tolist())


def test_a_crowd_is_counted_one_by_one() -> None:
    rows = drawn(50, 3)
    slow = [sum(bool((one - other).norm() < 1.3) for other in rows) for one in rows]
    assert neighbours_within(rows, 1.3).tolist() == slow
    assert 1 == min(slow) < max(slow) < 50
    evidence = some_evidence(30)
    assert torch.equal(
        ask(Crowd(0.9), evidence).weights, neighbours_within(evidence.read(signals.output_gradient), 0.9).float()
    )
    with pytest.raises(ThresherError, match="above 0"):
        Crowd(0.0)


def test_within_the_released_radius_lies_the_whole_class() -> None:
    """So its weights are the sizes of the given classes, as docs/methods/crust-released.md says."""
    train = examples(80, corrupt=0.4)
    run = fit(method("crust-released").recipe(), lambda: net(seed=1), train, epochs=12, batch=16, device="cpu")
    last = run.ledger.to_pandas()
    last = last[(last["epoch"] == 12) & last["kept"]].set_index("id")
    sizes = torch.bincount(train.labels)
    assert last["weight"].tolist() == [float(sizes[label]) for label in last["target"]]
    assert {*last.groupby("target").size()} == {max(1, round(int(size) / 2)) for size in sizes}
    nearer = replace(method("crust-released").recipe(), each_epoch=per_class(Crowd(0.1), of=signals.given))
    other = fit(nearer, lambda: net(seed=1), train, epochs=1, batch=16, device="cpu").ledger.to_pandas()
    assert (other["weight"] < float(sizes.min())).any(), "a smaller radius leaves some out"


def test_the_released_code_mixes_one_epoch_after_it_first_selects() -> None:
    recipe = method("crust-released").recipe()
    assert isinstance(recipe.each_epoch, warmup)
    assert isinstance(recipe.mix, warmup)
    assert (recipe.each_epoch.epochs, recipe.mix.epochs) == (5, 6)


def test_several_members_are_as_many_visits_whose_weights_add_up_to_the_cluster() -> None:
    train = examples(64)
    once, thrice = (
        fit(replace(crust(FACTS, members), each_epoch=crust(FACTS).each_epoch.then), lambda: net(seed=1), train,
            epochs=1, batch=8, device="cpu")
        for members in (1, 3)
    )  # fmt: skip
    kept = once.ledger.to_pandas()
    assert thrice.history[0]["steps"] == 3 * int(kept["kept"].sum()) // 8
    again = thrice.ledger.to_pandas().set_index("id").loc[kept["id"]]
    assert kept["weight"].tolist() == again["weight"].tolist()
    medoids = kept[kept["kept"]]
    assert (medoids["weight"] == medoids["cluster_size"]).all()
    assert kept["weight"].sum() == len(train)
    assert (medoids["weight"] == 1).any(), "a medoid alone in its cluster counts as one"


def test_the_three_are_three() -> None:
    made = {name: method(name).recipe(classes=4, epochs=30) for name in ("crust", "crust-released", "crust-central")}
    assert len({repr(recipe) for recipe in made.values()}) == 3
    assert made["crust-central"].each_epoch == warmup(5, per_class(Centrality(fraction=0.5)))
    assert all(isinstance(recipe, Recipe) for recipe in made.values())
