"""The laws that every recipe is held to: decisions are in the ledger, no step waits, same seed, same bits."""

import random
from typing import Any

import numpy as np
import pytest
import torch
from every_recipe import ALL_RECIPES, CLEAN, KEEP, registered
from strict import strictly
from tiny import Streamed, assert_same_run, examples, net, real_examples, streamed, tensors
from torch import Tensor, nn

from thresher import Examples, Recipe, Run, fit
from thresher.core.evidence import Evidence
from thresher.core.schedules import cosine
from thresher.slots.mix import Mixup
from thresher.slots.relabel import AverageLabels

# 5. Every decision enters the ledger.


@pytest.mark.parametrize("recipe", ALL_RECIPES.values(), ids=ALL_RECIPES.keys())
def test_law_5_every_method_has_its_figures(recipe: Recipe) -> None:
    train = examples(44)
    run = fit(recipe, net, train, epochs=3, batch=8, clean=CLEAN, device="cpu")
    table = run.ledger.to_pandas()
    assert len(table) == 3 * recipe.peers * len(train)
    for record in run.history:
        everyone = table[table["epoch"] == record["epoch"]]
        rows = everyone[everyone["visited"]]
        true = train.columns["true_target"].numpy()[(rows["id"] - 1) // 3]
        right = (rows["taught"] if "taught" in rows else rows["target"]).to_numpy() == true
        weights = rows["weight"].to_numpy(np.float64)
        assert record["clean_share"] == pytest.approx(right[weights > 0].mean())
        left_out = (~everyone["visited"] & (everyone["weight"] == 0)).sum()
        assert record["kept"] == pytest.approx((weights > 0).sum() / (len(rows) + left_out))
        assert record["effective"] == pytest.approx(weights.sum() ** 2 / (weights**2).sum() / len(weights))
        assert record["loss"] == pytest.approx((weights * rows["loss"]).sum() / weights.sum(), rel=1e-5)
        assert rows["loss"].notna().all()
    ids, trust = run.trust()
    assert sorted(ids.tolist()) == sorted(train.ids.tolist())
    assert ((trust >= 0) & (trust <= 1)).all()
    assert trust.unique().numel() > 1


# 6. No host synchronisation inside a step, and static shapes.


@pytest.mark.parametrize("recipe", ALL_RECIPES.values(), ids=ALL_RECIPES.keys())
def test_law_6_no_step_waits_and_all_steps_do_the_same(recipe: Recipe, monkeypatch: pytest.MonkeyPatch) -> None:
    with strictly(monkeypatch) as notes:
        fit(recipe, net, examples(44), steps=9, batch=8, clean=CLEAN, device="cpu")
    assert len(notes) == 9
    # The first step creates the optimizer's state; a schedule's or warmup's epoch may change what a rule does.
    for epoch in (notes[1:5], notes[6:]):
        for step in epoch[1:]:
            assert step == epoch[0]


def test_law_6_regression(monkeypatch: pytest.MonkeyPatch) -> None:
    for recipe in (Recipe(each_batch=KEEP), Recipe(mix=Mixup()), Recipe(relabel=AverageLabels(), average=0.5)):
        with strictly(monkeypatch) as notes:
            fit(recipe, lambda: net(2), real_examples(44), steps=5, batch=8, device="cpu")
        monkeypatch.undo()
        assert len(notes) == 5
        assert notes[1] == notes[2] == notes[3]


def test_law_6_a_skipped_step_does_what_every_step_does(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = [0]

    def zero_once(evidence: Evidence) -> Tensor:
        asked[0] += 1
        return torch.full((len(evidence),), float(asked[0] != 3))

    with strictly(monkeypatch) as notes:
        run = fit(
            Recipe(each_batch=zero_once, average=0.9, clip=1.0), net, examples(44), steps=5, batch=8, device="cpu"
        )
    assert sum(record["skipped"] for record in run.history) == 1
    assert notes[1] == notes[2] == notes[3]


# 7. Same seed, same result.

SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "momentum and schedule": {
        "optimizer": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9),
        "schedule": cosine(1.0),
    },
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS.keys())
@pytest.mark.parametrize("recipe", ALL_RECIPES.values(), ids=ALL_RECIPES.keys())
def test_law_7_same_seed_same_bits_and_other_seed_other_bits(recipe: Recipe, settings: dict[str, Any]) -> None:
    def run(seed: int, noise: int) -> Run:
        torch.manual_seed(noise)
        random.seed(noise)
        np.random.seed(noise)  # noqa: NPY002
        data: dict[str, Any] = {"data": examples(), "clean": CLEAN}
        return fit(recipe, lambda: net(dropout=0.5), **data, epochs=2, batch=8, seed=seed, device="cpu", **settings)

    first = run(0, 1)
    assert_same_run(first, run(0, 2))
    assert any((a != b).any() for a, b in zip(tensors(first), tensors(run(1, 1)), strict=True))


def test_law_7_dropout_differs_between_steps_and_epochs_but_not_between_runs() -> None:
    """A network that only passes on what dropout leaves, so that the masks themselves can be compared."""

    def masks(seed: int) -> list[list[float]]:
        seen: list[list[float]] = []

        class Noted(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.drop, self.head = nn.Dropout(0.5), nn.Linear(16, 3)

            def forward(self, inputs: Tensor) -> Tensor:
                dropped = self.drop(torch.ones_like(inputs.flatten(1)))
                if self.training:
                    seen.append(dropped.flatten().tolist())
                outputs: Tensor = self.head(dropped)
                return outputs

        fit(Recipe(), Noted(), examples(16), epochs=2, batch=8, seed=seed, device="cpu")
        return seen

    first = masks(0)
    assert first == masks(0)
    assert len({str(mask) for mask in first}) == 4
    assert all(a != b for a, b in zip(first, masks(1), strict=True))


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("name", ["standard", "prl-l", "co-teaching"])
def test_law_7_streamed_equals_in_memory(name: str, workers: int) -> None:
    recipe, train = registered()[name], examples()
    settings: dict[str, Any] = {"epochs": 2, "batch": 8, "device": "cpu"}
    here = fit(recipe, lambda: net(dropout=0.5), train, test=examples(20, seed=1), **settings)
    there = fit(
        recipe,
        lambda: net(dropout=0.5),
        streamed(train),
        test=streamed(examples(20, seed=1)),
        workers=workers,
        **settings,
    )
    assert_same_run(here, there)


class Jittered(Streamed):
    """Items with random transforms of all three global generators."""

    def __getitem__(self, position: int) -> Any:
        noise = torch.rand(1) + random.random() + np.random.random()  # noqa: NPY002
        return self.inputs[position] + noise.float(), "item"


def test_law_7_random_transforms_do_not_depend_on_workers_or_global_state() -> None:
    train = examples()
    moving = Examples(Jittered(train.inputs), train.targets, ids=train.ids, classes=3)
    runs = []
    for noise, workers in ((1, 0), (2, 1), (3, 2)):
        torch.manual_seed(noise)
        random.seed(noise)
        runs.append(fit(Recipe(), net, moving, epochs=2, batch=8, workers=workers, device="cpu"))
    assert_same_run(runs[0], runs[1])
    assert_same_run(runs[0], runs[2])
    losses = runs[0].ledger.to_pandas().groupby("epoch")["loss"].mean()
    still = (
        fit(Recipe(), net, train, epochs=2, batch=8, device="cpu").ledger.to_pandas().groupby("epoch")["loss"].mean()
    )
    assert (losses != still).all()


def test_law_7_a_watcher_cannot_change_the_run() -> None:
    def busy(moment: Any) -> None:  # noqa: ARG001
        torch.rand(7)
        torch.manual_seed(5)

    quiet = fit(Recipe(mix=Mixup()), lambda: net(dropout=0.5), examples(), epochs=2, batch=8, device="cpu")
    watched = fit(
        Recipe(mix=Mixup()), lambda: net(dropout=0.5), examples(), epochs=2, batch=8, watch=busy, device="cpu"
    )
    assert_same_run(quiet, watched)
