"""Starts without labels: objectives against direct formulas, views, the projection that is dropped, and the store."""

import os

import pytest
import torch
from torch import nn
from torch.nn import functional

from thresher import Examples, Recipe, ThresherError, fit, open_run
from thresher.engine.settings import TrainSettings
from thresher.engine.train import train_recipe
from thresher.methods.represent import Started, read_start, represent, start_for, write_start
from thresher.models import NamedModel
from thresher.objectives import Contrastive, CrossCorrelation, contrastive, cross_correlation
from thresher.slots import CropResize, Flip, Grey, Hue, Solarise, Swap, different, sometimes


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("decoupled", [True, False])
def test_contrastive_equals_its_formula(decoupled):
    one, other = drawn(5, 3), drawn(5, 3, seed=1)
    found = contrastive(one, other, 0.5, decoupled)
    for i in range(5):

        def likeness(vector, i=i):
            return float(functional.cosine_similarity(one[i], vector, dim=0)) / 0.5

        against = [likeness(rows[j]) for rows in (one, other) for j in range(5) if j != i]
        against += [] if decoupled else [likeness(other[i])]
        expected = -likeness(other[i]) + torch.tensor(against).exp().sum().log()
        assert found[i].item() == pytest.approx(float(expected), abs=1e-5)


def test_cross_correlation_has_the_value_and_the_gradient_of_the_whole_term():
    one, other = drawn(8, 3).requires_grad_(), drawn(8, 3, seed=1).requires_grad_()

    def whole(a, b):
        a, b = ((z - z.mean(0)) / (z.var(0, correction=0) + 1e-5).sqrt() for z in (a, b))
        c = a.T @ b / len(a)
        gap = (c - torch.eye(3)).square()
        return gap.diagonal().sum() + 0.1 * (gap.sum() - gap.diagonal().sum())

    ours, theirs = cross_correlation(one, other, 0.1).mean(), whole(one, other)
    assert ours.item() == pytest.approx(theirs.item(), rel=1e-5)
    for mine, direct in zip(
        torch.autograd.grad(ours, (one, other)), torch.autograd.grad(theirs, (one, other)), strict=True
    ):
        assert torch.allclose(mine, direct, atol=1e-6)


@pytest.mark.parametrize("view", [CropResize(), Hue(), Grey(), Solarise(), Swap(), different(), sometimes(0.5, Flip())])
@pytest.mark.parametrize("channels", [1, 3])
def test_views_keep_the_shape_and_change_only_by_their_draws(view, channels):
    images = drawn(6, channels, 8, 8)
    before = images.clone()
    seen, again = (view(images, torch.Generator().manual_seed(3)) for _ in range(2))
    assert seen.shape == images.shape
    assert torch.isfinite(seen).all()
    assert torch.equal(seen, again)
    assert torch.equal(images, before)


def test_a_crop_of_the_whole_image_is_the_image_and_a_small_one_lies_inside():
    ramp = torch.arange(8.0).expand(1, 1, 8, 8).repeat(40, 1, 1, 1)
    assert torch.allclose(CropResize((1.0, 1.0))(torch.ones(2, 3, 8, 8), torch.Generator()), torch.ones(2, 3, 8, 8))
    seen = CropResize((0.25, 0.25))(ramp, torch.Generator().manual_seed(0))
    assert seen.min() >= 0
    assert seen.max() <= 7
    spread = seen.amax(3) - seen.amin(3)
    assert (spread < 5.5).all()  # a window of at most 4.7 of 8 pixels


def test_hue_keeps_grey_and_brightness_and_a_full_turn_back_is_the_image():
    images = drawn(4, 3, 2, 2)
    turned = Hue(0.5)(images, torch.Generator().manual_seed(1))
    assert torch.allclose(turned.sum(1), images.sum(1), atol=1e-5)
    assert torch.allclose(turned.square().sum(1), images.square().sum(1), atol=1e-4)
    grey = images.mean(1, keepdim=True).expand_as(images)
    assert torch.allclose(Hue(0.5)(grey, torch.Generator()), grey, atol=1e-5)
    assert torch.equal(Hue(0.5)(images[:, :1], torch.Generator()), images[:, :1])


def test_swap_takes_numbers_of_the_same_place():
    table = torch.arange(50.0)[:, None] * 10 + torch.arange(4.0)
    seen = Swap(0.5)(table, torch.Generator().manual_seed(0))
    assert (seen % 10 == torch.arange(4.0)).all()
    assert 0.3 < (seen != table).float().mean() < 0.6


@pytest.mark.parametrize(
    "wrong", [lambda: CropResize((0.0, 1.0)), lambda: Hue(0.7), lambda: Swap(2), lambda: sometimes(-1, Grey())]
)
def test_impossible_views_are_refused(wrong):
    with pytest.raises(ThresherError, match="needs"):
        wrong()


def test_an_objective_of_views_needs_two():
    data = Examples(drawn(20, 4), torch.arange(20) % 3)
    with pytest.raises(ThresherError, match="at least two views"):
        fit(Recipe(objective=Contrastive(), views=(Swap(),)), "mlp:4", data, epochs=1, batch=10)


MAKE = NamedModel("mlp:16", (6,), 2)


def blobs(n=240):
    """Six numbers that go together within each of two groups."""
    group = torch.arange(n) % 2
    return Examples(2.0 * (2 * group[:, None] - 1) * torch.ones(6) + drawn(n, 6), group)


@pytest.mark.parametrize("objective", [Contrastive(), CrossCorrelation()])
def test_learning_lowers_the_loss_and_leaves_the_head(objective):
    train = blobs()
    first = represent(MAKE, train, epochs=1, objective=objective)
    start = represent(MAKE, train, epochs=8, objective=objective)
    assert start.head == "head"
    assert not any(name.startswith("head") for name in start.state)
    assert any(not torch.equal(first.state[name], value) for name, value in start.state.items())
    made = MAKE()
    head = made.head.weight.clone()
    begun = start.into(made)
    assert torch.equal(begun.head.weight, head)
    assert all(torch.equal(begun.state_dict()[name], value) for name, value in start.state.items())


def test_targets_play_no_part():
    train = blobs()
    other = train.with_targets(1 - train.targets)
    one, two = (represent(MAKE, each, epochs=2) for each in (train, other))
    assert all(torch.equal(one.state[name], two.state[name]) for name in one.state)


def test_a_start_is_stored_once_and_shared_by_runs_on_the_same_inputs(tmp_path, monkeypatch):
    monkeypatch.setenv("THRESHER_STARTS", str(tmp_path))
    train = blobs()
    start_for("represent:2", MAKE, train, TrainSettings())
    (file,) = tmp_path.glob("*.pt")
    written = os.stat(file).st_mtime_ns
    start_for("represent:2", MAKE, train.with_targets(1 - train.targets), TrainSettings(seed=5, epochs=3))
    assert os.stat(file).st_mtime_ns == written
    assert not list(tmp_path.glob("*.run"))
    start_for("represent:1", MAKE, train, TrainSettings())
    start_for("represent:2", NamedModel("mlp:8", (6,), 2), train, TrainSettings())
    start_for("represent:2", MAKE, train.subset(range(200)), TrainSettings())
    assert len(list(tmp_path.glob("*.pt"))) == 4


def test_an_interrupted_start_goes_on(tmp_path):
    train = blobs()

    def stop(moment):
        if moment.epoch == 2:
            raise KeyboardInterrupt

    whole = represent(MAKE, train, epochs=4)
    with pytest.raises(KeyboardInterrupt):
        represent(MAKE, train, epochs=4, watch=stop, out=tmp_path / "begun")
    went_on = represent(MAKE, train, epochs=4, out=tmp_path / "begun")
    assert all(torch.equal(went_on.state[name], value) for name, value in whole.state.items())


def test_fit_begins_from_the_start_and_the_run_opens_again(tmp_path, monkeypatch):
    monkeypatch.setenv("THRESHER_STARTS", str(tmp_path / "starts"))
    train = blobs()
    run = fit("standard", "mlp:16", train, epochs=1, batch=40, start="represent:2", out=tmp_path / "run")
    assert run.about["start_seconds"] > 0
    again = open_run(tmp_path / "run")
    assert again.about["model"] == "mlp:16"
    assert (again.predict(train) == run.predict(train)).all()
    (file,) = (tmp_path / "starts").glob("*.pt")
    same = fit("standard", "mlp:16", train, epochs=1, batch=40, start=str(file))
    assert torch.equal(same.model.head.weight, run.model.head.weight)
    fresh = fit("standard", "mlp:16", train, epochs=1, batch=40)
    assert not torch.equal(fresh.model.head.weight, run.model.head.weight)


@pytest.mark.parametrize(
    ("start", "sentence"),
    [
        ("learn:20", "not understood"),
        ("represent:none", "not understood"),
        ("represent:5:contrast", "did you mean"),
        ("nowhere.pt", "no start nowhere.pt"),
    ],
)
def test_wrong_starts_are_refused(start, sentence, tmp_path, monkeypatch):
    monkeypatch.setenv("THRESHER_STARTS", str(tmp_path))
    with pytest.raises(ThresherError, match=sentence):
        fit("standard", "mlp:16", blobs(), epochs=1, start=start)


def test_a_start_of_another_network_and_a_made_network_are_refused(tmp_path):
    start = represent(MAKE, blobs(), epochs=1)
    write_start(start, tmp_path / "a.pt")
    assert read_start(tmp_path / "a.pt").seconds == start.seconds
    with pytest.raises(ThresherError, match="does not fit the network"):
        Started(NamedModel("mlp:16x16", (6,), 2), start)()
    with pytest.raises(ThresherError, match="networks that are made"):
        fit("standard", nn.Linear(6, 2), blobs(), epochs=1, start=str(tmp_path / "a.pt"))
    (tmp_path / "b.pt").write_bytes(b"nothing")
    with pytest.raises(ThresherError, match="holds no start"):
        read_start(tmp_path / "b.pt")


def test_each_view_is_compared_with_the_next():
    seen = []

    class Watching(Contrastive):
        def forward(self, evidence):
            if self.training and torch.is_grad_enabled():
                seen.append((evidence.outputs, evidence.other("view").outputs))
            return super().forward(evidence)

    data = Examples(drawn(20, 4), torch.arange(20) % 3)
    views = (Swap(0.2), Swap(0.4))
    train_recipe(Recipe(objective=Watching(), views=views), NamedModel("mlp:4", (4,), 3)(), data, epochs=1, batch=20)
    (one, its_other), (two, two_other) = seen[:2]
    assert torch.equal(one, two_other)
    assert torch.equal(two, its_other)
