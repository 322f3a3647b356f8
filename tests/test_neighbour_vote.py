"""Votes of neighbours against a slow reference, and what rules and relabelling make of them."""

import numpy as np
import pytest
import torch
from reference.neighbours import votes as slow_votes

from thresher import Examples, Recipe, ThresherError, fit
from thresher.core.evidence import Evidence
from thresher.core.signals import features
from thresher.methods import SURE_AND_VOTED, MethodFacts, reclaim_vote
from thresher.objectives import CrossEntropy
from thresher.rules import NeighbourVote, Voted, from_average, neighbour_votes, shares_of_votes, trusting
from thresher.rules import neighbour_vote as module
from thresher.rules.neighbour_vote import nearest_others, votes_at
from thresher.slots import AverageLabels, TeacherLabels, VoteLabels, labels_of_peer


@pytest.mark.parametrize(("n", "count"), [(40, 5), (40, 200), (7, 1), (2, 3)])
@pytest.mark.parametrize("rows", [1, 3, 1000])
def test_votes_equal_the_reference_in_blocks_of_any_size(n, count, rows, monkeypatch):
    draws = torch.Generator().manual_seed(n + count)
    places = torch.randn(n, 6, generator=draws)
    labels = torch.randint(0, 3, (n,), generator=draws)
    monkeypatch.setattr(module, "rows_at_once", lambda *_: rows)
    monkeypatch.setattr(module, "BLOCKS", 1)
    assert np.array_equal(
        neighbour_votes(places, labels, 3, count).numpy(), slow_votes(places.double().numpy(), labels.numpy(), 3, count)
    )


@pytest.mark.parametrize("count", [1, 7, 40])
def test_neighbours_that_are_kept_vote_as_those_that_are_found_anew(count, monkeypatch):
    monkeypatch.setattr(module, "rows_at_once", lambda *_: 3)
    embeddings, labels = torch.randn(40, 6, generator=torch.Generator().manual_seed(0)), torch.arange(40) % 3
    places = nearest_others(embeddings, count)
    assert torch.equal(votes_at(places, labels, 3), neighbour_votes(embeddings, labels, 3, count))


def test_kept_neighbours_stay_those_of_the_first_epoch():
    rule, n = NeighbourVote(count=5, sure=None, kept=True), 30
    generator = torch.Generator().manual_seed(0)
    targets = torch.arange(n) % 3

    def asked(memory):
        known = {features: torch.randn(n, 4, generator=generator)}
        outputs = torch.zeros(n, 3)
        return rule(Evidence(torch.arange(n), targets, CrossEntropy(), outputs, classes=3, memory=memory, known=known))

    first = asked({})
    again, other = asked(first.memory), asked({})
    assert torch.equal(again.columns["vote_given"], first.columns["vote_given"])
    assert not torch.equal(other.columns["vote_given"], first.columns["vote_given"])


def test_neighbours_as_near_as_the_last_one_vote_too():
    places = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [0.0, 1.0]])
    labels = torch.tensor([0, 0, 1, 1])
    assert neighbour_votes(places, labels, 2, 1).tolist() == [[1.0, 2.0], [0.0, 2.0], [1.0, 1.0], [1.0, 1.0]]
    assert neighbour_votes(places[:1], labels[:1], 2, 1).tolist() == [[0.0, 0.0]]


def test_large_classes_win_no_more_often():
    labels = torch.tensor([0] * 90 + [1] * 10)
    assert shares_of_votes(torch.tensor([[6.0, 4.0]]), labels).argmax(1).item() == 1


def _evidence(outputs=None):
    """Two groups of ten that look alike inside; one label of each is wrong."""
    sides = torch.tensor([[1.0, 0.1]] * 10 + [[0.1, 1.0]] * 10) + 0.01 * torch.randn(
        20, 2, generator=torch.Generator().manual_seed(0)
    )
    targets = torch.tensor([0] * 10 + [1] * 10)
    targets[0], targets[10] = 1, 0
    outputs = torch.zeros(20, 2) if outputs is None else outputs
    about = {
        "ids": torch.arange(20), "targets": targets, "objective": CrossEntropy(), "raw_outputs": outputs, "classes": 2
    }  # fmt: skip
    own = Evidence(**about, known={features: sides})
    return own.replace(others={"average": Evidence(**about, known={features: sides})})


def test_a_label_that_loses_the_vote_is_not_trusted_and_learns_the_winner():
    evidence = _evidence()
    decision = trusting(from_average(NeighbourVote(count=5)), None)(evidence)
    assert decision.weights.tolist() == [0.0, *[1.0] * 9, 0.0, *[1.0] * 9]
    seen = evidence.replace(columns=decision.columns)
    early, late = VoteLabels(1.0, 0.5, epochs=1), VoteLabels(1.0, 0.5, epochs=0)
    assert early(seen)[[0, 10]].tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert torch.equal(late(seen), TeacherLabels(1.0, 0.5)(seen))


def test_sure_predictions_vote_in_place_of_given_labels():
    sure = torch.tensor([[0.0, 9.0]]).repeat(20, 1)
    weights = NeighbourVote(count=5, sure=0.9)(_evidence(sure)).weights
    assert weights.sum() == 10  # all vote for class 1, which half of the labels are
    assert NeighbourVote(count=5, sure=None)(_evidence(sure)).weights.sum() == 18


def test_voted_asks_whether_the_average_predicts_the_winner():
    outputs = torch.tensor([[1.0, 0.0]] * 20)
    decision = trusting(NeighbourVote(count=5), Voted())(_evidence(outputs))
    assert decision.weights[[0, 10]].tolist() == [1.0, 0.0]
    with pytest.raises(ThresherError, match="the rest of trusting"):
        Voted()(_evidence())


@pytest.mark.parametrize("wrong", [{"count": 0}, {"sure": 1.5}])
def test_impossible_votes_are_refused(wrong):
    with pytest.raises(ThresherError, match="NeighbourVote needs"):
        NeighbourVote(**wrong)
    with pytest.raises(ThresherError, match="once an epoch"):
        labels_of_peer(AverageLabels())


def _two_blobs(wrong=0.3):
    draws = torch.Generator().manual_seed(1)
    true = torch.arange(200) % 2
    inputs = torch.randn(200, 4, generator=draws) + 4 * (2 * true[:, None] - 1)
    flipped = torch.rand(200, generator=draws) < wrong
    return inputs, torch.where(flipped, 1 - true, true), true


def test_features_that_are_brought_are_those_that_vote():
    inputs, given, true = _two_blobs()
    brought = torch.nn.functional.one_hot(true, 2).float() + 0.01 * torch.rand(200, 2)
    train = Examples(inputs, given, columns={"features": brought})
    right = fit(_vote_alone(), "mlp:4", train, epochs=1, batch=20).ledger.table().to_pandas()
    assert ((right["weight"] > 0).to_numpy() == (given == true).numpy()).all()
    misleading = train.with_columns(features=torch.randn(200, 2))
    other = fit(_vote_alone(), "mlp:4", misleading, epochs=1, batch=20).ledger.table().to_pandas()
    assert ((other["weight"] > 0).to_numpy() != (given == true).numpy()).any()


def _vote_alone():
    return Recipe(each_epoch=NeighbourVote(count=60, sure=None))


def test_votes_select_to_the_end_where_nothing_follows():
    inputs, given, true = _two_blobs()
    train = Examples(inputs, given, columns={"true_target": true, "is_corrupt": given != true})
    recipe = reclaim_vote(MethodFacts(None, 2, 5), vote=NeighbourVote(count=60), later=None, rest=SURE_AND_VOTED)
    run = fit(recipe, "mlp:16", train, epochs=5, batch=20)
    assert all(record["trusted_clean"] == 1.0 for record in run.history)
    assert "noise_rate" not in run.history[-1]


@pytest.mark.parametrize("peers", [1, 2])
def test_reclaim_by_votes_teaches_right_labels(peers):
    inputs, given, true = _two_blobs()
    recipe = reclaim_vote(MethodFacts(None, 2, 10), vote=NeighbourVote(count=60), peers=peers)
    train = Examples(inputs, given, columns={"true_target": true, "is_corrupt": given != true})
    run = fit(recipe, "mlp:16", train, test=Examples(inputs, true), epochs=10, batch=20)
    assert run.history[0]["trusted_clean"] == 1.0
    assert run.history[0]["wrong_found"] > 0.97
    assert run.history[-1]["score"] > 0.97
    assert ("together" in run.history[-1]["scores"]) == (peers > 1)


def test_two_networks_label_for_each_other():
    evidence = _evidence()
    peer = evidence.replace(raw_outputs=torch.tensor([[0.0, 3.0]] * 20), known={})
    peer = peer.replace(others={"average": peer})
    linked = evidence.replace(others={**evidence.others, "peer": peer}, columns={"trusted": torch.zeros(20)})
    assert (labels_of_peer(TeacherLabels())(linked).argmax(1) == 1).all()
