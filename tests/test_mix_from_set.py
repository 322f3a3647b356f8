"""Mixing with partners from the whole set: who they are, what is blended, in memory and streamed."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import assert_same_run, examples, net, real_examples, streamed
from torch import Tensor, nn
from torch.nn import functional

from thresher import Recipe, fit, signals
from thresher.core.errors import ThresherError
from thresher.core.evidence import Evidence
from thresher.core.rule import Rule
from thresher.rules import Decision, FacilityLocation, per_class, warmup
from thresher.slots.mix import ClusterMixup, MixFromSet, Mixup, Pairing, SameClassMixup, Visits, random_partners


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=12), st.integers(0, 99))
@settings(deadline=None, max_examples=60)
def test_a_partner_is_another_one_of_the_group_and_nobody_is_favoured(groups: list[int], seed: int) -> None:
    tags = torch.tensor(groups)
    everyone = torch.arange(len(tags)).expand(400, -1)
    drawn = random_partners(tags, everyone, seeded(seed))
    assert (tags[drawn] == tags[everyone]).all()
    for at, tag in enumerate(groups):
        others = [place for place, other in enumerate(groups) if other == tag and place != at] or [at]
        counts = drawn[:, at].bincount(minlength=len(groups))
        assert set(counts.nonzero().flatten().tolist()) == set(others)
        assert (counts[others] - 400 / len(others)).abs().max() < 6 * 400**0.5


def visits(order: Tensor, epoch: int = 0, **decided: Tensor) -> Visits:
    return Visits(order, examples(), decided, epoch, seeded())


def test_clusters_are_mixed_one_share_each_and_a_lone_medoid_stays_as_it_is() -> None:
    order = torch.tensor([[0, 1, 2], [3, 4, 0]])
    cluster = torch.full((44,), 40)
    cluster[3] = 7
    drawn = ClusterMixup(0.5).draw(visits(order, cluster=cluster))
    assert drawn is not None
    assert drawn.partner.shape == drawn.share.shape == order.shape
    assert len(drawn.share.unique()) == 6
    assert drawn.partner[1, 0] == 3
    assert drawn.share[1, 0] == 1.0
    assert ((drawn.partner != order).sum()) == 5
    assert drawn.share.dtype == torch.float32


def test_the_released_mixing_has_one_share_a_batch_near_one_within_the_given_class() -> None:
    order = torch.arange(40).view(10, 4)
    drawn = SameClassMixup().draw(visits(order))
    labels = examples().labels
    assert (labels[drawn.partner] == labels[order]).all()
    assert all(len(row.unique()) == 1 for row in drawn.share)
    many = SameClassMixup().draw(visits(torch.arange(44)[:, None].expand(44, 100).reshape(-1, 2)))
    assert float(many.share.mean()) == pytest.approx(1 / 1.1, abs=0.03)


@pytest.mark.parametrize("mix", [Mixup(), SameClassMixup()], ids=["within a batch", "from the set"])
def test_nothing_is_mixed_before_its_time_and_everything_from_then_on(mix: Any) -> None:
    def run(epochs: int, mix: Any) -> Any:
        return fit(Recipe(mix=mix), net(seed=1, dropout=0.5), examples(44), epochs=epochs, batch=11, device="cpu")

    assert_same_run(run(2, warmup(2, mix)), run(2, None))
    assert_same_run(run(2, warmup(0, mix)), run(2, mix))
    late, plain = run(3, warmup(2, mix)), run(3, None)
    assert late.history[1]["loss"] == plain.history[1]["loss"]
    assert late.history[2]["loss"] != plain.history[2]["loss"]


@pytest.mark.parametrize("given", [(-1, Mixup()), (3, None)])
def test_a_mix_that_never_begins_is_refused(given: tuple[Any, Any]) -> None:
    with pytest.raises(ThresherError, match="is not a warm-up"):
        warmup(*given)
    with pytest.raises(ThresherError, match=r"epochs=Mixup.* give a number"):
        warmup(Mixup(), 3)  # type: ignore[arg-type]


def test_without_clusters_nothing_is_mixed() -> None:
    assert ClusterMixup().draw(visits(torch.zeros(1, 2, dtype=torch.long))) is None


class Fixed(MixFromSet):
    """Everyone with the example ten places on, of which it keeps a quarter."""

    def draw(self, visits: Visits) -> Pairing:
        return Pairing((visits.order + 10) % len(visits.examples), torch.full(visits.order.shape, 0.25))


class FixedInputs(Fixed):
    blends_targets = False


class HalfByCluster(Rule):
    """Weight 2 for even ids, 0 for the rest; everyone in one cluster."""

    gives = frozenset({"cluster"})

    def __call__(self, evidence: Evidence) -> Decision:
        even = (evidence.ids % 2 == 0).float()
        return Decision(2 * even, {"cluster": torch.zeros_like(evidence.ids)})


@pytest.mark.parametrize("mix", [Fixed(), FixedInputs()], ids=["inputs and targets", "inputs"])
@pytest.mark.parametrize("stream", [False, True], ids=["in memory", "streamed"])
@pytest.mark.parametrize("real", [False, True], ids=["classes", "real"])
def test_a_step_blends_with_partners_that_count_for_nothing_themselves(mix: Any, stream: bool, real: bool) -> None:
    train = real_examples(24) if real else examples(24)
    model, twin = net(train.outputs, seed=1), net(train.outputs, seed=1)
    inputs, targets = train.inputs, train.targets if real else functional.one_hot(train.targets, 3).float()
    assert isinstance(inputs, Tensor)
    chosen = (train.ids % 2 == 0).nonzero().flatten()
    partner = (chosen + 10) % 24
    mixed = 0.25 * inputs[chosen] + 0.75 * inputs[partner]
    wanted = 0.25 * targets[chosen] + 0.75 * targets[partner] if mix.blends_targets else targets[chosen]
    outputs = twin(mixed)
    losses = (outputs - wanted).square().sum(1) / 2 if real else -(wanted * outputs.log_softmax(1)).sum(1)
    losses.mean().backward()
    expected = [p - 0.1 * p.grad for p in twin.parameters() if p.grad is not None]
    data = streamed(train) if stream else train
    recipe = Recipe(each_epoch=HalfByCluster(), mix=mix)
    fit(recipe, model, data, steps=1, batch=12, optimizer=lambda p: torch.optim.SGD(p, lr=0.1), device="cpu")
    for ours, theirs in zip(model.parameters(), expected, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_a_stream_gives_the_run_of_the_set_in_memory() -> None:
    recipe = Recipe(each_epoch=warmup(1, per_class(FacilityLocation(fraction=0.5))), mix=ClusterMixup())
    ours, theirs = (
        fit(recipe, net, data, epochs=3, batch=8, device="cpu") for data in (examples(), streamed(examples()))
    )
    assert_same_run(ours, theirs)


def test_partners_are_augmented_by_draws_of_their_own() -> None:
    seen: list[Tensor] = []

    class Noted(nn.Sequential):
        def forward(self, inputs: Tensor) -> Tensor:
            seen.append(inputs.detach().clone())
            outputs: Tensor = super().forward(inputs)
            return outputs

    values = iter([5.0, 4.0, 8.0])  # the first is drawn when the view is tried

    def marked(images: Tensor, generator: torch.Generator) -> Tensor:  # noqa: ARG001
        return torch.full_like(images, next(values))

    recipe = Recipe(each_epoch=HalfByCluster(), mix=Fixed(), views=(marked,))
    fit(recipe, Noted(nn.Flatten(), nn.Linear(16, 3)), examples(), steps=1, batch=8, device="cpu")
    mixed = [inputs for inputs in seen if len(inputs) == 8]
    assert [inputs.unique().tolist() for inputs in mixed] == [[0.25 * 4 + 0.75 * 8]]


def test_the_ledger_tells_medoid_cluster_size_and_who_was_selected() -> None:
    train = examples()
    recipe = Recipe(
        each_epoch=warmup(1, per_class(FacilityLocation(fraction=0.5), of=signals.given)), mix=ClusterMixup()
    )
    table = fit(recipe, net, train, epochs=2, batch=8, device="cpu").ledger.to_pandas()
    first, second = (table[table["epoch"] == epoch] for epoch in (1, 2))
    assert first["cluster"].isna().all()
    assert first["kept"].all()
    sizes = second.groupby("cluster")["id"].count()
    assert (second["cluster_size"] == second["cluster"].map(sizes)).all()
    assert (second["medoid"].astype(bool) == (second["cluster"] == second["id"])).all()
    assert (second["kept"] == second["medoid"].astype(bool)).all()
    assert (second["weight"] == second["medoid"] * second["cluster_size"]).all()
    own = second.set_index("id")["target"]
    assert (own[second["cluster"].astype(int)].to_numpy() == second["target"].to_numpy()).all()


def test_limit_everyone_a_medoid_is_plain_training_with_equal_weights() -> None:
    everyone, plain = Recipe(each_epoch=FacilityLocation(fraction=1.0), mix=ClusterMixup()), Recipe()
    ours, theirs = (
        fit(recipe, lambda: net(seed=2), examples(), epochs=2, batch=8, device="cpu") for recipe in (everyone, plain)
    )
    for mine, other in zip(ours.model.parameters(), theirs.model.parameters(), strict=True):
        torch.testing.assert_close(mine, other)
