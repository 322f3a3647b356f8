"""The active-learning loop: it is the obvious one, the same again, and goes on after a kill at any write."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from reference.active import loop as obvious_loop
from tiny import examples, net, real_examples, streamed, tensors
from torch import nn

import thresher.core.files
from thresher import Examples, Moment, Recipe, Run, ThresherError, signals
from thresher.bench.compare.rows import compare
from thresher.bench.run.results import read, results_file
from thresher.bench.suites import SUITES
from thresher.core.rule import RuleLike
from thresher.corruption import corrupt
from thresher.methods import Loop, TrainedTo, active_loop, method
from thresher.methods.acquisitions import acquisition
from thresher.rules import KeepSmallest
from thresher.rules.expected_trust import mean_of_nearest_rows
from thresher.slots.average import Growing
from thresher.slots.clip import Clamped

POOL, TEST = examples(60), examples(30, seed=8, corrupt=0.0)
PAPER = Recipe(clip=Clamped(0.1), average=Growing())
TRAINING: dict[str, Any] = {"epochs": 3, "batch": 8, "device": "cpu"}
BUYING: dict[str, Any] = {"start": 12, "count": 6, "rounds": 2, "test": TEST}


def looped(by: str = "s-badge", recipe: Recipe = PAPER, **changes: Any) -> Loop:
    return active_loop(
        recipe, changes.pop("model", net), changes.pop("pool", POOL), by=by, **{**BUYING, **TRAINING, **changes}
    )


def without_clock(loop: Loop) -> list[dict[str, Any]]:
    return [{name: value for name, value in record.items() if name != "seconds"} for record in loop.history]


def assert_same_loop(one: Loop, other: Loop) -> None:
    assert one.bought == other.bought
    assert without_clock(one) == without_clock(other)
    assert all(torch.equal(*pair) for pair in zip(tensors(one.run), tensors(other.run), strict=True))


@pytest.mark.parametrize("by", ["random", "margin", "coreset", "badge", "s-badge"])
def test_it_is_the_obvious_loop(by: str) -> None:
    found = looped(by, seed=3)
    bought, scores = obvious_loop(
        PAPER, net, POOL, TEST, acquisition(by).rule(6), start=12, rounds=2, seed=3, **TRAINING
    )
    assert found.bought == [*bought, []]
    assert found.scores == pytest.approx(scores)
    assert [record["labelled"] for record in found.history] == [12, 18, 24]
    everything = [id_ for ids in found.bought for id_ in ids]
    assert len(set(everything)) == len(everything) == 24


def test_the_same_seed_gives_the_same_and_another_does_not() -> None:
    assert_same_loop(looped(seed=1), looped(seed=1))
    assert looped(seed=1).bought != looped(seed=2).bought


def test_nothing_reads_a_target_before_it_is_bought() -> None:
    before = looped(rounds=1)
    known = torch.isin(POOL.ids, torch.tensor(before.bought[0]))
    other = POOL.with_targets(torch.where(known, POOL.targets, (POOL.targets + 1) % 3))
    assert looped(rounds=1, pool=other).bought[1] == before.bought[1]


def test_clean_picks_are_counted_and_what_is_unknown_stays_so() -> None:
    found = looped("random")
    corrupt = dict(zip(POOL.ids.tolist(), POOL.columns["is_corrupt"].tolist(), strict=True))
    clean = [sum(not corrupt[id_] for id_ in ids) for ids in found.bought[1:3]]
    assert [record["clean_picks"] for record in found.history] == [*clean, None]
    assert found.clean_share() == sum(clean) / 12
    nobody_knows = looped("random", pool=streamed(POOL).with_columns(), test=None)
    assert nobody_knows.scores == []


def test_a_streamed_pool_gives_what_one_in_memory_gives() -> None:
    assert looped(pool=streamed(POOL)).bought == looped().bought


def test_any_recipe_and_any_rule_can_be_inside() -> None:
    robust = method("prl-l").recipe(noise_rate=0.25, classes=3, epochs=3)

    def least_sure(count: int) -> RuleLike:
        return KeepSmallest(by=signals.confidence, count=count)

    own = active_loop(robust, net, POOL, by=least_sure, **BUYING, **TRAINING)
    named = active_loop(robust, net, POOL, by="confidence", **BUYING, **TRAINING)
    assert own.bought == named.bought
    assert own.run.recipe == robust


@pytest.mark.parametrize("name", ["crust-central", "co-teaching", "l2rw", "top-q"])
def test_recipes_of_every_kind_can_train_inside(name: str) -> None:
    recipe = method(name).recipe(noise_rate=0.25, classes=3, epochs=8)
    clean = {"clean": examples(12, seed=5, corrupt=0.0)} if name == "l2rw" else {}
    found = looped("badge", recipe, epochs=8, batch=4, avoid=Run.trust, **clean)
    assert len(found.scores) == 3
    assert len({id_ for ids in found.bought for id_ in ids}) == 24


def test_training_stops_when_the_labels_are_learnt() -> None:
    found = looped("random", epochs=60, until=TrainedTo(0.9), optimizer=lambda p: torch.optim.Adam(p, lr=0.05))
    assert all(record["epochs"] < 60 and record["train_score"] >= 0.9 for record in found.history)


def test_what_is_kept_on_disk_and_workers_change_nothing(tmp_path: Path) -> None:
    plain = looped("s-badge", pool=streamed(POOL))
    found = looped("s-badge", pool=streamed(POOL), on_disk=tmp_path, workers=1)
    assert_same_loop(found, plain)


def test_a_watcher_hears_of_every_round() -> None:
    heard: list[Moment] = []
    looped("random", watch=heard.append)
    assert [(moment.epoch, moment.epochs) for moment in heard] == [(0, 3), (1, 3), (2, 3)]


def dying(monkeypatch: pytest.MonkeyPatch, at: int) -> Callable[[], int]:
    """Let the write of this number fail, as if the process were killed there; how many there were."""
    count, whole = 0, thresher.core.files.write_whole

    def write(path: Path, fill: Callable[[Path], object]) -> None:
        nonlocal count
        if count == at:
            count += 1
            raise KeyboardInterrupt
        count += 1
        whole(path, fill)

    for module in ("engine.store.checkpoint", "record.outcome", "record.ledger", "record.loop"):
        monkeypatch.setattr(f"thresher.{module}.write_whole", write)
    return lambda: count


def test_a_loop_that_died_at_any_write_ends_as_if_it_had_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = looped(out=tmp_path / "whole", commit_every=0)
    with monkeypatch.context() as patch:
        writes = dying(patch, at=-1)
        looped(out=tmp_path / "counted", commit_every=0)
    assert writes() > 20
    for at in range(0, writes(), 4):
        out = tmp_path / str(at)
        with monkeypatch.context() as patch:
            dying(patch, at)
            with pytest.raises(KeyboardInterrupt):
                looped(out=out, commit_every=0)
        assert_same_loop(looped(out=out, commit_every=0), whole)
        assert_same_loop(looped(out=out), whole)  # a finished loop is only read


def test_only_the_last_training_is_kept_and_the_picks_of_all(tmp_path: Path) -> None:
    looped(out=tmp_path / "a")
    assert [folder.name for folder in (tmp_path / "a" / "rounds").iterdir()] == ["2"]
    assert sorted(path.name for path in (tmp_path / "a" / "picks").iterdir()) == ["0.npz", "1.npz"]


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a module": ({"model": net(seed=0)}, "pass a function that makes the model"),
    "too much": ({"rounds": 9}, "buy fewer"),
    "no picks": ({"count": 0}, "give a whole number of at least 1"),
    "no rounds": ({"rounds": -1}, "give a whole number of at least 0"),
    "no average": ({"recipe": Recipe()}, r"average=Growing\(0.999\)"),
    "a wrong name": ({"by": "s-bage"}, "did you mean 's-badge'"),
    "classes wanted": ({"pool": real_examples(), "by": "margin", "test": None}, "classif|classes"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_work_is_refused_at_the_start(case: str) -> None:
    changes, words = REFUSED[case]
    made: list[nn.Module] = []

    def model() -> nn.Module:
        made.append(net())
        return made[-1]

    with pytest.raises(ThresherError, match=words):
        looped(**{"model": model, **changes})
    assert not made


def test_the_folder_of_another_loop_is_refused(tmp_path: Path) -> None:
    looped("random", out=tmp_path, rounds=1)
    with pytest.raises(ThresherError, match="its by differs"):
        looped("margin", out=tmp_path, rounds=1)
    with pytest.raises(ThresherError, match="its seed differs"):
        looped("random", out=tmp_path, rounds=1, seed=4)
    with pytest.raises(ThresherError, match="its settings differs"):
        looped("random", out=tmp_path, rounds=1, batch=4)
    (tmp_path / "loop.json").write_text("{")
    with pytest.raises(ThresherError, match="is damaged"):
        looped("random", out=tmp_path, rounds=1)


def blanks(count: int = 60) -> Examples:
    """The pool with as many black images beside it, whose labels say nothing."""
    return corrupt(examples(count, corrupt=0.0), "blank:0.5", seed=0)


@pytest.mark.parametrize("by", ["confidence", "entropy", "badge", "s-badge"])
def test_what_is_like_labels_nobody_could_believe_is_avoided(by: str) -> None:
    training: dict[str, Any] = {"epochs": 30, "optimizer": lambda p: torch.optim.Adam(p, lr=0.02), "start": 30}
    plain = looped(by, pool=blanks(), **training)
    wary = looped(by, pool=blanks(), avoid=Run.trust, **training)
    shares = [found.clean_share() for found in (plain, wary)]
    assert shares[1] is not None
    assert shares[0] is not None
    assert shares[1] >= max(shares[0], 0.8), shares
    if by == "entropy":
        assert shares[0] < 0.3, "without it entropy chooses the blanks"


def test_expected_trust_is_the_mean_of_the_nearest_one_by_one() -> None:
    draws = torch.Generator().manual_seed(0)
    rows, known, trust = (torch.randn(*shape, generator=draws) for shape in ((40, 5), (23, 5), (23,)))
    found = mean_of_nearest_rows(known, trust, rows, 4)
    for row, mean in zip(rows, found, strict=True):
        distances = sorted(
            (float((row - other).norm()), float(value)) for other, value in zip(known, trust, strict=True)
        )
        assert float(mean) == pytest.approx(sum(value for _, value in distances[:4]) / 4, abs=1e-5)
    assert float(mean_of_nearest_rows(known, trust, rows, 99)[0]) == pytest.approx(float(trust.mean()), abs=1e-6)


def test_rules_without_a_signal_to_scale_are_refused_at_the_start() -> None:
    with pytest.raises(ThresherError, match="RandomPicks reads no signal"):
        looped("random", avoid=Run.trust)


def test_table_1_stands_beside_every_cell_of_the_paper() -> None:
    suite = SUITES["active"]
    cells = [cell.name for cell in suite.scale("paper").cells if not cell.part_of]
    assert len(cells) == 8
    assert {cell for cell, _ in suite.published} == set(cells)
    assert {cell for cell, _ in suite.shares} == {cell for cell in cells if not cell.endswith("clean")}
    assert len(suite.published) == 8 * 5
    assert len(suite.shares) == 6 * 5
    assert suite.published["mlp-diverse", "margin"].value == 60.5
    assert suite.shares["resnet-class", "s-badge"].value == 36.9
    assert suite.shares["mlp-blank", "confidence"].value == 0.67


STORED = Path(__file__).parent.parent / "results"


@pytest.mark.parametrize(("scale", "cell"), [("small", "digits-blank"), ("paper", "mlp-blank-third")])
def test_confidence_picks_blanks_and_badge_does_not(scale: str, cell: str) -> None:
    """As docs/active.md says of the stored results."""
    rows = compare(SUITES["active"], scale, read(results_file(STORED, "active", scale))[0])
    share = {row.entry.name: row.clean_share or 0.0 for row in rows if row.cell.name == cell}
    assert share["confidence"] < 0.01
    assert min(share["badge"], share["s-badge"]) > 0.95


def test_avoiding_helps_every_rule_and_costs_nothing_where_all_is_clean() -> None:
    """As docs/active.md says of the stored results: on average over the pools, and on the clean one."""
    suite, stored = SUITES["active"], read(results_file(STORED, "active", "small"))[0]
    scores = {(row.entry.name, row.cell.name): row.last for row in compare(suite, "small", stored)}
    for claim in suite.questions:
        gains = {
            cell.name: better.value - worse.value
            for cell in suite.scale("small").cells
            if (better := scores[claim.better[0], cell.name]) and (worse := scores[claim.worse[0], cell.name])
        }
        assert sum(gains.values()) > 0
        assert gains["digits-clean"] > -0.1
