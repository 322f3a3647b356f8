"""The ledger: what it holds, that others can read it, and what trust is."""

import io
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image
from tiny import by_id, examples, net, real_examples, streamed
from torch import Tensor

from thresher import Examples, Ledger, Recipe, Run, ThresherError, fit, signals
from thresher.core.evidence import Evidence
from thresher.core.rule import Decision
from thresher.corruption import corrupt
from thresher.record import epoch_rows
from thresher.record import ledger as ledger_module
from thresher.record.epoch_rows import residual_belief
from thresher.record.outcome import PREVIEW_COUNT
from thresher.record.previews import stored_picture
from thresher.rules import KeepSmallest, from_peer

FORM = {
    "id": pa.int64(),
    "epoch": pa.int32(),
    "peer": pa.int8(),
    "visited": pa.bool_(),
    "signal": pa.float32(),
    "weight": pa.float32(),
    "kept": pa.bool_(),
    "loss": pa.float32(),
    "p_given": pa.float32(),
    "belief": pa.float32(),
    "prediction": pa.int32(),
    "target": pa.int32(),
}
KEEP = KeepSmallest(by=signals.loss, fraction=0.5)


def run(recipe: Recipe, train: Examples | None = None, out: Path | None = None, **settings: Any) -> Run:
    settings = {"epochs": 3, "batch": 8, "device": "cpu", "commit_every": 0.0, **settings}
    return fit(recipe, lambda: net(train.outputs if train else 3), train or examples(), out=out, **settings)


def test_form(tmp_path: Path) -> None:
    made = run(Recipe(each_batch=KEEP), out=tmp_path / "run")
    schema = made.ledger.table().schema
    assert {field.name: field.type for field in schema} == FORM
    real = run(Recipe(), real_examples()).ledger.table().schema.names
    assert real == [*list(FORM)[:-2], "prediction_0", "prediction_1", "target_0", "target_1"]


@pytest.mark.parametrize("peers", [1, 2])
def test_one_row_for_each_example_epoch_and_network(peers: int, tmp_path: Path) -> None:
    train = examples(44)
    rule = from_peer(KEEP) if peers == 2 else KEEP
    table = run(Recipe(peers=peers, each_batch=rule), train, tmp_path / "run").ledger.to_pandas()
    assert len(table) == 44 * 3 * peers
    assert not table.duplicated(["id", "epoch", "peer"]).any()
    assert set(table["id"]) == set(train.ids.tolist())
    assert sorted(set(table["epoch"])) == [1, 2, 3]
    assert sorted(set(table["peer"])) == list(range(peers))
    given = dict(zip(train.ids.tolist(), train.targets.tolist(), strict=True))
    assert (table["target"] == table["id"].map(given)).all()


def test_readable_by_others(tmp_path: Path) -> None:
    made = run(Recipe(each_batch=KEEP), out=tmp_path / "run")
    ours = made.ledger.to_pandas()
    parts = str(tmp_path / "run" / "ledger" / "*.parquet")
    assert len(list((tmp_path / "run" / "ledger").iterdir())) == 3
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "run" / "ledger"), ours, check_exact=True)
    assert polars.read_parquet(parts).sort("epoch", "id")["loss"].to_list() == ours["loss"].tolist()
    with duckdb.connect() as database:
        kept = database.execute(f"select sum(weight), count(*) from '{parts}' where kept and visited").fetchone()
    counted = ours[ours["kept"] & ours["visited"]]
    assert kept == (counted["weight"].sum(), len(counted))


def test_columns_that_come_later_are_in_every_part(tmp_path: Path) -> None:
    """A rule gives one column in the second epoch, another in the third, and none in the last."""

    def rule(evidence: Evidence) -> Decision:
        columns = {2: {"early": evidence.ids.float()}, 3: {"late": evidence.ids % 2}}
        return Decision(torch.ones(len(evidence)), columns.get(evidence.epoch + 1, {}))

    ours = run(Recipe(each_epoch=rule), out=tmp_path / "run", epochs=4).ledger.to_pandas()
    parts = sorted((tmp_path / "run" / "ledger").iterdir())
    assert len(parts) == 4
    assert len({tuple(pq.read_schema(part).names) for part in parts}) == 1
    theirs = pd.read_parquet(tmp_path / "run" / "ledger")
    pd.testing.assert_frame_equal(theirs, ours, check_exact=True)
    assert theirs.groupby("epoch")[["early", "late"]].count().values.tolist() == [[0, 0], [44, 0], [0, 44], [0, 0]]
    assert polars.read_parquet([str(part) for part in parts])["late"].null_count() == 3 * 44
    with duckdb.connect() as database:
        counted = database.execute(
            f"select count(early), count(late) from '{tmp_path}/run/ledger/*.parquet'"
        ).fetchone()
    assert counted == (44, 44)


def test_a_kill_while_parts_get_new_columns_leaves_one_form_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rows(**columns: list[Any]) -> pa.Table:
        return pa.table({"id": [1, 2], **columns})

    parts = ["part-00000.parquet", "part-00001.parquet"]
    ledger = Ledger(tmp_path)
    for _ in parts:
        ledger.add(rows())
        ledger.commit()
    writes = iter(range(1))
    whole = ledger_module._write
    monkeypatch.setattr(ledger_module, "_write", lambda table, path: (next(writes), whole(table, path)))
    ledger.add(rows(late=[1, 2]))
    with pytest.raises(StopIteration):
        ledger.commit()
    monkeypatch.undo()
    again = Ledger(tmp_path, parts)
    again.add(rows(late=[1, 2]))
    again.commit()
    again.add(rows(late=[1.5, 2.5]))
    again.commit()
    forms = [pq.read_schema(tmp_path / part) for part in again.parts]
    assert len(forms) == 4
    assert all(form == forms[0] for form in forms)
    assert again.table().column("late").to_pylist() == [None] * 4 + [1.0, 2.0, 1.5, 2.5]


def test_a_column_that_changes_its_kind_is_refused_in_words(tmp_path: Path) -> None:
    def rule(evidence: Evidence) -> Decision:
        found = {0: evidence.ids > 3, 1: None, 2: evidence.ids.float()}[int(evidence.epoch)]
        return Decision(torch.ones(len(evidence)), {} if found is None else {"sure": found})

    sentence = "The column 'sure' was bool and is now float: let a rule give a column values of one type."
    for out in (None, tmp_path / "run"):
        with pytest.raises(ThresherError, match=sentence):
            run(Recipe(each_epoch=rule), out=out)
    assert set(Ledger.read(tmp_path / "run").table().column("epoch").to_pylist()) == {1, 2}
    stored = Ledger(tmp_path / "run" / "ledger", ["part-00000.parquet"])
    stored.add(pa.table({"id": [1], "sure": [0.5]}))
    with pytest.raises(ThresherError, match="'sure' was bool and is now double"):
        stored.commit()


def test_selected_columns_and_rows_are_the_same_from_memory_and_from_disk(tmp_path: Path) -> None:
    here, there = run(Recipe(each_batch=KEEP)).ledger, run(Recipe(each_batch=KEEP), out=tmp_path / "run").ledger
    where = (pc.field("epoch") == 2) & pc.field("kept")
    for ledger in (here, there):
        rows = ledger.table(["id", "loss"], where)
        assert rows.column_names == ["id", "loss"]
        whole = ledger.to_pandas()
        wanted = whole[(whole["epoch"] == 2) & whole["kept"]]
        assert rows["id"].to_pylist() == wanted["id"].tolist()
    assert here.table(["loss"], where).equals(there.table(["loss"], where))
    with pytest.raises(ThresherError, match="holds no ledger: give the folder of a run"):
        Ledger.read(tmp_path)


def test_rows_say_what_the_network_thought_before_it_learnt() -> None:
    """One step on all examples: loss, probability and prediction are those of the untrained network."""
    train, model = examples(44), net(seed=1)
    with torch.no_grad():
        outputs = model(train.inputs)
    table = fit(Recipe(each_batch=KEEP), model, train, steps=1, batch=44, device="cpu").ledger.to_pandas()
    losses = torch.nn.functional.cross_entropy(outputs, train.targets, reduction="none").numpy()
    assert table["visited"].all()
    np.testing.assert_allclose(table["loss"], losses, rtol=1e-5)
    np.testing.assert_allclose(table["signal"], losses, rtol=1e-5)
    np.testing.assert_allclose(table["p_given"], outputs.softmax(1)[range(44), train.targets], rtol=1e-5)
    assert (table["prediction"] == outputs.argmax(1).numpy()).all()
    assert (table["kept"] == (losses <= np.sort(losses)[21])).all()


@pytest.mark.parametrize("peers", [1, 2])
def test_unvisited_rows_come_from_a_sweep(peers: int) -> None:
    """Half are dropped for the epoch, and five more are the remainder: their rows are the trained network's view."""
    train = examples(45)
    recipe = Recipe(peers=peers, each_epoch=by_id(lambda ids: 2.0 * (ids % 2)))
    made = fit(recipe, net, train, epochs=1, batch=8, device="cpu")
    for place, model in enumerate(made.models):
        table = made.ledger.to_pandas()
        table = table[table["peer"] == place].reset_index()
        visited = table["visited"].to_numpy()
        assert visited.sum() == 16
        assert not visited[train.ids % 2 == 0].any()
        outputs = model.eval()(train.inputs).detach()
        losses = torch.nn.functional.cross_entropy(outputs, train.targets, reduction="none").numpy()
        np.testing.assert_allclose(table["loss"][~visited], losses[~visited], rtol=1e-4)
        chances = outputs.softmax(1)[range(45), train.targets].numpy()
        np.testing.assert_allclose(table["p_given"][~visited], chances[~visited], rtol=1e-4)
        assert (table["prediction"] == outputs.argmax(1).numpy())[~visited].all()
        assert (table["weight"] == 2.0 * (table["id"] % 2)).all()


def test_an_epoch_rule_that_swept_is_believed_for_whom_no_step_visited() -> None:
    train, model = examples(44), net(seed=1)
    losses = torch.nn.functional.cross_entropy(model(train.inputs), train.targets, reduction="none").detach().numpy()
    made = fit(Recipe(each_epoch=KEEP), model, train, epochs=1, batch=22, device="cpu")
    table = made.ledger.to_pandas()
    assert (table["visited"] == (losses <= np.sort(losses)[21])).all()
    np.testing.assert_allclose(table["loss"][~table["visited"]], losses[~table["visited"]], rtol=1e-5)


def test_the_last_visit_counts_when_an_epoch_visits_twice() -> None:
    """44 = 5 · 8 + 4: the second epoch begins with the four that are left, and visits them again at its end."""
    train, seen = examples(44), []

    def noting(evidence: Evidence) -> Tensor:
        seen.append((evidence.ids.tolist(), evidence.losses.tolist()))
        return torch.ones(len(evidence))

    table = run(Recipe(each_batch=noting), train, epochs=2).ledger.to_pandas()
    second = [pair for ids, losses in seen[5:] for pair in zip(ids, losses, strict=True)]
    assert len(second) == 48
    assert len({pair[0] for pair in second}) == 44
    rows = table[table["epoch"] == 2].set_index("id")["loss"]
    for identity, loss in dict(second).items():  # a dict keeps the last of each
        assert rows[identity] == pytest.approx(loss)


@pytest.mark.parametrize("count", [3, 44])
def test_columns_of_an_epoch_rule_are_kept(count: int) -> None:
    def clusters(evidence: Evidence) -> Decision:
        return Decision(torch.ones(len(evidence)), {"cluster": evidence.ids % 5})

    table = run(Recipe(each_epoch=clusters), examples(count), batch=2).ledger.to_pandas()
    assert (table["cluster"] == table["id"] % 5).all()


def test_a_streamed_run_has_the_same_ledger(tmp_path: Path) -> None:
    here, there = run(Recipe(each_batch=KEEP)), run(Recipe(each_batch=KEEP), streamed(examples()), tmp_path / "run")
    pd.testing.assert_frame_equal(here.ledger.to_pandas(), there.ledger.to_pandas(), check_exact=True)


# Trust


def test_trust_is_the_mean_over_epochs_and_networks() -> None:
    table = (made := run(Recipe(peers=2, each_batch=from_peer(KEEP)))).ledger.to_pandas()
    ids, trust = made.trust()
    expected = table.astype({"belief": float}).groupby("id")["belief"].mean()
    assert ids.tolist() == expected.index.tolist()
    np.testing.assert_allclose(trust.numpy(), expected.to_numpy(), rtol=1e-6)


def test_an_empty_ledger_says_why_it_may_be_empty() -> None:
    with pytest.raises(ThresherError, match=r"no rows: let an epoch end.*give out= there, and read Ledger\.read"):
        Ledger().trust()


def test_signals_are_the_means_of_the_visits(tmp_path: Path) -> None:
    """Rows without a signal are left out, not counted as NaN; from memory and from a folder."""
    for out in (None, tmp_path):
        made = run(Recipe(peers=2, each_batch=from_peer(KEEP)), examples(45), out=out)
        table = made.ledger.to_pandas()
        assert table["signal"].isna().any()
        expected = table.astype({"signal": float}).groupby("id")["signal"].mean()
        ids, means = made.ledger.signals()
        assert ids.tolist() == expected.index.tolist()
        np.testing.assert_allclose(means.numpy(), expected.to_numpy(), rtol=1e-6)


def test_residual_belief_is_one_minus_the_rank() -> None:
    losses = np.array([4.0, 1.0, 3.0, 2.0, 0.0])
    slow = [1 - sum(other < loss for other in losses) / 4 for loss in losses]
    assert residual_belief(losses).tolist() == slow
    assert residual_belief(np.array([7.0])).tolist() == [1.0]
    table = run(Recipe(), real_examples(), epochs=1).ledger.to_pandas()
    ranks = table["loss"].rank(method="first") - 1
    np.testing.assert_allclose(table["p_given"], 1 - ranks / 43, rtol=1e-6)


# What the history says of an epoch


def test_figures_by_hand() -> None:
    """Weights 0, 1, 2, 3 by id over four examples, of which the last is corrupt."""
    train = Examples(
        torch.zeros(4, 1, 4, 4), torch.tensor([0, 1, 2, 0]), columns={"is_corrupt": torch.tensor([0, 0, 0, 1]).bool()}
    )
    record = run(Recipe(each_batch=by_id(lambda ids: ids)), train, epochs=1, batch=4).history[0]
    assert record["kept"] == 0.75
    assert record["clean_share"] == pytest.approx(2 / 3)
    assert record["effective"] == pytest.approx(36 / 14 / 4)


def test_nobody_counts() -> None:
    record = run(Recipe(each_batch=by_id(torch.zeros_like)), epochs=1).history[0]
    assert (record["kept"], record["effective"], record["clean_share"]) == (0.0, 0.0, None)
    assert record["skipped"] == record["steps"] == 5


def test_without_the_truth_the_clean_share_is_unknown() -> None:
    train = examples()
    bare = Examples(train.inputs, train.targets)
    assert run(Recipe(), bare).history[0]["clean_share"] is None


# What a finished run leaves for people


@pytest.mark.parametrize("kind", ["in memory", "streamed"])
def test_outcome(kind: str, tmp_path: Path) -> None:
    shuffle = torch.randperm(150, generator=torch.Generator().manual_seed(1))
    train = examples(150).subset(shuffle)
    made = run(Recipe(each_batch=KEEP), train if kind == "in memory" else streamed(train), tmp_path / "run")
    facts = pq.read_table(tmp_path / "run" / "examples.parquet").to_pandas()
    assert list(facts) == ["id", "trust", "target", "true_target", "is_corrupt"]
    assert facts["id"].tolist() == train.ids.tolist()
    trust = dict(zip(*(values.tolist() for values in made.trust()), strict=True))
    assert facts["trust"].tolist() == [trust[i] for i in train.ids.tolist()]
    assert facts["target"].tolist() == train.targets.tolist()
    assert facts["is_corrupt"].tolist() == train.columns["is_corrupt"].tolist()
    with np.load(tmp_path / "run" / "previews.npz") as previews:
        ids, pictures = previews["ids"], dict(previews)
    least = facts.sort_values("trust", kind="stable").head(PREVIEW_COUNT)
    assert ids.tolist() == least["id"].tolist()
    place = {i: p for p, i in enumerate(train.ids.tolist())}
    assert isinstance(train.inputs, Tensor)
    inputs = train.inputs[[place[i] for i in ids.tolist()]]
    span = inputs[:64].max() - inputs[:64].min()
    for at, image in enumerate(inputs):
        expected = (255 * (image[0] - inputs[:64].min()) / span).clamp(0, 255)
        shown = torch.from_numpy(np.array(Image.open(io.BytesIO(stored_picture(pictures, at)))))
        torch.testing.assert_close(shown.float(), expected, atol=0.51, rtol=0)


def test_outcome_of_real_targets_and_of_names(tmp_path: Path) -> None:
    train = corrupt(real_examples(), "signflip:0.3", seed=0)
    run(Recipe(), train, tmp_path / "real")
    facts = pq.read_table(tmp_path / "real" / "examples.parquet").to_pandas()
    expected = ["id", "trust", "target_0", "target_1", "true_target_0", "true_target_1", "is_corrupt"]
    assert list(facts) == expected
    np.testing.assert_array_equal(facts[["target_0", "target_1"]], train.targets)
    base = examples()
    named = Examples(base.inputs, base.targets, classes=3, class_names=("ant", "bee", "cow"))
    run(Recipe(), named, tmp_path / "named")
    schema = pq.read_schema(tmp_path / "named" / "examples.parquet")
    assert schema.metadata[b"class_names"] == b'["ant", "bee", "cow"]'


def test_outputs_of_many_classes_do_not_wait_for_many_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten thousand classes would otherwise keep the outputs of eight thousand examples."""
    few = Examples(torch.zeros(64, 2), torch.arange(64) % 50, classes=50)
    note = epoch_rows.Note(torch.arange(8), torch.randn(8, 50), torch.rand(8), torch.ones(8))
    monkeypatch.setattr(epoch_rows, "MOST_NUMBERS", 3 * note.outputs.numel())
    rows, waited = epoch_rows.EpochRows(few, epoch_rows.steps_at_once(8, 50)), []
    for start in range(0, 64, 8):
        rows.add(epoch_rows.Note(torch.arange(start, start + 8), note.outputs, note.losses, note.weights))
        waited.append(len(rows.notes))
    assert waited == [1, 2, 0, 1, 2, 0, 1, 2]
    assert rows.visited().all()
